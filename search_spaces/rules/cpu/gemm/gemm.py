"""The computation of a GEMM, cut into register tiles.

    T[it, jt, ir, jv, jl] = sum over k of a[it * mr + ir, k] * b[k, jt * nr + jv * lanes + jl]
    C[i, j] = epilogue(T[i // mr, j // nr, i % mr, j % nr // lanes, j % lanes])

A tile of T is whole even where C ends, and made of whole vectors, so that the loops that sum it up
have no guards and no narrower vectors. Where B is read in place, what its last vectors have beyond
its end is masked to zero. Either operand may be packed into panels of the tile's height or width:

    Q[it, k, ir] = a[it * mr + ir, k]        P[jt, k, jr] = b[k, jt * nr + jr]

A tail, the last few columns, may be computed apart from the tiles, as R (`tail.py`).
Where K is summed up in parts, T has one more axis, and C adds those of an element up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.search_spaces.forms.gemm import GemmForm, Operand
from whet.search_spaces.rules.cpu.gemm.plan import Plan
from whet.search_spaces.rules.cpu.gemm.stages import or_zero
from whet.search_spaces.rules.cpu.gemm.tail import Tail, tail_of


@dataclass(frozen=True, eq=False)
class GemmStages:
    """The tensors of a GEMM under a plan.

    Attributes:
        form, plan: what they are made for.
        Q, P: the panels of A and B, or None.
        L: the lines of A, computed where they are read, or None: its last one again and again
            behind its end, so that tiles have all rows.
        B: what the tiles read of B: its panels, or B in place.
        tail: the stages of the tail, or None.
        tiles: T. plain: C before its epilogue.
    """

    form: GemmForm
    plan: Plan
    Q: Tensor | None
    L: Tensor | None
    P: Tensor | None
    B: Tensor
    tail: Tail | None
    tiles: Tensor
    plain: Tensor


def stages_of(form: GemmForm, plan: Plan, op: Operation, lines: bool = False) -> GemmStages:
    """The computation of a GEMM under a plan.

    Args:
        op: the stage, which reads the operands as they are by now.
        lines: whether A, if it is read in place, is computed by lines.
    """
    size, (a, b) = form.size, form.operands(op)
    M = size.M - plan.tail
    mr, nr, lanes = plan.mr, plan.nr, plan.lanes_of(size.dtype)
    lead = tuple(axis.extent for axis in form.lead)
    Q = P = L = None
    if plan.pack_a:
        Q = _panels(a, lead, size.N, size.K, mr, not size.transpose_a)
    elif lines and not size.transpose_a:
        L = _lines(a, lead, size.N, size.K, mr)
    if plan.pack_b != "none":
        P = _panels(b, lead, M, size.K, nr, size.transpose_b)
    each = size.K // plan.k_parts
    step = te.reduce_axis((0, each), name="k")

    def tile(*index: Any) -> Any:
        *x, it, jt, ir, jv, jl = index
        jr = jv * lanes + jl
        k = x.pop() * each + step if plan.k_parts > 1 else step
        if L is not None:
            left = L(*x, it * mr + ir, k)
        elif Q is None:
            left = a.at(x, _within(it * mr + ir, size.N, mr), k)
        else:
            left = Q(*x, it, k, ir)
        if P is None:
            j = jt * nr + jr
            right = or_zero(b.at(x, j, k), [j < M] if M % nr else [])
        else:
            right = P(*x, jt, k, jr)
        return te.sum(left * right, axis=step)

    parts = (plan.k_parts,) if plan.k_parts > 1 else ()
    shape = (*lead, *parts, -(-size.N // mr), -(-M // nr), mr, nr // lanes, lanes)
    tiles = te.compute(shape, tile, name=f"{op.name}.tiles")
    tail = tail_of(form, op, plan) if plan.tail else None
    plain = te.compute(tuple(op.output_shape(0)), _element(form, plan, tiles, tail), name=op.name)
    B = b.load.producer if P is None else P
    return GemmStages(form, plan, Q, L, P, B, tail, tiles, plain)


def _element(form: GemmForm, plan: Plan, tiles: Tensor, tail: Tail | None) -> Callable[..., Any]:
    """An element of the result by its index: of a tile, of the parts of K, or of the tail."""
    M, mr, nr, lanes = form.size.M - plan.tail, plan.mr, plan.nr, plan.lanes_of(form.size.dtype)
    _, at_lead, at_rows, at_columns = form.places

    def element(*index: Any) -> Any:
        i, j = (
            flattened([index[n] for n in places], [axis.extent for axis in axes])
            for places, axes in ((at_rows, form.rows), (at_columns, form.columns))
        )
        batch, at = [index[n] for n in at_lead], [i // mr, j // nr, i % mr, j % nr // lanes]
        if plan.k_parts > 1:
            return reduce(add, (tiles(*batch, n, *at, j % lanes) for n in range(plan.k_parts)))
        if tail is not None:
            # the same for all lanes of a vector
            whole = j // lanes < M // lanes
            return te.if_then_else(whole, tiles(*batch, *at, j % lanes), tail.at(batch, i, j - M))
        x = [*batch, *at]
        value = tiles(*x, j % lanes)
        if lanes <= form.size.M:
            return value
        # of a single vector only what is read would be summed, in ever narrower pieces: this
        # says that all of it is, in a case that never comes
        return te.if_then_else(j < form.size.M, value, tiles(*x, lanes - 1))

    return element


def flattened(index: list[Any], extents: list[int]) -> Any:
    """The number of a place on several axes; 0 where there are none."""
    if not index:
        return te.const(0, "int32")
    return reduce(lambda i, at: i * at[0] + at[1], zip(extents[1:], index[1:]), index[0])


def _within(place: Any, extent: int, tile: int) -> Any:
    """An index of a tile that may reach beyond the end, clamped to the last one."""
    return place if extent % tile == 0 else te.min(place, extent - 1)


def _lines(operand: Operand, lead: tuple[int, ...], extent: int, K: int, tile: int) -> Tensor:
    """An operand as it is, its last row again up to the end of its last tile."""

    def element(*index: Any) -> Any:
        *x, place, k = index
        return operand.at(x, _within(place, extent, tile), k)

    shape = (*lead, -(-extent // tile) * tile, K)
    return te.compute(shape, element, name=f"{operand.load.producer.name}.lines")


def _panels(
    operand: Operand, lead: tuple[int, ...], extent: int, K: int, width: int, transposed: bool
) -> Tensor:
    """An operand in panels of ``width``; what is beyond its end is zero, or its last row again.

    Args:
        transposed: the operand is stored with K innermost: a tile of it is transposed as it is
            read, and only a loop whose indices are clamped is split into whole tiles and a tail.
    """

    def element(*index: Any) -> Any:
        *x, panel, k, inside = index
        place = panel * width + inside
        if transposed:
            return operand.at(x, _within(place, extent, width), k)
        return or_zero(operand.at(x, place, k), [place < extent] if extent % width else [])

    shape = (*lead, -(-extent // width), K, width)
    return te.compute(shape, element, name=f"{operand.load.producer.name}.packed")
