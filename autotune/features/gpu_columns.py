"""The columns of programs for a GPU: threads, blocks, memory, and the static model's estimate.

They stand in the places of a processor's columns for the program as a whole, the estimate first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.features.batch import Batch, Owners
from whet.autotune.features.counts import Counts, log, program_columns
from whet.autotune.features.gpu_work import GpuWork
from whet.autotune.features.loops.arithmetic import KINDS
from whet.measure.device.specs import SPECS, GpuSpec
from whet.measure.gpu.cost.model import LIMITS, predict

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
        target: a canonical CUDA target; a common GPU stands in where there is no model of its
            architecture.
    """
    arch = str(target.attrs.get("arch", "")).rstrip("af")
    spec = SPECS.get(arch, SPECS["sm_80"])
    c = Counts(b, VECTOR_BYTES, REGISTERS)
    kernels = GpuWork(b, c, spec)
    columns = program_columns(b, c) | _of_kernels(kernels, spec) | _of_accesses(b, kernels)
    return np.stack([columns[name] for name in GPU_PROGRAM], axis=1).astype(np.float32)


def _of_kernels(kernels: GpuWork, spec: GpuSpec) -> dict[str, np.ndarray]:
    w, prediction = kernels.work, predict(spec, kernels.work)
    total, seconds = Owners(kernels.candidate, kernels.candidates).total, prediction.seconds
    # The columns are of the kernel that takes most of a candidate's time.
    longest = kernels.longest(np.where(np.isfinite(seconds), seconds, 1e30))
    finite = np.where(np.isfinite(seconds), seconds, 10.0)  # it cannot be launched
    blocks = np.maximum(w.blocks, 1.0)
    full = np.maximum(prediction.resident, 1.0) * spec.multiprocessors
    sizes = {
        "blocks": w.blocks, "threads": w.threads, "waves": prediction.waves,
        "registers": w.registers, "shared.bytes": w.shared_bytes,
        "local.bytes": kernels.local_bytes, "phases": w.phases, "chain": w.chain,
        "in_flight": w.in_flight,
    }  # fmt: skip
    return {
        **{f"seconds.{k}": np.log2(total(prediction.parts[k]) + 1e-9) for k in LIMITS},
        **{name: log(values[longest]) for name, values in sizes.items()},
        "estimate": np.log2(total(finite)),
        "resident": prediction.resident[longest],
        "occupancy": prediction.occupancy[longest],
        "tail": (np.ceil(blocks / full) * full / blocks)[longest],
        "kernels": total(np.ones(len(blocks))),
        "l2.bytes": log(total(w.l2_bytes)),
        "memory.bytes": log(total(w.memory_bytes)),
    }


def _of_accesses(b: Batch, kernels: GpuWork) -> dict[str, np.ndarray]:
    total = Owners(b.candidate[b.statement], b.n).total
    of_global = kernels.of_global
    loads, banks = total(of_global), total(kernels.instructions * kernels.is_shared)
    return {
        "loads.global": log(loads),
        "loads.shared": log(banks),
        "coalesced": total(of_global * kernels.least_sectors)
        / np.maximum(total(of_global * kernels.sectors), 1.0),
        "conflicts": total(kernels.wavefronts) / np.maximum(banks, 1.0),
        "vector.bytes": total(of_global * kernels.lane_bytes) / np.maximum(loads, 1.0),
    }
