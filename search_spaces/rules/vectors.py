"""A processor's vectors: elements in a register, registers, and loops over tiles that fill them."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.target import Target
from whet.compiler.te import Stage
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.processors import is_zen4


def define_width(cfg: Prefixed, target: Target, default: int | None = None) -> int:
    """Define the knob of the width of vectors where a target has two; the width in bits.

    Args:
        default: in bits; None: the widest.
    """
    widths = vector_widths(target)
    if len(widths) == 1:
        return widths[0]
    return int(cfg.choose("vector_bits", widths, default or widths[0]))


SIDES = (16, 8, 4)
"""Of squares that are transposed in registers (TransposeLoads)."""


def lanes_of(target: Target, dtype: str) -> int:
    """Elements of a type in one vector register."""
    return max(target.vector_bytes // dt.itemsize(dtype), 1)


def vector_widths(target: Target) -> tuple[int, ...]:
    """The widths of vectors that are worth trying on a processor, in bits, the widest first.

    With AVX-512 half a register may be faster: less of it is empty where sizes are odd, some
    processors work through a whole one in two steps, and others lower their clock for it. There
    are as many registers of either width.
    """
    widest = 8 * target.vector_bytes
    return (512, 256) if widest == 512 and not _is_arm(target) else (widest,)


def operation_bits(target: Target) -> int:
    """Bits of the widest vectors of which a processor is taken to multiply two in a cycle.

    AMD's Zen 4 works through one of 512 bits in two steps.
    """
    widest = 8 * target.vector_bytes
    return widest // 2 if widest == 512 and is_zen4(target) else widest


def vector_registers(target: Target) -> int:
    """How many vector registers a processor has: 32 with AVX-512 (and on Arm), else 16."""
    return 32 if target.vector_bytes >= 64 or _is_arm(target) else 16


def _is_arm(target: Target) -> bool:
    triple = str(target.canonical().attrs.get("mtriple", ""))
    return triple.startswith(("aarch64", "arm64"))


def register_tile(stage: Stage, outer: Sequence[IterVar], tile: Sequence[IterVar]) -> None:
    """Put the loops of a register tile innermost: the last one is vectorised, the others unrolled.

    Args:
        stage: whose loops they are.
        outer, tile: the loops around a tile and its own, outermost first.
    """
    stage.reorder(*outer, *tile)
    for axis in tile[:-1]:
        stage.unroll(axis)
    stage.vectorize(tile[-1])
