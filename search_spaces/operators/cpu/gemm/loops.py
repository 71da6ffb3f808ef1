"""The loops of a GEMM: what a plan says, as schedule primitives."""

from __future__ import annotations

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.search_spaces.operators.cpu.gemm.gemm import Gemm, GemmStages
from whet.search_spaces.operators.cpu.gemm.plan import Plan
from whet.search_spaces.rules.vectors import register_tile

#: steps of k that an operand is read in where it cannot be transposed in squares
_RUN = 8


def schedule_gemm(g: Gemm, plan: Plan, p: GemmStages, target: Target) -> Schedule:
    """The schedule of a GEMM under the plan that it was made for."""
    s = te.create_schedule(p.result.op)
    if p.result.op is not p.plain.op:
        s[p.plain].compute_inline()
    result, tiles = s[p.result], s[p.tiles]
    batch, outer, innermost = _stored(result, plan)
    *around, ir, jr = tiles.op.axis
    (k,) = tiles.op.reduce_axis
    if plan.k_block:  # all tiles of a block, one block of k after the other
        tiles.compute_at(result, outer)
        *around, it, jt = around
        block, k = tiles.split(k, factor=plan.k_block)
        around += [block, *((jt, it) if plan.order == "rows" else (it, jt))]
        at = tiles, block
    else:  # one tile, over all of k
        tiles.set_scope("local")
        tiles.compute_at(result, innermost)
        at = result, outer
    register_tile(tiles, [*around, *_steps(tiles, k, plan.unroll)], [ir, jr])
    for panels, of_block, transposed, extent, width in (
        (p.P, plan.pack_b == "block", g.transpose_b, g.M, plan.nr),
        (p.Q, plan.order == "rows", not g.transpose_a, g.N, plan.mr),
    ):
        if panels is None:
            continue
        stage = s[panels]
        square = _square(width, g.K, extent, target, g.dtype) if transposed else 0
        first = _packed(stage, transposed, square, whole=g.K % _RUN == 0)
        if panels is p.P and plan.pack_b == "ahead":
            stage.compute_ahead()
        elif of_block:
            stage.compute_at(*at)
        elif batch is not None:
            stage.compute_at(result, batch)
        elif plan.parallel:
            stage.parallel(first)
    if plan.parallel:
        shared = outer if batch is None or g.batch == 1 else batch
        result.parallel(shared, plan.grain or None)
    return s


def _stored(stage: Stage, plan: Plan) -> tuple[IterVar | None, IterVar, IterVar]:
    """The loops of the result: over the batch, over blocks, and the innermost one over tiles."""
    *lead, i, j = stage.op.axis
    it, ii = stage.split(i, factor=plan.mr)
    jt, ji = stage.split(j, factor=plan.nr)
    first, middle = (it, jt) if plan.order == "rows" else (jt, it)
    outer, inner = stage.split(first, factor=plan.block)
    register_tile(stage, [*lead, outer, middle, inner], [ii, ji])
    return (lead[0] if lead else None), outer, inner


def _steps(stage: Stage, k: IterVar, factor: int) -> list[IterVar]:
    """The loop over k with ``factor`` steps of it unrolled."""
    if factor == 1:
        return [k]
    ko, ki = stage.split(k, factor=factor)
    stage.unroll(ki)
    return [ko, ki]


def _packed(stage: Stage, transposed: bool, square: int, whole: bool) -> IterVar:
    """Read an operand in order as it is packed; returns the outermost loop behind the batch.

    Args:
        stage: of the panels.
        transposed: whether the operand is stored with k innermost.
        square: the side of the squares that are transposed in registers, or 0.
        whole: whether runs of k have no rest.
    """
    *lead, panel, k, inside = stage.op.axis
    if not transposed:
        register_tile(stage, [*lead, k, panel], [inside])
        return k
    ko, ki = stage.split(k, factor=square or _RUN)
    if square:
        io, ii = stage.split(inside, factor=square)
        register_tile(stage, [*lead, panel, ko, io], [ki, ii])
        return panel
    stage.reorder(*lead, panel, ko, inside, ki)
    if whole:
        stage.vectorize(ki)
    return panel


def _square(width: int, K: int, extent: int, target: Target, dtype: str) -> int:
    """The side of the squares that are transposed in registers; 0 where they do not divide."""
    most = target.vector_bytes // dt.itemsize(dtype)
    for side in (16, 8, 4):
        if side <= most and width % side == 0 and K % side == 0 and extent % width == 0:
            return side
    return 0
