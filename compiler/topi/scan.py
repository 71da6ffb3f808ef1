"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops.ops import add, const, convert, multiply
from whet.compiler.topi.shapes import is_one, is_zero, known, one_axis
from whet.compiler.topi.tag import SCAN

# Steps whose sums do not wait for the ones before: only the last of them does.
_BLOCK = 8
# Neighbours that go on at once where the scan runs across rows: a page of them.
_ACROSS = 1024
_ACROSS_OPEN = 32  # where it is not known how many there are: the rest goes on one by one


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False
) -> Tensor:
    """The sum of all elements up to each one, along ``axis``.

    Args:
        data: any tensor.
        axis: None: of all elements in a row.
        dtype: of the sums; that of the data by default.
        exclusive: without the element itself: the first sum is 0.

    Raises:
        ArgumentError: there is no such axis.
    """
    return _scan("cumsum", data, axis, dtype, bool(exclusive), add, 0)


def cumprod(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False
) -> Tensor:
    """The product of all elements up to each one, along ``axis``; arguments as :func:`cumsum`."""
    return _scan("cumprod", data, axis, dtype, bool(exclusive), multiply, 1)


def _scan(
    name: str,
    data: Tensor,
    axis: int | None,
    dtype: str | None,
    exclusive: bool,
    combine: Callable[[Any, Any], Any],
    begin: int,
) -> Tensor:
    request = f"{name}({data}, axis={axis})"
    shape = [known(d) for d in data.shape]
    if axis is None:
        shape = [prod(shape)]
    k = one_axis(axis or 0, len(shape), request)
    kind = dtype or data.dtype
    if kind == "bool":
        raise ArgumentError(request, "one bit does not hold a sum", 'dtype="int32"')
    sizes = prod(shape[:k]), shape[k], prod(shape[k + 1 :])

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        given = ib.buffer_ptr(ins[0], shape=sizes)
        made = ib.buffer_ptr(outs[0], shape=sizes)
        first = const(begin, kind)
        if any(map(is_zero, sizes)):
            ib.emit(const(0))
        elif is_one(convert(sizes[2])):
            _along(ib, given, made, sizes, kind, exclusive, combine, first)
        else:
            _across(ib, given, made, sizes, kind, exclusive, combine, first)
        return ib.get()

    said = {"sizes": sizes, "exclusive": exclusive, "operation": combine.__name__}
    return extern(tuple(shape), [data], body, name=f"T_{name}", dtype=kind, tag=SCAN, attrs=said)


def _along(
    ib: Any, given: Any, made: Any, sizes: Any, kind: str, exclusive: bool, combine: Any, first: Any
) -> None:
    """Rows: sums within a block are independent of what came before, which is added last."""
    rows, length, _ = sizes
    is_open = not isinstance(length, int)
    block = _BLOCK if is_open else min(_BLOCK, length)
    whole = length // block
    with ib.for_range(0, rows, name="i") as i:
        carry = ib.allocate(kind, 1, name="carry", scope="local")
        carry[0] = first

        def steps(begin: Any, count: int) -> None:
            """One block: the carry goes through one operation."""
            before, totals = carry[0], list[Any]()
            for t in range(count):
                x = given[i, begin + t, 0].astype(kind)
                totals.append(ib.let(f"sum{t}", combine(totals[-1], x) if t else x))
            old = ib.let("before", before)
            results = [combine(old, total) for total in totals]
            for t, result in zip(range(count), [old, *results] if exclusive else results):
                made[i, begin + t, 0] = result
            carry[0] = results[-1]

        with ib.for_range(0, whole, name="b") as b:
            steps(b * block, block)
        if is_open:
            with ib.for_range(0, length % block, name="t") as t:
                steps(whole * block + t, 1)
        elif length % block:
            steps(const(whole * block), length % block)


def _across(
    ib: Any, given: Any, made: Any, sizes: Any, kind: str, exclusive: bool, combine: Any, first: Any
) -> None:
    """Columns: each row is the one before it and the next of the data, in vectors."""
    count, length, width = sizes
    is_open = not isinstance(width, int)
    size = _ACROSS_OPEN if is_open else min(_ACROSS, width)

    def columns(i: Any, begin: Any, many: int) -> None:
        with ib.for_range(0, many, name="j", kind="vectorize") as j:
            x = given[i, 0, begin + j].astype(kind)
            made[i, 0, begin + j] = first if exclusive else x
        with (
            ib.for_range(1, length, name="k") as k,
            ib.for_range(0, many, name="j", kind="vectorize") as j,
        ):
            x = given[i, k - 1 if exclusive else k, begin + j].astype(kind)
            made[i, k, begin + j] = combine(made[i, k - 1, begin + j], x)

    with ib.for_range(0, count, name="i") as i:
        with ib.for_range(0, width // size, name="b") as b:
            columns(i, b * size, size)
        if is_open:
            with ib.for_range(0, width % size, name="c") as c:
                columns(i, width // size * size + c, 1)
        elif width % size:
            columns(i, const(width // size * size), width % size)
