"""Whole models beside onnxruntime and OpenVINO, in turns in one process, checked against them.

    python benchmarks/models/run.py [NAME ...] [--log LOG] [--threads 1] [--rounds 30] [--save]

NAME is an ONNX file, or one of the networks that the ``onnx`` package brings, with random weights;
by default all nine of them. Without ``--log`` every kernel has its default config.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]

import harness

import argparse
import time
from typing import Any

import numpy as np

import whet
from whet.bench.light_models import LIGHT, randomised
from whet.bench.cpu.models import error_of, peers
from whet.compiler.errors import WhetError


def contest(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The times of one model, its error beside the first peer, and what it took to build."""
    proto = randomised(name) if name in LIGHT else _file(name)
    begin = time.perf_counter()
    graph = whet.from_onnx(proto)
    imported = time.perf_counter()
    model = whet.compile(graph, target=f"llvm -num_threads={options.threads}", log=options.log)
    built = time.perf_counter()
    rng = np.random.default_rng(0)
    inputs = {v.name: rng.standard_normal(v.shape).astype(v.dtype) for v in graph.inputs}
    out = [np.empty(v.shape, v.dtype) for v in graph.outputs]
    given = list(inputs.values())
    calls: dict[str, Any] = {"whet": lambda: model.run(given, out)}
    data, errors = proto.SerializeToString(), {}
    model.run(given, out)
    theirs, _ = peers(data, inputs, options.threads)
    for library, call in theirs.items():
        calls[library] = call
        errors[library] = error_of(out, call())
    samples = harness.interleaved(calls, options.rounds)
    return {
        "ms": {n: 1e3 * s.median for n, s in samples.items()},
        "least_ms": {n: 1e3 * s.best for n, s in samples.items()},
        "error": errors,
        "import_s": imported - begin,
        "build_s": built - imported,
        "kernels": len(model.calls),
        "arena": model.arena.size / max(model.arena.least, 1),
    }


def _file(name: str) -> Any:
    import onnx

    if not Path(name).is_file():
        raise SystemExit(f"{name}: no such file; of the onnx package: {', '.join(LIGHT)}")
    return onnx.load(name)


def line(name: str, found: dict[str, Any]) -> str:
    """A model's line."""
    ms = found["ms"]
    peers = {n: t for n, t in ms.items() if n != "whet"}
    times = ", ".join(f"{n} {t:.2f}" for n, t in ms.items())
    ratio = f", {min(peers.values()) / ms['whet']:.2f} x the best" if peers else ""
    error = max(found["error"].values(), default=0.0)
    return (
        f"{name}: {times} ms{ratio}; error {error:.1e}; import {found['import_s']:.2f} s, build "
        f"{found['build_s']:.2f} s, {found['kernels']} calls, arena x {found['arena']:.2f}"
    )


def main() -> None:
    """Time the models, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="ONNX files, or networks of the onnx package")
    parser.add_argument("--log", help="a tuning log")
    parser.add_argument("--threads", type=int, default=1)
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
