"""Limits and rates of a block and a multiprocessor, for each architecture of NVIDIA's GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whet.compiler.errors import TargetError

_KB = 1024
_ARCH = re.compile(r"sm_(\d+)[af]?")


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """Limits and rates of one architecture. Rates are of one multiprocessor and one clock cycle.

    Attributes:
        shared_bytes: shared memory of a block whose kernel asks for as much as there is.
        shared_bytes_multiprocessor: shared memory of a multiprocessor.
        threads_multiprocessor: threads that a multiprocessor holds.
        blocks_multiprocessor: blocks that a multiprocessor holds.
        fma32: fused multiply-adds of float32.
        fma64: fused multiply-adds of float64.
        multiprocessors: of the largest GPU of the architecture that is common.
        special: results of special functions (exp2, rsqrt, conversions).
        sub_partitions: parts of a multiprocessor, each with warps, registers and lanes of its own;
            each issues one warp's instruction.
        threads_block: threads of a block.
        registers_block: 32-bit registers of a block.
        registers_multiprocessor: 32-bit registers of a multiprocessor.
        registers_thread: the most registers of a thread.
        warp_size: threads that run in step.
    """

    shared_bytes: int
    shared_bytes_multiprocessor: int
    threads_multiprocessor: int
    blocks_multiprocessor: int
    fma32: int
    fma64: int
    multiprocessors: int
    special: int = 16
    sub_partitions: int = 4
    threads_block: int = 1024
    registers_block: int = 65536
    registers_multiprocessor: int = 65536
    registers_thread: int = 255
    warp_size: int = 32


# "Technical Specifications per Compute Capability" and "Throughput of Native Arithmetic
# Instructions", CUDA C++ Programming Guide: shared memory of a block and of a multiprocessor in KB,
# threads and blocks of a multiprocessor, multiply-adds of float32 and of float64. From data sheets:
# multiprocessors of P100, GTX 1080 Ti, TX2, V100, Xavier, T4, A100, RTX 3090, Orin, RTX 4090, H200,
# B200, B300, Thor, RTX 5090 and GB10. Then special functions and sub-partitions, where they are not
# 16 and 4.
_ROWS: dict[int, tuple[int, ...]] = {
    60: (48, 64, 2048, 32, 64, 32, 56, 16, 2),
    61: (48, 96, 2048, 32, 128, 4, 28, 32),
    62: (48, 64, 2048, 32, 128, 4, 2, 32),
    70: (96, 96, 2048, 32, 64, 32, 80),
    72: (96, 96, 2048, 32, 64, 32, 8),
    75: (64, 64, 1024, 16, 64, 2, 40),
    80: (163, 164, 2048, 32, 64, 32, 108),
    86: (99, 100, 1536, 16, 128, 2, 82),
    87: (163, 164, 1536, 16, 128, 2, 16),
    89: (99, 100, 1536, 24, 128, 2, 128),
    90: (227, 228, 2048, 32, 128, 64, 132),
    100: (227, 228, 2048, 32, 128, 64, 148),
    103: (227, 228, 2048, 32, 128, 2, 148),
    110: (227, 228, 1536, 24, 128, 2, 20),
    120: (99, 100, 1536, 24, 128, 2, 170),
    121: (99, 100, 1536, 24, 128, 2, 48),
}
_LIMITS: dict[int, GpuLimits] = {
    number: GpuLimits(block_kb * _KB, multiprocessor_kb * _KB, *rates)
    for number, (block_kb, multiprocessor_kb, *rates) in _ROWS.items()
}
#: the most shared memory that a block has on any of them
MOST_SHARED_BYTES = max(x.shared_bytes for x in _LIMITS.values())
#: what NVIDIA's compiler knows, too, and is not in the table
_WITH_LEAST = (50, 52, 53, 88, 101)
#: what every one has: for an architecture that is not in the table
LEAST = GpuLimits(48 * _KB, 64 * _KB, 1024, 16, 64, 2, 64)


def limits_of(arch: str) -> GpuLimits:
    """The limits of ``arch``, e.g. ``"sm_80"`` or ``"sm_90a"``; the least for one not known here.

    Raises:
        TargetError: it is no name of an architecture.
    """
    named = _ARCH.fullmatch(arch)
    if named is None:
        raise TargetError(
            f"the limits of arch={arch!r}",
            "it is no architecture of NVIDIA's",
            "sm_80, sm_90, ...: sm_ and the compute capability without its point",
        )
    return _LIMITS.get(int(named[1]), LEAST)


def architectures() -> tuple[str, ...]:
    """The architectures that code is made for, oldest first: ``"sm_50"`` to ``"sm_121"``."""
    return tuple(f"sm_{number}" for number in sorted({*_LIMITS, *_WITH_LEAST}))


def is_architecture(arch: str) -> bool:
    """True for one of :func:`architectures`, with the letter of its own code if it has one.

    Args:
        arch: e.g. ``"sm_80"``, ``"sm_90a"``, ``"sm_100f"``.
    """
    named = _ARCH.fullmatch(arch)
    if named is None or f"sm_{named[1]}" not in architectures():
        return False
    letter = arch[len("sm_") + len(named[1]) :]
    return int(named[1]) >= {"": 0, "a": 90, "f": 100}[letter]
