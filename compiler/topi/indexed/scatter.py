"""Elements put where indices say: into a copy of a tensor, one after the other.

Indices may count from the end; one outside is the nearest. Where two updates meet, the later one
wins, or they are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError, nearest
from whet.compiler.te import Tensor, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops.ops import const, maximum, minimum
from whet.compiler.topi.shapes import check_integers, counted, one_axis, static

Combine = Callable[[Any, Any], Any]
Target = Callable[[Sequence[Any], Callable[..., Any]], Sequence[Any]]

_COMBINE: dict[str, Combine] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": maximum,
    "min": minimum,
}


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """A copy of ``data`` in which ``updates[i, j]`` is at ``[indices[i, j], j]``, for axis 0.

    Args:
        data: any tensor.
        indices: integers, as many dimensions as ``data``.
        updates: of the shape of ``indices`` and the type of ``data``.
        axis: along which.
        reduction: ``"update"``, ``"add"``, ``"mul"``, ``"max"`` or ``"min"``.

    Raises:
        ArgumentError: shapes, types or the reduction do not fit.
    """
    request = f"scatter_elements({data}, {indices}, {updates}, {axis}, {reduction!r})"
    k = one_axis(axis, data.ndim, request)
    if not data.ndim == indices.ndim == updates.ndim:
        raise ArgumentError(request, "data, indices and updates differ in dimensions")

    def target(at: Sequence[Any], index: Callable[..., Any]) -> list[Any]:
        return [counted(index(*at), data.shape[d]) if d == k else i for d, i in enumerate(at)]

    return _put(data, indices, updates, reduction, target, request)


def scatter(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """:func:`scatter_elements` where the later update wins."""
    return scatter_elements(data, indices, updates, axis)


def scatter_nd(
    data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update", index_axis: int = 0
) -> Tensor:
    """A copy of ``data`` in which ``updates[y, ...]`` is at ``[indices[0, y], ..., ...]``.

    Args:
        data: any tensor.
        indices: integers (m, Y ...), m at most ``data``'s dimensions.
        updates: (Y ..., the dimensions of ``data`` behind the first m).
        mode: ``"update"``, ``"add"``, ``"mul"``, ``"max"`` or ``"min"``.
        index_axis: 0, or -1: the indices are (Y ..., m), as ONNX and TensorFlow have them.

    Raises:
        ArgumentError: shapes, types or the mode do not fit.
    """
    request = f"scatter_nd({data}, {indices}, {updates}, {mode!r})"
    if index_axis not in (0, -1) or not indices.ndim:
        raise ArgumentError(request, "index_axis is 0 or -1, and indices have a dimension")
    depth, outer = static(indices.shape[index_axis], request), indices.ndim - 1
    if depth > data.ndim or updates.ndim != outer + data.ndim - depth:
        raise ArgumentError(request, f"{depth} indices and {updates.ndim} dimensions of updates")

    def target(at: Sequence[Any], index: Callable[..., Any]) -> list[Any]:
        own = list(at[:outer])
        places = [[k, *own] if index_axis == 0 else [*own, k] for k in range(depth)]
        return [*(counted(index(*p), data.shape[k]) for k, p in enumerate(places)), *at[outer:]]

    return _put(data, indices, updates, mode, target, request)


def _put(
    data: Tensor, indices: Tensor, updates: Tensor, reduction: str, target: Target, request: str
) -> Tensor:
    """A copy of ``data`` into which updates are put.

    Args:
        target: from an update's place, and what reads an index, to the place in ``data``.
    """
    check_integers(indices, request)
    if reduction not in _COMBINE:
        hint = nearest(reduction, _COMBINE)
        raise ArgumentError(request, f"there is no reduction {reduction!r}", hint)
    if updates.dtype != data.dtype:
        raise ArgumentError(request, f"updates are {updates.dtype}", "cast them")
    combine = _COMBINE[reduction]

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = ir_builder.create()
        source, index, update = (ib.buffer_ptr(b) for b in ins)
        made = ib.buffer_ptr(outs[0])

        def copied(at: list[Any]) -> None:
            made[tuple(at)] = source[tuple(at)]

        def put(at: list[Any]) -> None:
            place = tuple(target(at, lambda *i: index[tuple(i)]))
            made[place] = combine(made[place], update[tuple(at)])

        nest(ib, data.shape, copied)
        nest(ib, updates.shape, put)
        return ib.get()

    said = {"reduction": reduction}
    return extern(
        tuple(data.shape), [data, indices, updates], body, "T_scatter", data.dtype, attrs=said
    )


def nest(ib: Any, extents: Sequence[Any], body: Callable[[list[Any]], None]) -> None:
    """Loops of these extents around ``body``, which takes their variables."""

    def level(k: int, at: list[Any]) -> None:
        if k == len(extents):
            body(at)
            return
        with ib.for_range(const(0), extents[k], name=f"i{k}") as i:
            level(k + 1, [*at, i])

    level(0, [])


def strided_set(
    a: Tensor,
    v: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Tensor:
    """A copy of ``a`` in which ``a[begin:end:strides]`` is ``v``, by numpy's rules.

    Args:
        a: any tensor.
        v: of the shape of that part, and of the type of ``a``.
        begin, end, strides: an int for each axis; strides of 1 by default.

    Raises:
        ArgumentError: a stride is 0, the numbers of values differ, or ``v`` does not fit.
    """
    request = f"strided_set({a}, {v}, {list(begin)}, {list(end)}, {strides})"
    steps = list(strides) if strides else [1] * len(begin)
    if not len(begin) == len(end) == len(steps) <= a.ndim or 0 in steps:
        raise ArgumentError(request, "give one begin, end and stride, not 0, for each axis")
    shape = [static(d, request) for d in a.shape]
    parts = [range(n)[x:y:s] for n, x, y, s in zip(shape, begin, end, steps)]
    parts += [range(n) for n in shape[len(begin) :]]
    if [static(d, request) for d in v.shape] != [len(p) for p in parts] or v.dtype != a.dtype:
        raise ArgumentError(request, f"the part is {a.dtype}{[len(p) for p in parts]}")

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = ir_builder.create()
        source, part = (ib.buffer_ptr(b) for b in ins)
        made = ib.buffer_ptr(outs[0])

        def copied(at: list[Any]) -> None:
            made[tuple(at)] = source[tuple(at)]

        def put(at: list[Any]) -> None:
            place = tuple(i * p.step + p.start for i, p in zip(at, parts))
            made[place] = part[tuple(at)]

        nest(ib, a.shape, copied)
        nest(ib, v.shape, put)
        return ib.get()

    said = {"parts": [(p.start, p.stop, p.step) for p in parts]}
    return extern(tuple(a.shape), [a, v], body, "T_strided_set", a.dtype, attrs=said)
