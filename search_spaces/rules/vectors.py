"""A processor's vectors: elements in a register, registers, and loops over tiles that fill them."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.target import Target
from whet.compiler.te import Stage
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt

SIDES = (16, 8, 4)
"""Of squares that are transposed in registers (TransposeLoads)."""


def lanes_of(target: Target, dtype: str) -> int:
    """Elements of a type in one vector register."""
    return max(target.vector_bytes // dt.itemsize(dtype), 1)


def vector_registers(target: Target) -> int:
    """How many vector registers a processor has: 32 with AVX-512 (and on Arm), else 16."""
    triple = str(target.canonical().attrs.get("mtriple", ""))
    return 32 if target.vector_bytes >= 64 or triple.startswith(("aarch64", "arm64")) else 16


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
