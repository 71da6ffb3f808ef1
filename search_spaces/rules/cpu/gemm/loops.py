"""The loops of a GEMM: what a plan says, as schedule primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage
from whet.compiler.tir import IterVar
from whet.search_spaces.rules.cpu.gemm.gemm import GemmStages
from whet.search_spaces.rules.cpu.gemm.stages import square_side
from whet.search_spaces.rules.cpu.gemm.tail import schedule_tail
from whet.search_spaces.rules.producers import vectorize_row
from whet.search_spaces.rules.vectors import lanes_of, register_tile

#: steps of k that an operand is read in where it cannot be transposed in squares
_RUN = 8


@dataclass(frozen=True, eq=False)
class TileLoops:
    """The loops over register tiles of a stage.

    Attributes:
        stage: whose they are.
        shared: those of the batch, or what threads share before blocks; None: there are none.
        blocks: over blocks of tiles; with the loops that threads share with it, if any.
        others: over the tiles that a block meets; None: there is one, or it is a part of blocks.
        innermost: over the tiles of a block.
    """

    stage: Stage
    shared: IterVar | None
    blocks: IterVar
    others: IterVar | None
    innermost: IterVar

    @property
    def outermost(self) -> IterVar:
        """What threads share."""
        return self.blocks if self.shared is None else self.shared

    def of_lines(self, p: GemmStages) -> IterVar | None:
        """The loop at whose steps some lines of A are computed once; None: before all loops."""
        _, loop = p.plan.lines_of(p.form.size)
        return {"blocks": self.blocks, "others": self.others, "shared": self.shared}[loop]


def schedule_gemm(s: Schedule, p: GemmStages, out: Stage, target: Target) -> None:
    """Schedule the stages of a GEMM by the plan that they were made for.

    Args:
        out: the stage that stores the result, an epilogue or C itself.
    """
    plan = p.plan
    over = _stored(out, p)
    plan.threads.run(out, over.outermost)
    if plan.k_parts > 1:
        tiles, over = _in_parts(s, p)
        plan.threads.run(over.stage, over.outermost)
    else:
        tiles = s[p.tiles]
    *around, ir, jv, jl = tiles.op.axis
    (k,) = tiles.op.reduce_axis
    at = over.stage, over.blocks
    if plan.k_block:  # all tiles of a block, one block of k after the other
        tiles.compute_at(*at)
        *around, it, jt = around
        block, k = tiles.split(k, factor=plan.k_block)
        around += [block, *((jt, it) if plan.order == "rows" else (it, jt))]
        at = tiles, block
    else:  # one tile, over all of k
        tiles.set_scope("local")
        tiles.compute_at(over.stage, over.innermost)
    steps = _steps(tiles, k, plan.unroll_k)
    register_tile(tiles, [*around, *steps], [ir, jv, jl])
    if p.tail is not None:
        schedule_tail(s, p.tail, over.stage, over.blocks, over.shared, target)
    if plan.prefetch:
        tiles.prefetch(p.B, steps[0], -(-plan.prefetch // plan.unroll_k))
    elif plan.pack_b == "ahead":  # the next panels come from memory while these are at work
        if plan.k_block and plan.order == "rows":
            tiles.prefetch(p.B, jt if plan.nr < p.form.size.M else block, 1, spread=True)
        elif not plan.k_block:
            along = over.others if plan.order == "rows" else None
            over.stage.prefetch(p.B, over.blocks if along is None else along, 1, spread=True)
    _schedule_copies(s, p, over, at, lanes_of(target, p.form.size.dtype))


def _schedule_copies(
    s: Schedule, p: GemmStages, over: TileLoops, at: tuple[Stage, IterVar], lanes: int
) -> None:
    """Schedule the panels and the lines of the operands.

    Args:
        over: the loops over tiles. at: where panels of a block are made. lanes: of a vector.
    """
    size, plan = p.form.size, p.plan
    of_strips = plan.order == "rows" and plan.share != "tiles"
    for panels, of_block, transposed, width in (
        (p.P, plan.pack_b == "block", size.transpose_b, plan.nr),
        (p.Q, of_strips, not size.transpose_a, plan.mr),
    ):
        if panels is None:
            continue
        stage = s[panels]
        square = square_side(width, size.K, lanes) if transposed else 0
        outer = _packed(stage, transposed, square, whole=size.K % _RUN == 0)
        if panels is p.P and plan.pack_b == "ahead":
            stage.compute_ahead()
        elif of_block:
            stage.compute_at(*at)
        elif over.shared is not None:
            stage.compute_at(over.stage, over.shared)
        elif plan.threads.parallel:
            stage.parallel(fused(stage, outer))
    if p.L is not None:
        stage, loop = s[p.L], over.of_lines(p)
        *outer, last = stage.op.axis
        vectorize_row(stage, last, lanes)
        if loop is not None:
            stage.compute_at(over.stage, loop)
        elif plan.threads.parallel:
            stage.parallel(fused(stage, outer))


def _in_parts(s: Schedule, p: GemmStages) -> tuple[Stage, TileLoops]:
    """The stage that sums parts of K up in registers; the loops of the one that stores them."""
    local, stored = s.cache_write(p.tiles, "local"), s[p.tiles]
    *lead, it, jt, ir, jv, jl = stored.op.axis
    first, other = (it, jt) if p.plan.order == "rows" else (jt, it)
    blocks, inner = stored.split(first, factor=p.plan.block_of(p.form.size))
    register_tile(stored, [*lead, blocks, other, inner], [ir, jv, jl])
    return s[local], TileLoops(stored, fused(stored, lead), blocks, other, inner)


def _stored(stage: Stage, p: GemmStages) -> TileLoops:
    """The loops of the result: over the batch, over blocks, and the innermost one over tiles."""
    plan, axes = p.plan, stage.op.axis
    lanes = plan.lanes_of(p.form.size.dtype)
    ones, lead, rows, columns = ([axes[n] for n in part] for part in p.form.places)
    stage.reorder(*ones, *lead, *rows, *columns)
    batch = fused(stage, lead) if lead else None
    jt, ji = stage.split(fused(stage, columns), factor=plan.nr + (lanes if plan.tail else 0))
    vectors = stage.split(ji, factor=lanes)
    strips, tile = [], [*vectors]
    if rows:
        it, ii = stage.split(fused(stage, rows), factor=plan.mr)
        strips, tile = [it], [ii, *vectors]
    first, *middle = [*strips, jt] if plan.order == "rows" else [jt, *strips]
    outer, inner = stage.split(first, factor=plan.block_of(p.form.size))
    front = [] if batch is None else [batch]
    register_tile(stage, [*ones, *front, outer, *middle, inner], tile)
    if plan.threads.parallel and plan.share in ("blocks", "tiles"):
        outer, batch = fused(stage, [*front, outer]), None
        if plan.share == "tiles":
            outer, middle = fused(stage, [outer, *middle]), []
    return TileLoops(stage, batch, outer, middle[0] if middle else None, inner)


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


def _packed(stage: Stage, transposed: bool, square: int, whole: bool) -> list[IterVar]:
    """Read an operand in order as it is packed; returns its loops over the batch and the next one.

    Args:
        stage: of the panels.
        transposed: whether the operand is stored with k innermost.
        square: the side of the squares that are transposed in registers, or 0.
        whole: whether runs of k have no rest.
    """
    *lead, panel, k, inside = stage.op.axis
    if not transposed:
        register_tile(stage, [*lead, k, panel], [inside])
        return [*lead, k]
    ko, ki = stage.split(k, factor=square or _RUN)
    if square:
        io, ii = stage.split(inside, factor=square)
        register_tile(stage, [*lead, panel, ko, io], [ki, ii])
        return [*lead, panel]
    stage.reorder(*lead, panel, ko, inside, ki)
    if whole:
        stage.vectorize(ki)
    return [*lead, panel]
