"""The loops of a GEMM: what a plan says, as schedule primitives."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage
from whet.compiler.tir import IterVar
from whet.search_spaces.rules.cpu.gemm.gemm import GemmStages
from whet.search_spaces.rules.cpu.gemm.stages import square_side
from whet.search_spaces.rules.vectors import lanes_of, register_tile

#: steps of k that an operand is read in where it cannot be transposed in squares
_RUN = 8


def schedule_gemm(s: Schedule, p: GemmStages, out: Stage, target: Target) -> None:
    """Schedule the stages of a GEMM by the plan that they were made for.

    Args:
        out: the stage that stores the result, an epilogue or C itself.
    """
    size, plan = p.form.size, p.plan
    lanes = lanes_of(target, size.dtype)
    tiles = s[p.tiles]
    batch, outer, innermost = _stored(out, p)
    *around, ir, jv, jl = tiles.op.axis
    (k,) = tiles.op.reduce_axis
    if plan.k_block:  # all tiles of a block, one block of k after the other
        tiles.compute_at(out, outer)
        *around, it, jt = around
        block, k = tiles.split(k, factor=plan.k_block)
        around += [block, *((jt, it) if plan.order == "rows" else (it, jt))]
        at = tiles, block
    else:  # one tile, over all of k
        tiles.set_scope("local")
        tiles.compute_at(out, innermost)
        at = out, outer
    steps = _steps(tiles, k, plan.unroll_k)
    register_tile(tiles, [*around, *steps], [ir, jv, jl])
    if plan.prefetch:
        tiles.prefetch(p.B, steps[0], -(-plan.prefetch // plan.unroll_k))
    for panels, of_block, transposed, width in (
        (p.P, plan.pack_b == "block", size.transpose_b, plan.nr),
        (p.Q, plan.order == "rows", not size.transpose_a, plan.mr),
    ):
        if panels is None:
            continue
        stage = s[panels]
        square = square_side(width, size.K, lanes) if transposed else 0
        first = _packed(stage, transposed, square, whole=size.K % _RUN == 0)
        if panels is p.P and plan.pack_b == "ahead":
            stage.compute_ahead()
        elif of_block:
            stage.compute_at(*at)
        elif batch is not None:
            stage.compute_at(out, batch)
        elif plan.threads.parallel:
            stage.parallel(first)
    plan.threads.run(out, outer if batch is None else batch)


def _stored(stage: Stage, p: GemmStages) -> tuple[IterVar | None, IterVar, IterVar]:
    """The loops of the result: over the batch, over blocks, and the innermost one over tiles."""
    plan, axes = p.plan, stage.op.axis
    ones, lead, rows, columns = ([axes[n] for n in part] for part in p.form.places)
    stage.reorder(*ones, *lead, *rows, *columns)
    batch = fused(stage, lead) if lead else None
    jt, ji = stage.split(fused(stage, columns), factor=plan.nr)
    vectors = stage.split(ji, factor=plan.lanes_of(p.form.size.dtype))
    strips, tile = [], [*vectors]
    if rows:
        it, ii = stage.split(fused(stage, rows), factor=plan.mr)
        strips, tile = [it], [ii, *vectors]
    first, *middle = [*strips, jt] if plan.order == "rows" else [jt, *strips]
    outer, inner = stage.split(first, factor=plan.block_of(p.form.size))
    front = [] if batch is None else [batch]
    register_tile(stage, [*ones, *front, outer, *middle, inner], tile)
    return batch, outer, inner


def fused(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """One loop over some neighbours."""
    first, *rest = axes
    for axis in rest:
        first = stage.fuse(first, axis)
    return first


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
