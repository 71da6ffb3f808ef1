"""Sorting along an axis, and places in what is sorted.

A merge sort from short runs to long ones, written as loops: stable, so that equal elements keep
their order, and n * log2(n) steps for a row of n. NaN is the largest of all numbers, as numpy's
and PyTorch's sorts have it: last where rows ascend, first where they descend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.ops import (
    all_of,
    any_of,
    cast,
    const,
    logical_not,
    max_value,
    min_value,
    minimum,
    select,
)
from whet.compiler.topi.shapes import check_integers, is_zero, known, one_axis, static
from whet.compiler.topi.tag import INJECTIVE

_RUN = 8  # elements of a run that insertion sorts


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """The elements of each row along ``axis``, sorted; of the shape and type of ``data``.

    Raises:
        ArgumentError: there is no such axis, or its extent is symbolic.
    """
    return _sorted(data, axis, is_ascend, None, "int32", ("values",), f"sort({data}, {axis})")[0]


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: str = "float32",
) -> Tensor:
    """The places of the elements of each row along ``axis`` in sorted order; equal ones in theirs.

    Args:
        data: any tensor of numbers.
        valid_count: how many elements of each row count, integers of the other dimensions of
            ``data``; those behind stand last, in their order. None: all do.
        axis: along which.
        is_ascend: from the least to the largest.
        dtype: of the places.

    Raises:
        ArgumentError: there is no such axis, its extent is symbolic, or ``valid_count`` does not
            fit.
    """
    request = f"argsort({data}, axis={axis}, dtype={dtype!r})"
    if valid_count is not None:
        data = _counted(data, valid_count, one_axis(axis, data.ndim, request), is_ascend, request)
    return _sorted(data, axis, is_ascend, None, dtype, ("indices",), request)[0]


def _counted(data: Tensor, count: Tensor, at: int, ascend: bool, request: str) -> Tensor:
    """``data`` with what sorts last, and is stable, in the places behind those that count."""
    check_integers(count, request)
    if count.ndim != data.ndim - 1:
        raise ArgumentError(request, f"valid_count has not the {data.ndim - 1} other dimensions")
    last = max_value(data.dtype) if ascend else min_value(data.dtype)
    if dt.is_float(data.dtype):
        last = const(math.nan if ascend else -math.inf, data.dtype)

    def element(*i: Any) -> Any:
        return select(i[at] < count(*i[:at], *i[at + 1 :]), data(*i), last)

    return compute(data.shape, element, "T_counted", INJECTIVE)


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int64",
) -> Tensor | list[Tensor]:
    """The ``k`` largest elements of each row along ``axis``, sorted, and their places.

    Args:
        data: any tensor of numbers.
        k: how many; all for a number below 1.
        axis: along which.
        ret_type: ``"both"``, ``"values"`` or ``"indices"``.
        is_ascend: the least instead, from the least on.
        dtype: of the places.

    Raises:
        ArgumentError: there is no such axis, there are fewer elements, or their number is symbolic.
    """
    request = f"topk({data}, {k}, axis={axis}, ret_type={ret_type!r})"
    wanted = {"both": ("values", "indices"), "values": ("values",), "indices": ("indices",)}
    if ret_type not in wanted:
        raise ArgumentError(request, "there is no such ret_type", "'both', 'values' or 'indices'")
    made = _sorted(data, axis, is_ascend, k, dtype, wanted[ret_type], request)
    return made if ret_type == "both" else made[0]


def _sorted(
    data: Tensor,
    axis: int,
    ascend: bool,
    k: int | None,
    dtype: str,
    wanted: Sequence[str],
    request: str,
) -> list[Tensor]:
    """The first ``k`` of each sorted row: values, places, or both."""
    at = one_axis(axis, data.ndim, request)
    shape, n = [known(d) for d in data.shape], static(data.shape[at], request)
    many = n if k is None or k < 1 else k
    if many > n:
        raise ArgumentError(request, f"axis {at} has {n} elements only")
    out = (*shape[:at], many, *shape[at + 1 :])
    sizes = prod(shape[:at]), n, prod(shape[at + 1 :])
    kinds = [data.dtype if what == "values" else dtype for what in wanted]
    less = _less(data.dtype, ascend)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        given = ib.buffer_ptr(ins[0], shape=sizes)
        made = [ib.buffer_ptr(b, shape=(sizes[0], many, sizes[2])) for b in outs]
        if any(map(is_zero, (*sizes, many))):
            ib.emit(const(0))
            return ib.get()
        with ib.for_range(0, sizes[0] * sizes[2], name="row", kind="parallel") as row:
            i, j = row // sizes[2], row % sizes[2]
            keys, places = _merge_sorted(ib, lambda t: given[i, t, j], n, data.dtype, less)
            with ib.for_range(0, many, name="t") as t:
                for what, target in zip(wanted, made):
                    source = keys if what == "values" else places
                    target[i, t, j] = cast(target.dtype, source[t])
        return ib.get()

    found = extern(
        [out] * len(wanted), [data], body, name="T_sort", dtype=kinds,
        attrs={"axis": at, "ascend": bool(ascend), "k": many, "wanted": list(wanted)},
    )  # fmt: skip
    return [found] if isinstance(found, Tensor) else list(found)


def _less(dtype: str, ascend: bool) -> Callable[[Any, Any], Any]:
    """True where one element must stand before another."""

    def smaller(a: Any, b: Any) -> Any:
        if dt.is_float(dtype):  # NaN is the largest: no comparison with it holds
            return any_of(a < b, all_of(a.equal(a), b != b))
        return a < b

    return smaller if ascend else lambda a, b: smaller(b, a)


def _merge_sorted(ib: Any, read: Any, n: int, dtype: str, less: Any) -> tuple[Any, Any]:
    """A row of ``n`` elements, sorted: the elements, and the places that they had."""
    keys = [ib.allocate(dtype, n, name=f"keys{k}", scope="global") for k in (0, 1)]
    places = [ib.allocate("int32", n, name=f"places{k}", scope="global") for k in (0, 1)]
    _runs(ib, read, n, dtype, less, keys[0], places[0])
    length, source = _RUN, 0
    while length < n:
        target = 1 - source
        _merged(ib, n, length, less, (keys[source], places[source], keys[target], places[target]))
        length, source = 2 * length, target
    return keys[source], places[source]


def _runs(ib: Any, read: Any, n: int, dtype: str, less: Any, keys: Any, places: Any) -> None:
    """Sorts each run of a few elements by insertion, as it is read."""
    hole = ib.allocate("int32", 1, name="hole", scope="local")
    value = ib.allocate(dtype, 1, name="value", scope="local")
    with ib.for_range(0, n, name="t") as t:
        value[0] = read(t)
        hole[0] = t
        begin = t // _RUN * _RUN
        before = select(hole[0] > begin, hole[0] - 1, hole[0])
        with ib.while_loop(all_of(hole[0] > begin, less(value[0], keys[before]))):
            keys[hole[0]] = keys[hole[0] - 1]
            places[hole[0]] = places[hole[0] - 1]
            hole[0] = hole[0] - 1
        keys[hole[0]] = value[0]
        places[hole[0]] = t


def _merged(ib: Any, n: int, length: int, less: Any, arrays: tuple[Any, Any, Any, Any]) -> None:
    """Merges pairs of runs of ``length`` elements; of equal ones the left one is first."""
    keys, places, new_keys, new_places = arrays
    heads = ib.allocate("int32", 2, name="heads", scope="local")
    with ib.for_range(0, -(-n // (2 * length)), name="pair") as pair:
        begin = ib.let("begin", pair * (2 * length))
        middle = ib.let("middle", minimum(begin + length, n))
        end = ib.let("end", minimum(begin + 2 * length, n))
        heads[0] = begin
        heads[1] = middle
        with ib.for_range(begin, end, name="t") as t:
            left, right = ib.let("left", heads[0]), ib.let("right", heads[1])
            # one that is used up reads its last element, or its neighbour's, which does not count
            a = ib.let("a", keys[minimum(left, n - 1)])
            b = ib.let("b", keys[minimum(right, n - 1)])
            takes = any_of(left >= middle, all_of(right < end, less(b, a)))
            second = ib.let("second", takes)
            new_keys[t] = select(second, b, a)
            new_places[t] = places[select(second, right, left)]
            heads[0] = select(second, left, left + 1)
            heads[1] = select(second, right + 1, right)


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: str = "int64"
) -> Tensor:
    """The places at which ``values`` would be put into sorted rows, as numpy's.

    Args:
        sorted_sequence: (n,), or (..., n) with the outer dimensions of ``values``; it ascends.
        values: (..., m), or any shape where there is one row.
        right: behind the elements that are equal, not in front of them.
        out_dtype: of the places, from 0 to n.

    Returns:
        A tensor of the shape of ``values``.

    Raises:
        ArgumentError: the shapes or the types do not fit, or an extent is symbolic.
    """
    request = f"searchsorted({sorted_sequence}, {values})"
    rows, shape = ([static(d, request) for d in t.shape] for t in (sorted_sequence, values))
    if sorted_sequence.dtype != values.dtype:
        raise ArgumentError(request, "the types of the two differ", "cast the values")
    if len(rows) != 1 and rows[:-1] != shape[:-1]:
        raise ArgumentError(request, "the outer dimensions differ", "one row for all of them")
    n, inner = rows[-1], (shape[-1] if len(rows) > 1 else prod(shape))
    less = _less(values.dtype, True)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        row = ib.buffer_ptr(ins[0], shape=(prod(rows[:-1]), n))
        value = ib.buffer_ptr(ins[1], shape=(prod(rows[:-1]), inner))
        made = ib.buffer_ptr(outs[0], shape=(prod(rows[:-1]), inner))
        if 0 in shape:
            ib.emit(const(0))
            return ib.get()
        with ib.for_range(0, prod(shape), name="t", kind="parallel") as t:
            i, j = t // inner, t % inner
            ends = ib.allocate("int32", 2, name="ends", scope="local")
            ends[0], ends[1] = 0, n
            one = ib.let("one", value[i, j])
            with ib.while_loop(ends[0] < ends[1]):
                middle = ib.let("middle", (ends[0] + ends[1]) // 2)
                at = ib.let("at", row[i, middle])
                behind = ib.let("behind", logical_not(less(one, at)) if right else less(at, one))
                with ib.if_scope(behind):
                    ends[0] = middle + 1
                with ib.else_scope():
                    ends[1] = middle
            made[i, j] = cast(out_dtype, ends[0])
        return ib.get()

    said = {"right": bool(right)}
    return extern(
        tuple(shape), [sorted_sequence, values], body, "T_searchsorted", out_dtype, attrs=said
    )
