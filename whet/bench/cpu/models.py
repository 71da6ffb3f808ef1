"""Models beside onnxruntime and OpenVINO: in turns in one run, checked against them or float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.bench.cpu.in_float64 import exact_outputs
from whet.bench.cpu.onnx_runtimes import RUNTIMES
from whet.bench.cpu.place import clock_of
from whet.bench.turns import Sample, interleaved, on_cores
from whet.compiler.installed import install_extra, installed_versions

if TYPE_CHECKING:
    from whet.compiler.graph.ir import Value
    from whet.compiler.graph.model import Model

Outputs = Sequence[np.ndarray]

MOST_EXACT = 2e9
"""Arithmetic operations of a model that the ``onnx`` package's Python code computes in float64."""
SETTINGS = {
    "onnxruntime": "CPUExecutionProvider, all optimisations, arrays bound",
    "openvino": "float32 (INFERENCE_PRECISION_HINT f32), one stream, arrays shared",
}
"""Of each peer, beside the number of its threads."""
NO_TORCH = "torch.compile: an ONNX file holds no PyTorch module that it could take"


@dataclass(frozen=True)
class ModelComparison:
    """Contestants that ran the same model on the same inputs.

    Attributes:
        samples: contestant -> its times; ours are those in ``ours``.
        ours: ``"default"``, ``"tuned"``.
        errors: contestant -> the largest error of its outputs, as a part of each one's largest
            number; beside ``exact``.
        exact: what is taken as right: ``"float64"``, or a peer; "": nothing was at hand.
        left_out: peers that could not be had, and why.
        threads: how many each could use.
    """

    samples: Mapping[str, Sample]
    ours: tuple[str, ...]
    errors: Mapping[str, float]
    exact: str
    left_out: tuple[str, ...]
    threads: int

    @property
    def ratio(self) -> float | None:
        """Times faster than the fastest peer our fastest is, by the medians; None: no peer."""
        peers = [s.median for n, s in self.samples.items() if n not in self.ours]
        own = min(self.samples[n].median for n in self.ours)
        return min(peers) / own if peers else None


def drawn_inputs(values: Sequence[Value], seed: int = 0) -> list[np.ndarray]:
    """Arrays for a model's inputs: normal numbers; of integers 0 and 1, which any table has."""
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal(v.shape, "float64" if v.dtype == "float64" else "float32").astype(
            v.dtype, copy=False
        )
        if np.dtype(v.dtype).kind == "f"
        else rng.integers(0, 2, v.shape).astype(v.dtype)
        for v in values
    ]


def compare(
    models: Mapping[str, Model], proto: Any, inputs: Sequence[np.ndarray], threads: int, rounds: int
) -> ModelComparison:
    """Time compiled models and the peers in turns.

    Args:
        models: ours, ``"default"`` first, whose sizes are numbers.
        proto: the ``ModelProto`` that they were compiled from.
        inputs: arrays, in order.
        threads: of ours and of each peer.
        rounds: how often each is timed.
    """
    (first, *_) = models.values()
    named = {v.name: a for v, a in zip(first.inputs, inputs)}
    calls, left_out = peers(proto.SerializeToString(), named, threads)
    results: dict[str, Outputs] = {name: call() for name, call in calls.items()}
    for name, model in models.items():
        out = [np.full(v.shape, 77, v.dtype) for v in first.outputs]
        model.run(inputs, out)
        results[name] = out
        calls[name] = _call(model, inputs, out)
    flop = sum(c.flop for c in first.calls)
    wanted, exact = exact_outputs(proto, named) if flop <= MOST_EXACT else None, "float64"
    if wanted is None:
        exact = next((n for n in results if n not in models), "")
        wanted = [a.copy() for a in results[exact]] if exact else None
    errors = {n: error_of(r, wanted) for n, r in results.items() if wanted is not None}
    errors.pop(exact, None)
    with on_cores(threads):
        samples = interleaved(calls, rounds, clock_of(threads))
    return ModelComparison(samples, tuple(models), errors, exact, (*left_out, NO_TORCH), threads)


def _call(model: Model, inputs: Sequence[np.ndarray], out: Outputs) -> Callable[[], Any]:
    return lambda: model.run(inputs, out)


def peers(
    model: bytes, inputs: Mapping[str, np.ndarray], threads: int
) -> tuple[dict[str, Callable[[], Any]], list[str]]:
    """A call of each peer, which gives its outputs in order; and why another is none.

    Args:
        model: an ONNX model.
        inputs: arrays by their names.
        threads: how many each may use.
    """
    calls: dict[str, Callable[[], Any]] = {}
    left_out = []
    for library, runtime in RUNTIMES.items():
        if find_spec(library) is None:
            left_out.append(f"{library}: it is not installed: {install_extra('bench')}")
            continue
        try:
            calls[library] = runtime(threads, model, dict(inputs))
        except Exception as error:  # whatever a runtime makes of an operator that it lacks
            left_out.append(f"{library}: {str(error).strip().splitlines()[0]}")
    return calls, left_out


def error_of(found: Outputs, wanted: Outputs) -> float:
    """The largest error of some outputs, as a part of each one's largest number."""
    errors = [0.0]
    for f, w in zip(found, wanted, strict=True):
        if w.size:
            off = np.abs(np.asarray(f, np.float64) - np.asarray(w, np.float64)).max()
            errors.append(float(off / (np.abs(w).max() or 1)))
    return max(errors)


def versions() -> str:
    """The versions of what is compared, in a line."""
    found = installed_versions(["whet", "numpy", "llvmlite", "onnx", *RUNTIMES])
    return ", ".join(f"{name} {version}" for name, version in found.items())
