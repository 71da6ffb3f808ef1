"""What products and convolutions compute on a GPU: tiles of sums of factors in shared memory.

    S[k, i] = left(i, k)                        a block's part of a factor, in shared memory
    T[i, j] = sum over k of S[k, i] * Z[k, j]   a thread's part of the tile, in registers
    C[...]  = epilogue(T[i, j])

S, Z and T are whole tiles even where the result ends, so that the loops that sum up have no guards:
a place beyond the end reads the last one once more, a step beyond the end is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.search_spaces.gpu.product_plan import Plan

Read = Callable[[tuple, tuple, Any, Any, Any], Any]


@dataclass(frozen=True)
class Factor:
    """One factor of a product, as a block copies it into shared memory.

    Attributes:
        name: of its stages.
        extent: how many places along the result it has.
        lanes: elements that lie side by side in memory and may be read at once; they divide the
            extent, or the steps where ``along_steps``.
        along_steps: whether neighbours in memory are neighbours along the steps of the sum.
        read: ``(lead, outer, place, step, lane) -> value``: the element of a product of the batch,
            at the outer steps of the sum. ``place`` (or ``step``, where ``along_steps``) counts
            vectors of ``lanes`` elements, of which ``lane`` is one. Its result may be zero by
            an ``if_then_else``.
    """

    name: str
    extent: int
    lanes: int
    along_steps: bool
    read: Read


@dataclass(frozen=True)
class Sums:
    """The tiles of sums, before anything is made of them.

    Attributes:
        factors: the left one and the right one.
        shared: the stage of each in shared memory.
        registers: of each what a thread has read of it, to be turned into shared memory; or None.
        tile: T.
        partial: parts of the sums in the memory of the device, where the steps are shared out.
        lead: dimensions of T in front of its rows: the batch, and the parts of the sum.
    """

    factors: tuple[Factor, Factor]
    shared: tuple[Tensor, Tensor]
    registers: tuple[Tensor | None, Tensor | None]
    tile: Tensor
    partial: Tensor | None
    lead: tuple[int, ...]


def sums_of(
    left: Factor,
    right: Factor,
    lead: tuple[int, ...],
    outer: tuple[tuple[str, int], ...],
    steps: int,
    plan: Plan,
    dtype: str,
) -> Sums:
    """The sums of products under a plan.

    Args:
        left, right: the factors; the result has a row for each place of the left one, a column for
            each of the right one.
        lead: extents of the batch.
        outer: names and extents of the sum's other axes; each of their steps has all ``steps``.
        steps: of the sum, cut into blocks of ``plan.step``.
        dtype: of what is summed up.
    """
    many = plan.split_k
    whole = covered(-(-steps // many), plan.step)
    front = (*lead, many) if many > 1 else lead
    counts = (steps, whole, many)
    a, a_read = _shared(left, plan.rows, front, outer, counts, dtype)
    b, b_read = _shared(right, plan.columns, front, outer, counts, dtype)
    k = te.reduce_axis((0, whole), name="k")
    others = [te.reduce_axis((0, extent), name=name) for name, extent in outer]

    def tile(*index: Any) -> Any:
        *x, i, j = index
        product = a(*x, *others, k, i) * b(*x, *others, k, j)
        return te.sum(product, axis=[k, *others])

    shape = (*front, covered(left.extent, plan.rows), covered(right.extent, plan.columns))
    sums = te.compute(shape, tile, name="tile")
    partial = None
    if many > 1:
        partial = te.compute(
            (*front, left.extent, right.extent), lambda *index: sums(*index), name="partial"
        )
    return Sums((left, right), (a, b), (a_read, b_read), sums, partial, front)


def added(sums: Sums, plan: Plan) -> Tensor:
    """What holds the whole sums, ``[*lead, i, j]``: T, or the stage that adds their parts."""
    if sums.partial is None:
        return sums.tile
    partial = sums.partial
    *lead, _, rows, columns = (int(d) for d in partial.shape)
    z = te.reduce_axis((0, plan.split_k), name="z")
    return te.compute(
        (*lead, rows, columns),
        lambda *index: te.sum(partial(*index[:-2], z, *index[-2:]), axis=z),
        name="total",
    )


def _shared(
    f: Factor,
    size: int,
    lead: tuple[int, ...],
    outer: tuple[tuple[str, int], ...],
    steps: tuple[int, int, int],
    dtype: str,
) -> tuple[Tensor, Tensor | None]:
    """A factor in shared memory, steps first; and what a thread reads of it, if it is turned."""
    many, (k_all, whole, parts) = len(lead), steps
    places, lanes = covered(f.extent, size), f.lanes
    front = (*lead, *(extent for _, extent in outer))

    def value(x: tuple, o: tuple, place: Any, step: Any, lane: Any) -> Any:
        last = f.extent // (1 if f.along_steps else lanes) - 1
        at = place if f.extent == places else te.min(place, last)
        unit = lanes if f.along_steps else 1
        if parts > 1:
            step, x = x[-1] * (whole // unit) + step, x[:-1]
        found = f.read(x, o, at, step, lane).astype(dtype)
        if whole * parts == k_all:
            return found
        return te.if_then_else(step < k_all // unit, found, te.const(0, dtype))

    if f.along_steps and lanes > 1:
        read = te.compute(
            (*front, places, whole // lanes, lanes),
            lambda *i: value(i[:many], i[many:-3], i[-3], i[-2], i[-1]),
            name=f"{f.name}.read",
        )
        made = te.compute(
            (*front, whole, places),
            lambda *i: read(*i[:-2], i[-1], i[-2] // lanes, i[-2] % lanes),
            name=f"{f.name}.shared",
        )
        return made, read

    def element(*i: Any) -> Any:
        place, step = i[-1], i[-2]
        if f.along_steps:
            return value(i[:many], i[many:-2], place, step, 0)
        return value(i[:many], i[many:-2], place // lanes, step, place % lanes)

    return te.compute((*front, whole, places), element, name=f"{f.name}.shared"), None


def covered(extent: int, tile: int) -> int:
    """The extent of all tiles that an extent needs."""
    return -(-extent // tile) * tile
