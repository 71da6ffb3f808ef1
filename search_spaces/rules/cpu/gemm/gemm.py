"""The computation of a GEMM, cut into register tiles.

    T[it, jt, ir, jv, jl] = sum over k of a[it * mr + ir, k] * b[k, jt * nr + jv * lanes + jl]
    C[i, j] = epilogue(T[i // mr, j // nr, i % mr, j % nr // lanes, j % lanes])

A tile of T is whole even where C ends, and made of whole vectors, so that the loops that sum it up
have no guards and no narrower vectors. Where B is read in place, what its last vectors have beyond
its end is masked to zero. Either operand may be packed into panels of the tile's height or width:

    Q[it, k, ir] = a[it * mr + ir, k]        P[jt, k, jr] = b[k, jt * nr + jr]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.search_spaces.forms.gemm import GemmForm, Operand
from whet.search_spaces.rules.cpu.gemm.plan import Plan
from whet.search_spaces.rules.cpu.gemm.stages import or_zero


@dataclass(frozen=True, eq=False)
class GemmStages:
    """The tensors of a GEMM under a plan.

    Attributes:
        form, plan: what they are made for.
        Q, P: the panels of A and B, or None.
        B: what the tiles read of B: its panels, or B in place.
        tiles: T. plain: C before its epilogue.
    """

    form: GemmForm
    plan: Plan
    Q: Tensor | None
    P: Tensor | None
    B: Tensor
    tiles: Tensor
    plain: Tensor


def stages_of(form: GemmForm, plan: Plan, op: Operation) -> GemmStages:
    """The computation of a GEMM under a plan.

    Args:
        op: the stage, which reads the operands as they are by now.
    """
    size, (a, b) = form.size, form.operands(op)
    mr, nr, lanes = plan.mr, plan.nr, plan.lanes_of(size.dtype)
    lead = tuple(axis.extent for axis in form.lead)
    Q = P = None
    if plan.pack_a:
        Q = _panels(a, lead, size.N, size.K, mr, not size.transpose_a)
    if plan.pack_b != "none":
        P = _panels(b, lead, size.M, size.K, nr, size.transpose_b)
    k = te.reduce_axis((0, size.K), name="k")

    def tile(*index: Any) -> Any:
        *x, it, jt, ir, jv, jl = index
        jr = jv * lanes + jl
        if Q is None:
            left = a.at(x, _within(it * mr + ir, size.N, mr), k)
        else:
            left = Q(*x, it, k, ir)
        if P is None:
            j = jt * nr + jr
            right = or_zero(b.at(x, j, k), [j < size.M] if size.M % nr else [])
        else:
            right = P(*x, jt, k, jr)
        return te.sum(left * right, axis=k)

    shape = (*lead, -(-size.N // mr), -(-size.M // nr), mr, nr // lanes, lanes)
    tiles = te.compute(shape, tile, name=f"{op.name}.tiles")
    _, at_lead, at_rows, at_columns = form.places

    def element(*index: Any) -> Any:
        i, j = (
            flattened([index[n] for n in places], [axis.extent for axis in axes])
            for places, axes in ((at_rows, form.rows), (at_columns, form.columns))
        )
        x = [*(index[n] for n in at_lead), i // mr, j // nr, i % mr, j % nr // lanes]
        value = tiles(*x, j % lanes)
        if lanes <= size.M:
            return value
        # of a single vector only what is read would be summed, in ever narrower pieces: this
        # says that all of it is, in a case that never comes
        return te.if_then_else(j < size.M, value, tiles(*x, lanes - 1))

    plain = te.compute(tuple(op.output_shape(0)), element, name=op.name)
    return GemmStages(form, plan, Q, P, b.load.producer if P is None else P, tiles, plain)


def flattened(index: list[Any], extents: list[int]) -> Any:
    """The number of a place on several axes; 0 where there are none."""
    if not index:
        return te.const(0, "int32")
    return reduce(lambda i, at: i * at[0] + at[1], zip(extents[1:], index[1:]), index[0])


def _within(place: Any, extent: int, tile: int) -> Any:
    """An index of a tile that may reach beyond the end, clamped to the last one."""
    return place if extent % tile == 0 else te.min(place, extent - 1)


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
