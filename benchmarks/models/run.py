"""Whole models beside onnxruntime, OpenVINO and PyTorch, in turns in one process, and checked.

    python benchmarks/models/run.py [NAME ...] [--log LOG] [--threads 1] [--batch 1] [--rounds 30]
        [--frontend onnx|torch] [--save]

NAME is an ONNX file; one of the networks that the ``onnx`` package brings, with random weights, by
default all nine of them; or one of ``whet.bench.networks``: exported to ONNX, with PyTorch itself
and ``torch.compile`` (frozen, channels last) as peers, and with errors against PyTorch in float64.
``--frontend torch`` compiles the exported program in the ONNX file's place, ``--batch`` is for
these networks alone. Without ``--log`` every kernel has its default config. GFLOP/s count a
convolution's direct algorithm, whichever is chosen; the FMA peak is the median of
measurements between the rounds, and of those before them that count calls.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]

import harness
from in_torch import InTorch

import argparse
import time
from typing import Any

import numpy as np

import whet
from whet.bench.light_models import LIGHT, randomised
from whet.bench.cpu.limits import Peak
from whet.bench.cpu.models import peers
from whet.bench.cpu.place import clock_of
from whet.bench.networks import NETWORKS
from whet.compiler.errors import WhetError

_PEAK = "FMA peak"
_MOMENT = 0.02
"""Seconds of a measurement of the peak, in each round."""


def contest(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The times of one model, its errors, and what it took to build."""
    given = InTorch(name, options) if name in NETWORKS else None
    proto = given.onnx() if given else randomised(name) if name in LIGHT else _file(name)
    begin = time.perf_counter()
    if given and options.frontend == "torch":
        graph = whet.from_torch(given.program())
    else:
        graph = whet.from_onnx(proto)
    imported = time.perf_counter()
    model = whet.compile(graph, target=f"llvm -num_threads={options.threads}", log=options.log)
    built = time.perf_counter()
    if given:
        arrays = given.arrays()
    else:
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(v.shape).astype(v.dtype) for v in graph.inputs]
    out = [np.empty(v.shape, v.dtype) for v in graph.outputs]
    calls: dict[str, Any] = {"whet": lambda: model.run(arrays, out)}
    model.run(arrays, out)
    results = {"whet": list(out)}
    theirs, _ = peers(proto.SerializeToString(), dict(zip(_names(proto), arrays)), options.threads)
    for library, call in theirs.items():
        calls[library], results[library] = call, list(call())
    if given:
        calls |= given.peers()
    peak, peaks = Peak(options.threads), []
    calls[_PEAK] = lambda: peaks.append(peak.flops(_MOMENT))
    samples = harness.interleaved(calls, options.rounds, clock_of(options.threads))
    del samples[_PEAK]
    flops = sum(c.flop for c in model.calls) / samples["whet"].median
    return {
        "ms": {n: 1e3 * s.median for n, s in samples.items()},
        "least_ms": {n: 1e3 * s.best for n, s in samples.items()},
        "error": _errors(results, given.exact() if given else None),
        "exact": bool(given),
        "gflops": flops / 1e9,
        "of_peak": flops / median(peaks),
        "import_s": imported - begin,
        "build_s": built - imported,
        "kernels": len(model.calls),
        "arena": model.arena.size / max(model.arena.least, 1),
    }


def _names(proto: Any) -> list[str]:
    """Of the inputs that are no weights."""
    known = {t.name for t in proto.graph.initializer}
    return [i.name for i in proto.graph.input if i.name not in known]


def _errors(results: dict[str, list[Any]], exact: list[Any] | None) -> dict[str, float]:
    """Largest errors over the largest element: against float64, or else ours against each peer."""
    if exact is not None:
        return {name: _distance(made, exact) for name, made in results.items()}
    ours = results["whet"]
    return {n: _distance(ours[:1], made[:1]) for n, made in results.items() if n != "whet"}


def _distance(made: list[Any], wanted: list[Any]) -> float:
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(made, wanted))


def _file(name: str) -> Any:
    import onnx

    if not Path(name).is_file():
        raise SystemExit(f"{name}: no such file; networks: {', '.join([*LIGHT, *NETWORKS])}")
    return onnx.load(name)


def line(name: str, found: dict[str, Any]) -> str:
    """A model's line."""
    ms = found["ms"]
    peers = {n: t for n, t in ms.items() if n != "whet"}
    times = ", ".join(f"{n} {t:.2f}" for n, t in ms.items())
    ratio = f", {min(peers.values()) / ms['whet']:.2f} x the best" if peers else ""
    errors = found["error"]
    error = f"{max(errors.values(), default=0.0):.1e}"
    if found["exact"]:
        error = f"{errors['whet']:.1e} to float64"
        if "onnxruntime" in errors:
            error += f", {errors['whet'] / max(errors['onnxruntime'], 1e-12):.2f} x onnxruntime's"
    return (
        f"{name}: {times} ms{ratio}; {found['gflops']:.0f} GFLOP/s, "
        f"{found['of_peak']:.2f} of the FMA peak; error {error}; "
        f"import {found['import_s']:.2f} s, build {found['build_s']:.2f} s, "
        f"{found['kernels']} calls, arena x {found['arena']:.2f}"
    )


def main() -> None:
    """Time the models, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="ONNX files, or networks")
    parser.add_argument("--log", help="a tuning log")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--frontend", choices=("onnx", "torch"), default="onnx")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    if options.threads == 1:
        harness.pin()
    found, lines = {}, []
    for name in options.names or LIGHT:
        try:
            found[name] = contest(name, options)
            lines.append(line(name, found[name]))
        except WhetError as error:
            lines.append(f"{name}: {error}")
        print(lines[-1], flush=True)
    ratios = [
        min(t for n, t in f["ms"].items() if n != "whet") / f["ms"]["whet"]
        for f in found.values()
        if len(f["ms"]) > 1
    ]
    if ratios:
        lines.append(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f} x the best peer")
    harness.report("models", lines, {"models": found}, f"{options.threads} threads")


if __name__ == "__main__":
    main()
