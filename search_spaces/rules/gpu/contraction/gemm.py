"""What products and convolutions compute on a GPU: tiles of sums of factors in shared memory.

    S[k, i] = left(i, k)                        a block's part of a factor, in shared memory
    T[i, j] = sum over k of S[k, i] * Z[k, j]   a thread's part of the tile, in registers
    C[...]  = epilogue(T[i, j])

S, Z and T are whole tiles even where the result ends, so that the loops that sum up have no guards:
a place beyond the end reads the last one once more, a step beyond the end is zero.

With slices, groups of a block's threads have the same tile, and steps of their own in each S::

    T[g, i, j] = sum over the steps k of slice g of S[k, i] * Z[k, j]
    P[g, i, j] = T[g, i, j]                     in shared memory
    C[...]     = epilogue(sum over g of P[g, i, j])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops
from whet.search_spaces.rules.gpu.contraction.gemm_plan import Plan

Read = Callable[[tuple, tuple, Any, Any, Any], Any]
Multiplied = Callable[[Any, Any], Any]


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
        slices: P, where there are slices.
        whole: what has all of a block's sums: T, or the stage that adds the slices.
        partial: parts of the sums in the memory of the device, where the steps are shared out.
        lead: dimensions of T in front of its rows: the batch, and the parts of the sum.
    """

    factors: tuple[Factor, Factor]
    shared: tuple[Tensor, Tensor]
    registers: tuple[Tensor | None, Tensor | None]
    tile: Tensor
    slices: Tensor | None
    whole: Tensor
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
    multiplied: Multiplied = ops.multiply,
) -> Sums:
    """The sums of products under a plan.

    Args:
        left, right: the factors; the result has a row for each place of the left one, a column for
            each of the right one.
        lead: extents of the batch.
        outer: names and extents of the sum's other axes; each of their steps has all ``steps``.
        steps: of the sum, cut into blocks of ``plan.step``.
        dtype: of what is multiplied.
        multiplied: the product of two elements, as it is summed up.
    """
    many = plan.split_k
    whole = covered(-(-steps // many), plan.step)
    front = (*lead, many) if many > 1 else lead
    counts = (steps, whole, many)
    a, a_read = _shared(left, plan.rows, front, outer, counts, dtype)
    b, b_read = _shared(right, plan.columns, front, outer, counts, dtype)
    sums = _tile(left, right, a, b, front, outer, whole, plan, multiplied)
    slices, total = None, sums
    if plan.slices > 1:
        slices = te.compute(sums.shape, lambda *index: sums(*index), name="slices")
        total = _over(slices, -3, plan.slices, "tile.sum")
    partial = None
    if many > 1:
        partial = te.compute(
            (*front, left.extent, right.extent), lambda *index: total(*index), name="partial"
        )
    factors, shared, read = (left, right), (a, b), (a_read, b_read)
    return Sums(factors, shared, read, sums, slices, total, partial, front)


def _tile(
    left: Factor,
    right: Factor,
    a: Tensor,
    b: Tensor,
    front: tuple[int, ...],
    outer: tuple[tuple[str, int], ...],
    steps: int,
    plan: Plan,
    multiplied: Multiplied,
) -> Tensor:
    """What a thread sums up, ``[*front, i, j]``, or ``[*front, slice, i, j]``."""
    own, many = plan.step // plan.slices, len(front)
    block = te.reduce_axis((0, steps // plan.step), name="k.block")
    k = te.reduce_axis((0, own), name="k")
    others = [te.reduce_axis((0, extent), name=name) for name, extent in outer]

    def element(*index: Any) -> Any:
        x, slice_, (i, j) = index[:many], index[many:-2], index[-2:]
        step = block * plan.step + k
        if slice_:
            step = step + slice_[0] * own
        product = multiplied(a(*x, *others, step, i), b(*x, *others, step, j))
        return te.sum(product, axis=[block, k, *others])

    slices = (plan.slices,) if plan.slices > 1 else ()
    sides = (covered(left.extent, plan.rows), covered(right.extent, plan.columns))
    return te.compute((*front, *slices, *sides), element, name="tile")


def _over(parts: Tensor, axis: int, count: int, name: str) -> Tensor:
    """The sums over one of the axes of a tensor, counted from its end."""
    z = te.reduce_axis((0, count), name="z")
    shape = sizes_of(parts)
    del shape[axis]

    def element(*index: Any) -> Any:
        return te.sum(parts(*index[: axis + 1], z, *index[axis + 1 :]), axis=z)

    return te.compute(tuple(shape), element, name=name)


def sizes_of(tensor: Tensor) -> list[int]:
    """The extents of a tensor that a plan made, as what they are: int() would ask a traced one."""
    return [d.value for d in tensor.shape if isinstance(d, e.IntImm)]


def added(sums: Sums, plan: Plan) -> Tensor:
    """What holds the whole sums, ``[*lead, i, j]``: tiles, or the stage that adds their parts."""
    if sums.partial is None:
        return sums.whole
    return _over(sums.partial, -3, plan.split_k, "total")


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
