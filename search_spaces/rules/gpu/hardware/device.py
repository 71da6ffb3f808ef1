"""The limits and rates of a GPU that schedules and estimates need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.target import Target
from whet.compiler.target.gpu_limits import GpuLimits, limits_of

REGISTERS = 65536
"""32-bit registers of a multiprocessor, from sm_50 on."""
MOST_THREADS = 2048
"""Threads that a multiprocessor holds; consumer GPUs hold 1536, which decides nothing here."""

LANES = 128
"""Threads of a multiprocessor that an instruction is issued for in a cycle, from sm_70 on."""


@dataclass(frozen=True)
class Gpu:
    """The properties of a GPU that an estimate of a kernel's time needs.

    Attributes:
        shared: bytes of shared memory that a block may have.
        many: multiprocessors.
        fma: multiply-adds of float32 of a multiprocessor in a cycle.
    """

    shared: int
    many: int
    fma: int

    @staticmethod
    def of(target: Target) -> Gpu:
        """The properties of a target."""
        return Gpu(shared_bytes(target), processors(target), limits(target).fma32)


def architecture(target: Target) -> int:
    """80 for ``sm_80`` and ``sm_80a``; 80 where the target does not say."""
    name = str(target.canonical().attrs.get("arch", "") or "")
    digits = "".join(c for c in name.removeprefix("sm_") if c.isdigit())
    return int(digits) if digits else 80


def processors(target: Target) -> int:
    """Multiprocessors: what the target says, else those of a usual GPU of its architecture."""
    given = target.attrs.get("multi_processor_count", 0)
    if given:
        return int(given)
    return limits(target).multiprocessors


def limits(target: Target) -> GpuLimits:
    """Limits and rates of the target's architecture."""
    return limits_of(f"sm_{architecture(target)}")


def shared_bytes(target: Target) -> int:
    """Shared memory that a block may have."""
    return int(target.canonical().attrs.get("max_shared_memory_per_block", 0) or 49152)


def balance(warps: Any, parts: int = 4) -> Any:
    """The share of a multiprocessor's lanes that have a warp while the fullest part is at work.

    A warp stays in one part of a multiprocessor. Of seven warps one part has a single one: it idles
    while the others do their second.

    Args:
        warps: that the multiprocessor holds at a time, at least one: an integer, or an array.
        parts: of the multiprocessor.
    """
    return warps / (parts * -(-warps // parts))
