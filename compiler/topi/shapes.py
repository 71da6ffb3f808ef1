"""Numbers that operators need of shapes and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import IntImm, PrimExpr
from whet.compiler.tir.ops import ops


def one_axis(axis: Any, rank: int, asked: str) -> int:
    """An axis by its number from the beginning.

    Raises:
        ArgumentError: there is none of this number.
    """
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ArgumentError(asked, f"there is no axis {axis!r} in {rank} dimensions")
    return axis % rank


def static(value: Any, asked: str) -> int:
    """A size as a Python int.

    Raises:
        ArgumentError: it is not known before the kernel runs.
    """
    x = ops.convert(value)
    if not isinstance(x, IntImm):
        raise ArgumentError(asked, f"{x} is not a constant", "give a shape of constants")
    return int(x.value)


def product(sizes: Sequence[Any]) -> PrimExpr:
    """The number of elements of a shape."""
    out: PrimExpr = ops.const(1)
    for d in sizes:
        out = ops.multiply(out, d)
    return out


def sum_of(sizes: Sequence[Any]) -> PrimExpr:
    """The sum of extents."""
    out: PrimExpr = ops.const(0)
    for d in sizes:
        out = ops.add(out, d)
    return out


def with_axis(items: Sequence[Any], axis: int, item: Any) -> tuple[Any, ...]:
    """A shape or an index with another item for one axis."""
    return (*items[:axis], item, *items[axis + 1 :])


def is_zero(size: Any) -> bool:
    """True for a size that is known to be 0."""
    return isinstance(size, (int, IntImm)) and int(size) == 0


def nearest_inside(index: Any, size: Any) -> PrimExpr:
    """The nearest index from 0 to ``size - 1``."""
    return ops.maximum(ops.minimum(index, size - 1), 0)


def quotient(index: Any, size: Any) -> PrimExpr:
    """``index // size``; 0 for a size of 0, of which there is no index and nothing is computed."""
    return ops.const(0) if is_zero(size) else ops.floordiv(index, size)


def remainder(index: Any, size: Any) -> PrimExpr:
    """``index % size``; 0 for a size of 0, of which there is no index and nothing is computed."""
    return ops.const(0) if is_zero(size) else ops.floormod(index, size)
