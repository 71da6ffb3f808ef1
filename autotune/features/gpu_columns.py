"""The columns of programs for a GPU: threads, blocks, memory, and the static model's estimate.

They stand in the places of a processor's columns for the program as a whole, the estimate first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.features.batch import Batch
from whet.autotune.features.counts import Counts
from whet.autotune.features.gpu_work import GpuWork
from whet.autotune.features.loops.arithmetic import KINDS
from whet.measure.device.specs import SPECS, GpuSpec
from whet.measure.gpu.cost.model import LIMITS, Prediction, predict

if TYPE_CHECKING:
    from whet.compiler.target import Target

VECTOR_BYTES, REGISTERS = 16, 255
"""Bytes that one load takes at most, and registers of a thread."""

GPU_PROGRAM = (
    "estimate", *(f"seconds.{limit}" for limit in LIMITS),
    "blocks", "threads", "virtual", "resident", "occupancy", "waves", "tail",
    "registers", "shared.bytes", "local.bytes", "kernels",
    *(f"flop.{kind}" for kind in KINDS), "redundancy", "steps.wasted",
    "loads.global", "loads.shared", "coalesced", "conflicts", "vector.bytes",
    "l2.bytes", "memory.bytes", "phases", "chain", "in_flight", "body",
    "loop.steps", "unroll.pragma",
)  # fmt: skip
"""The columns. Sizes, counts and times are logarithms to base 2."""


def gpu_columns(b: Batch, target: Target) -> np.ndarray:
    """The rows of a batch, float32 of shape (b.n, len(GPU_PROGRAM)).

    Args:
        b: candidates.
        target: a canonical CUDA target.
    """
    spec = _spec(target)
    c = Counts(b, VECTOR_BYTES, REGISTERS)
    kernels = GpuWork(b, c, spec)
    prediction = predict(spec, kernels.work)
    columns = _of_kernels(kernels, prediction, b.n, spec) | _of_statements(b, c, kernels)
    return np.stack([columns[name] for name in GPU_PROGRAM], axis=1).astype(np.float32)


def _spec(target: Target) -> GpuSpec:
    """The GPU of the target's architecture; a common one where there is no model of it."""
    arch = str(target.attrs.get("arch", "")).rstrip("af")
    return SPECS.get(arch, SPECS["sm_80"])


def _log(x: np.ndarray) -> np.ndarray:
    return np.log2(1.0 + x)


def _of_kernels(
    kernels: GpuWork, prediction: Prediction, n: int, spec: GpuSpec
) -> dict[str, np.ndarray]:
    owner, w = kernels.candidate, kernels.work

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(owner, values, n)

    def longest(values: np.ndarray) -> np.ndarray:
        """Of the kernel that takes most of a candidate's time."""
        return values[kernels.longest(np.where(np.isfinite(seconds), seconds, 1e30))]

    seconds = prediction.seconds
    finite = np.where(np.isfinite(seconds), seconds, 10.0)  # it cannot be launched
    blocks = np.maximum(w.blocks, 1.0)
    full = np.maximum(prediction.resident, 1.0) * spec.multiprocessors
    parts = prediction.parts
    out = {f"seconds.{k}": np.log2(total(parts[k]) + 1e-9) for k in LIMITS}
    return out | {
        "estimate": np.log2(total(finite)),
        "blocks": _log(longest(w.blocks)),
        "threads": _log(longest(w.threads)),
        "resident": longest(prediction.resident),
        "occupancy": longest(prediction.occupancy),
        "waves": _log(longest(prediction.waves)),
        "tail": longest(np.ceil(blocks / full) * full / blocks),
        "registers": _log(longest(w.registers)),
        "shared.bytes": _log(longest(w.shared_bytes)),
        "local.bytes": _log(longest(kernels.local_bytes)),
        "kernels": total(np.ones(len(owner))),
        "l2.bytes": _log(total(w.l2_bytes)),
        "memory.bytes": _log(total(w.memory_bytes)),
        "phases": _log(longest(w.phases)),
        "chain": _log(longest(w.chain)),
        "in_flight": _log(longest(w.in_flight)),
    }


def _of_statements(b: Batch, c: Counts, kernels: GpuWork) -> dict[str, np.ndarray]:
    of, total, most = b.candidate[b.statement], b.total, b.most

    def accesses(values: np.ndarray) -> np.ndarray:
        return np.bincount(of, values, b.n)

    work, needed = b.operations.sum(axis=1), b.needed.prod(axis=1)
    asked = kernels.instructions * kernels.is_global
    least = accesses(kernels.instructions * kernels.is_global * kernels.least_sectors)
    banks = accesses(kernels.instructions * kernels.is_shared)
    out = {f"flop.{kind}": _log(total(c.runs * b.operations[:, k])) for k, kind in enumerate(KINDS)}
    virtual = np.where(b.kind == kernels.VIRTUAL, b.extent, 1.0).prod(axis=1)
    return out | {
        "virtual": _log(most(virtual) - 1),
        "redundancy": np.log2((total(c.runs * work) + 1) / (total(needed * work) + 1)),
        "steps.wasted": np.log2(total(c.runs) / total(needed)),
        "loads.global": _log(accesses(asked)),
        "loads.shared": _log(banks),
        "coalesced": least / np.maximum(accesses(asked * kernels.sectors), 1.0),
        "conflicts": accesses(kernels.wavefronts) / np.maximum(banks, 1.0),
        "vector.bytes": accesses(asked * kernels.lane_bytes) / np.maximum(accesses(asked), 1.0),
        "body": _log(most(c.body)),
        "loop.steps": _log(total(c.loop_steps)),
        "unroll.pragma": _log(most(b.unroll)),
    }
