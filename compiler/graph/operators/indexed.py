"""Operators that look elements up, or put them down, where other arrays say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te, tir, topi
from whet.compiler.te import Tensor, const
from whet.compiler.tir.buffer import Buffer


def _resample(x: Tensor, places: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Along an axis, element i is a sum of elements at ``places[i]`` times ``weights[i]``."""
    count, taps = (int(d) for d in places.shape)
    t = te.reduce_axis((0, taps), name="t")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])

    def element(*i: Any) -> Any:
        k = i[axis]
        at = te.max(te.min(places(k, t), const(int(x.shape[axis]) - 1, "int32")), 0)
        return te.sum(x(*i[:axis], at, *i[axis + 1 :]) * weights(k, t), axis=t)

    return te.compute(shape, element, "T_resample", topi.tag.COMM_REDUCE)


def _top(x: Tensor, k: int, axis: int, largest: bool) -> list[Tensor]:
    """The largest or least k elements along an axis, in order; and their places, as int64.

    Each element's rank is counted: n * n comparisons of a row of n.
    """
    n = int(x.shape[axis])
    r = te.reduce_axis((0, n), name="r")

    def at(i: Sequence[Any], place: Any) -> Any:
        return x(*i[:axis], place, *i[axis + 1 :])

    def before(*i: Any) -> Any:
        one, other = at(i, i[axis]), at(i, r)
        better = other > one if largest else other < one
        same = te.all(other.equal(one), r < i[axis])
        return te.sum(te.select(te.any(better, same), const(1), const(0)), axis=r)

    rank = te.compute(x.shape, before, "T_rank", topi.tag.COMM_REDUCE)
    s = te.reduce_axis((0, n), name="s")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])

    def place(*i: Any) -> Any:
        own = rank(*i[:axis], s, *i[axis + 1 :])
        found = te.select(
            own.equal(te.cast("int32", i[axis])), te.cast("int64", s), const(0, "int64")
        )
        return te.sum(found, axis=s)

    places = te.compute(shape, place, "T_place", topi.tag.COMM_REDUCE)
    values = te.compute(shape, lambda *i: at(i, places(*i)), "T_top", topi.tag.INJECTIVE)
    return [values, places]


Combine = Callable[[Any, Any], Any]
_COMBINE: dict[str, Combine] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": te.max,
    "min": te.min,
}


def _put(
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    reduction: str,
    over: Sequence[Any],
    target: Callable[[Sequence[Any], Callable[..., Any]], Sequence[Any]],
) -> Tensor:
    """A copy of ``x`` into which updates are put, one after the other.

    Args:
        over: extents of the loops over the updates.
        target: from an update's place, and what reads an index, to the place in ``x``.
    """
    combine = _COMBINE[reduction]

    def statement(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Any:
        ib = tir.ir_builder.create()
        source, index, update = (ib.buffer_ptr(b) for b in ins)
        (result,) = (ib.buffer_ptr(b) for b in outs)

        def nest(extents: Sequence[Any], body: Callable[[list[Any]], None]) -> None:
            def level(k: int, at: list[Any]) -> None:
                if k == len(extents):
                    body(at)
                    return
                with ib.for_range(0, extents[k], name=f"i{k}") as i:
                    level(k + 1, [*at, i])

            level(0, [])

        def copied(at: list[Any]) -> None:
            result[tuple(at)] = source[tuple(at)]

        def put(at: list[Any]) -> None:
            place = tuple(target(at, lambda *i: index[tuple(i)]))
            result[place] = combine(result[place], update[tuple(at)])

        nest(x.shape, copied)
        nest(over, put)
        return ib.get()

    made = te.extern([x.shape], [x, indices, updates], statement, "T_scatter", [x.dtype])
    return made if isinstance(made, Tensor) else made[0]


def _counted(place: Any, n: Any) -> Any:
    """An index from the front, of one that may count from the end; one outside is the nearest."""
    wide, many = te.cast("int64", place), te.cast("int64", n)
    counted = te.select(wide < 0, wide + many, wide)
    return te.max(te.min(counted, many - 1), const(0, "int64"))


def _scatter(x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    """Update ``u[i, j]`` goes to ``x[indices[i, j], j]``, for axis 0."""

    def target(at: Sequence[Any], index: Callable[..., Any]) -> list[Any]:
        place = list(at)
        place[axis] = _counted(index(*at), x.shape[axis])
        return place

    return _put(x, indices, updates, reduction, updates.shape, target)


def _scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Update ``u[i, ...]`` goes to ``x[indices[i], ...]``."""
    outer, depth = len(indices.shape) - 1, int(indices.shape[-1])

    def target(at: Sequence[Any], index: Callable[..., Any]) -> list[Any]:
        own = [_counted(index(*at[:outer], k), x.shape[k]) for k in range(depth)]
        return [*own, *at[outer:]]

    return _put(x, indices, updates, reduction, updates.shape, target)


OPERATORS: dict[str, Callable[..., Any]] = {
    "resample": _resample,
    "scatter": _scatter,
    "scatter_nd": _scatter_nd,
    "top_k": _top,
}
"""Name -> function."""
