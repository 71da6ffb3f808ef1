"""Numbers that operators need of shapes and axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from whet.compiler.arith.analyzer import Analyzer
from whet.compiler.errors import ArgumentError
from whet.compiler.tir import IntImm, PrimExpr
from whet.compiler.tir.expr import Add, FloorDiv, Sub
from whet.compiler.tir.ops.ops import (
    cast,
    const,
    convert,
    floordiv,
    floormod,
    maximum,
    minimum,
    multiply,
    select,
)


def one_axis(axis: Any, rank: int, request: str) -> int:
    """An axis by its number from the beginning.

    Raises:
        ArgumentError: there is none of this number.
    """
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ArgumentError(request, f"there is no axis {axis!r} in {rank} dimensions")
    return axis % rank


def static(value: Any, request: str) -> int:
    """A size as a Python int.

    Raises:
        ArgumentError: it is not known before the kernel runs.
    """
    x = convert(value)
    if not isinstance(x, IntImm):
        raise ArgumentError(request, f"{x} is not a constant", "give a shape of constants")
    return int(x.value)


def is_constant(size: Any) -> bool:
    """True for a size that is known before the kernel runs."""
    return isinstance(convert(size), IntImm)


def known(size: Any) -> Any:
    """A size as a Python int, where it is known before the kernel runs; else as it is."""
    x = convert(size)
    return int(x.value) if isinstance(x, IntImm) else x


def is_at_least(size: Any, least: int) -> bool:
    """True for a size that is surely so large, whatever the symbols in it are."""
    return Analyzer().can_prove(convert(size) >= least)


def is_multiple(size: Any, of: int) -> bool:
    """True for a size that is surely a multiple of a number, whatever the symbols in it are."""
    return Analyzer().can_prove(floormod(convert(size), of).equal(0))


def quotient_of(size: Any, more: int, by: int) -> Any:
    """``(size + more) // by``, the quotients in it made one: sizes that are equal look alike.

    ``((n + a) // c + b) // d`` is ``(n + a + b * c) // (c * d)``.

    Args:
        size: of images, an expression where they are open.
        more: a number.
        by: a positive number.
    """
    x = convert(size)
    while isinstance(x, (Add, Sub)) and isinstance(x.b, IntImm):
        more += x.b.value if isinstance(x, Add) else -x.b.value
        x = x.a
    if isinstance(x, FloorDiv) and isinstance(x.b, IntImm) and x.b.value > 0:
        return quotient_of(x.a, more * x.b.value, by * x.b.value)
    found = x + more if more else x
    return found // by if by > 1 else found


def product(sizes: Sequence[Any]) -> PrimExpr:
    """The number of elements of a shape."""
    return reduce(multiply, sizes, const(1))


def with_axis(items: Sequence[Any], axis: int, item: Any) -> tuple[Any, ...]:
    """A shape or an index with another item for one axis."""
    return (*items[:axis], item, *items[axis + 1 :])


def is_zero(size: Any) -> bool:
    """True for a size that is known to be 0."""
    return isinstance(size, (int, IntImm)) and int(size) == 0


def is_one(size: object) -> bool:
    """True for a size that is known to be 1."""
    return isinstance(size, IntImm) and size.value == 1


def nearest_inside(index: Any, size: Any) -> PrimExpr:
    """The nearest index from 0 to ``size - 1``."""
    return maximum(minimum(index, size - 1), 0)


def quotient(index: Any, size: Any) -> PrimExpr:
    """``index // size``; 0 for a size of 0, of which there is no index and nothing is computed."""
    return const(0) if is_zero(size) else floordiv(index, size)


def remainder(index: Any, size: Any) -> PrimExpr:
    """``index % size``; 0 for a size of 0, of which there is no index and nothing is computed."""
    return const(0) if is_zero(size) else floormod(index, size)


def check_integers(indices: Any, request: str) -> None:
    """Refuse indices that are no integers."""
    if not indices.dtype.startswith(("int", "uint")):
        raise ArgumentError(request, f"the indices are {indices.dtype}, not integers", "cast them")


def index_at(indices: Any, *place: Any) -> Any:
    """One of the indices, in the type that indices are computed with."""
    return cast("int64" if indices.dtype.endswith("64") else "int32", indices(*place))


def counted(index: Any, size: Any) -> PrimExpr:
    """An index from the front, of one that may count from the end; one outside is the nearest."""
    wide, many = cast("int64", index), cast("int64", size)
    return maximum(minimum(select(wide < 0, wide + many, wide), many - 1), const(0, "int64"))
