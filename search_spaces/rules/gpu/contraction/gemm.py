"""GEMM on a GPU as stages: operands in shared memory, tiles in registers, split-K.

    S[k, i] = left(i, k)                        a block's part of an operand, in shared memory
    T[i, j] = sum over k of S[k, i] * Z[k, j]   a thread's part of the tile, in registers
    C[...]  = epilogue(T[i, j])

S, Z and T are whole tiles even where the result ends, so that the loops that sum up have no guards:
an M or N index beyond the end reads the last one once more, a K index beyond the end is zero.

With intra-block split-K, groups of a block's threads have the same tile, and K iterations of
their own in each S; a slice is the part of one group::

    T[g, i, j] = sum over the steps k of slice g of S[k, i] * Z[k, j]
    P[g, i, j] = T[g, i, j]                     in shared memory
    C[...]     = epilogue(sum over g of P[g, i, j])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.tir.expr import IntImm
from whet.compiler.tir.ops import ops
from whet.search_spaces.rules.gpu.contraction.gemm_plan import STEPS, Plan
from whet.search_spaces.rules.gpu.hardware.lanes import lanes_of

Read = Callable[[tuple, tuple, Any, Any, Any], Any]
Multiplied = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Operand:
    """One operand of a GEMM, as a block loads it into shared memory.

    Attributes:
        name: of its stages.
        extent: M of the left operand, N of the right one.
        lanes: elements that lie side by side in memory and may be read at once; they divide the
            extent, or K where ``along_steps``.
        along_steps: whether neighbours in memory are neighbours along K.
        read: ``(lead, outer, place, step, lane) -> value``: the element of a GEMM of the batch, at
            indices of the outer reduction axes. ``place`` along M or N (or ``step`` along K, where
            ``along_steps``) counts vectors of ``lanes`` elements, of which ``lane`` is one. Its
            result may be zero by an ``if_then_else``.
    """

    name: str
    extent: int
    lanes: int
    along_steps: bool
    read: Read


def matrix_operand(t: Tensor, extent: int, steps: int, along_steps: bool) -> Operand:
    """A tensor ``[*lead, K, place]`` as an operand, or ``[*lead, place, K]`` if ``along_steps``.

    Args:
        t: the tensor.
        extent: M or N. steps: K.
        along_steps: whether it is contiguous along K.
    """
    many = lanes_of(t.dtype, *((steps, STEPS[0]) if along_steps else (extent, 8)))

    def read(x: tuple, outer: tuple, place: Any, step: Any, lane: Any) -> Any:
        return t(*x, place, step * many + lane) if along_steps else t(*x, step, place * many + lane)

    return Operand(t.name, extent, many, along_steps, read)


@dataclass(frozen=True)
class GemmStages:
    """The stages of a GEMM before its result is stored.

    Attributes:
        plan: what the stages are made for.
        operands: the left one and the right one.
        shared: the stage of each in shared memory.
        registers: of each the stage that a thread reads before it transposes it into shared memory;
            or None.
        tile: T.
        slices: P, where there is intra-block split-K.
        whole: the stage of a block's whole sums: T, or the one that adds the slices.
        partial: partial sums in global memory, where there is inter-block split-K.
        total: the stage of the whole sums, ``[*lead, i, j]``: ``whole``, or the sum of split-K's
            parts.
    """

    plan: Plan

    operands: tuple[Operand, Operand]
    shared: tuple[Tensor, Tensor]
    registers: tuple[Tensor | None, Tensor | None]
    tile: Tensor
    slices: Tensor | None
    whole: Tensor
    partial: Tensor | None
    total: Tensor


def gemm_stages(
    left: Operand,
    right: Operand,
    lead: tuple[int, ...],
    outer: tuple[tuple[str, int], ...],
    steps: int,
    plan: Plan,
    dtype: str,
    multiplied: Multiplied = ops.multiply,
) -> GemmStages:
    """The stages of a GEMM under a plan.

    Args:
        left, right: the operands.
        lead: extents of the batch.
        outer: names and extents of reduction axes around K, each iteration of which has all of K.
        steps: K, cut into blocks of ``plan.step``.
        dtype: of the operands' elements in shared memory.
        multiplied: the term that is summed up, of two elements.
    """
    many = plan.split_k
    whole = covered(-(-steps // many), plan.step)
    front = (*lead, many) if many > 1 else lead
    counts = (steps, whole, many)
    sides = (left, plan.rows), (right, plan.columns)
    (a, a_read), (b, b_read) = (_shared(f, n, front, outer, counts, dtype) for f, n in sides)
    places = [covered(f.extent, n) for f, n in sides]
    sums = _tile(a, b, front, places, outer, whole, plan, multiplied)
    slices, block_sums = None, sums
    if plan.slices > 1:
        slices = te.compute(sums.shape, lambda *index: sums(*index), name="slices")
        block_sums = _over(slices, plan.slices, "tile.sum")
    partial, total = None, block_sums
    if many > 1:
        dims = (*front, left.extent, right.extent)
        partial = te.compute(dims, lambda *index: block_sums(*index), name="partial")
        total = _over(partial, many, "total")
    operands, shared, read = (left, right), (a, b), (a_read, b_read)
    return GemmStages(plan, operands, shared, read, sums, slices, block_sums, partial, total)


def _tile(
    a: Tensor,
    b: Tensor,
    front: tuple[int, ...],
    places: Sequence[int],
    outer: tuple[tuple[str, int], ...],
    steps: int,
    plan: Plan,
    multiplied: Multiplied,
) -> Tensor:
    """The tile of a thread, ``[*front, i, j]``, or ``[*front, slice, i, j]``."""
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
    return te.compute((*front, *slices, *places), element, name="tile")


def _over(parts: Tensor, count: int, name: str) -> Tensor:
    """The sums over the axis before a tensor's rows and columns."""
    z = te.reduce_axis((0, count), name="z")
    *lead, _, rows, columns = sizes_of(parts)
    return te.compute(
        (*lead, rows, columns),
        lambda *index: te.sum(parts(*index[:-2], z, *index[-2:]), axis=z),
        name=name,
    )


def sizes_of(tensor: Tensor) -> list[int]:
    """The extents of a tensor of a plan, unconverted: int() would guard a traced one."""
    return [d.value for d in tensor.shape if isinstance(d, IntImm)]


def _shared(
    f: Operand,
    size: int,
    lead: tuple[int, ...],
    outer: tuple[tuple[str, int], ...],
    steps: tuple[int, int, int],
    dtype: str,
) -> tuple[Tensor, Tensor | None]:
    """An operand in shared memory, K first; and the stage that a thread reads, if it transposes."""
    many, (k_all, whole, parts) = len(lead), steps
    places, lanes = covered(f.extent, size), f.lanes
    front = (*lead, *(extent for _, extent in outer))

    def element(x: tuple, o: tuple, place: Any, step: Any, lane: Any) -> Any:
        last = f.extent // (1 if f.along_steps else lanes) - 1
        at = place if f.extent == places else te.min(place, last)
        unit = lanes if f.along_steps else 1
        if parts > 1:
            step, x = x[-1] * (whole // unit) + step, x[:-1]
        value = f.read(x, o, at, step, lane).astype(dtype)
        if whole * parts == k_all:
            return value
        return te.if_then_else(step < k_all // unit, value, te.const(0, dtype))

    read = None
    if f.along_steps and lanes > 1:
        read = te.compute(
            (*front, places, whole // lanes, lanes),
            lambda *i: element(i[:many], i[many:-3], i[-3], i[-2], i[-1]),
            name=f"{f.name}.read",
        )

    def placed(*i: Any) -> Any:
        *_, step, place = i
        if read is not None:
            return read(*i[:-2], place, step // lanes, step % lanes)
        if f.along_steps:
            return element(i[:many], i[many:-2], place, step, 0)
        return element(i[:many], i[many:-2], place // lanes, step, place % lanes)

    return te.compute((*front, whole, places), placed, name=f"{f.name}.shared"), read


def covered(extent: int, tile: int) -> int:
    """The extent of all tiles that an extent needs."""
    return -(-extent // tile) * tile
