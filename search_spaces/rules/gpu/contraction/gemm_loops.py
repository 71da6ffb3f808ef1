"""The loops of a GEMM on a GPU: a plan as schedule primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.rules.gpu.contraction.gemm import GemmStages, Operand, sizes_of
from whet.search_spaces.rules.gpu.contraction.gemm_plan import Plan
from whet.search_spaces.rules.gpu.hardware.threads import (
    attach,
    bind,
    bind_blocks,
    bind_fused,
    cooperative_load,
    split_lanes,
    unroll,
    vectorize_last,
)

# K iterations that are unrolled, and multiply-adds of a thread: enough to load the next operands
# while these are used, and to make up for the loop's overhead.
_UNROLLED, _MULTIPLY_ADDS = 8, 512
# Rows of shared memory that are unrolled along K are padded against bank conflicts.
_BANKS, _SHIFT = 32, 4
# Elements along K that neighbouring threads read of one row, at most: more would conflict.
_NEAR = 16


@dataclass(frozen=True)
class Result:
    """The loops of the stage that stores a GEMM, as its template splits them.

    Attributes:
        stage: the stage; its loops are ``lead``, ``rows``, ``columns`` and ``lanes``, in any order.
        lead: loops over the batch and their steps.
        rows: the loop over rows.
        columns: the loop over columns, or over vectors of ``plan.column_run`` of them.
        lanes: the loop of such a vector; none where columns are stored one by one.
        counts: rows and columns.
    """

    stage: Stage
    lead: Sequence[tuple[IterVar, int]]
    rows: IterVar
    columns: IterVar
    lanes: Sequence[IterVar]
    counts: tuple[int, int]


def store_result(s: Schedule, sums: GemmStages, result: Result) -> None:
    """Store a GEMM where ``result`` says; with split-K, partial sums in a kernel before."""
    if sums.partial is None:
        _schedule_tiles(s, sums, result)
    else:
        _schedule_tiles(s, sums, matrix_loops(s[sums.partial], sums.plan))
        _schedule_split_k(s[sums.total], result)


def matrix_loops(stage: Stage, plan: Plan) -> Result:
    """The loops of a stage ``[*lead, rows, columns]``."""
    *lead, i, j = stage.op.axis
    *counts, rows, columns = sizes_of(stage.op.output(0))
    j, lanes = vectors(stage, j, columns, plan)
    return Result(stage, list(zip(lead, counts, strict=True)), i, j, lanes, (rows, columns))


def vectors(stage: Stage, axis: IterVar, extent: int, plan: Plan) -> tuple[IterVar, list[IterVar]]:
    """The loop over vectors of ``plan.column_run`` columns, and the loop over a vector's lanes.

    Without whole vectors: the loop over columns, and none.
    """
    return split_lanes(stage, axis, plan.column_run if extent % plan.column_run == 0 else 1)


def _schedule_tiles(s: Schedule, sums: GemmStages, result: Result) -> None:
    """Compute the tiles where ``result`` stores them."""
    plan, stage = sums.plan, result.stage
    # columns of an iteration of the result's loop over them
    unit = plan.column_run if result.lanes else 1
    block, rows, columns = _tiles(result, unit, plan)
    if sums.slices is None:
        at = _bind_threads(stage, (), rows, columns, result.lanes, unit, plan)
    else:
        counts = (plan.rows, plan.columns // unit)
        outer, thread = cooperative_load(stage, (rows, columns), counts, plan.block)
        stage.unroll(outer)
        total = s[sums.whole]
        attach(total, stage, thread)
        total.unroll(total.op.reduce_axis[0])
        total.reorder(*total.op.reduce_axis, *total.op.axis)
        if result.lanes and plan.column_run > 1:
            stage.vectorize(result.lanes[0])
            vectorize_last(total)
        stage, parent = s[sums.slices], stage
        attach(stage, parent, block, "shared")
        *front, group, i, j = stage.op.axis
        j, lane = stage.split(j, factor=plan.column_run)
        stage.reorder(*front, group, i, j, lane)
        at = _bind_threads(stage, (group,), i, j, [lane], plan.column_run, plan)
    tile = s[sums.tile]
    attach(tile, stage, at)
    own = []
    for shared in sums.shared:
        s[shared].set_scope("shared")
        own.append(s.cache_read(shared, "local", [sums.tile]))
    block, step, *others = tile.op.reduce_axis
    i, j = tile.op.axis[-2:]
    many = plan.step // plan.slices
    unrolled = min(many, max(_UNROLLED, _MULTIPLY_ADDS // (plan.own_rows * plan.own_columns)))
    loops = [step] if unrolled == many else list(tile.split(step, factor=unrolled))
    tile.reorder(*tile.op.axis[:-2], block, *others, *loops, i, j)
    unroll(tile, (loops[-1], i, j))
    for part, run in zip(own, (plan.row_run, plan.column_run)):
        s[part].compute_at(tile, loops[-1])
        if run > 1:
            vectorize_last(s[part])
    for f, shared, read, size in zip(
        sums.operands, sums.shared, sums.registers, (plan.rows, plan.columns)
    ):
        s[shared].compute_at(tile, others[-1] if others else block)
        _copy(s, f, shared, read, size, plan)
        if plan.double_buffer:
            s[shared].double_buffer()


def _tiles(result: Result, unit: int, plan: Plan) -> tuple[IterVar, IterVar, IterVar]:
    """Give each tile a block: its loop, and within it those over rows and columns."""
    stage = result.stage
    by, rows = stage.split(result.rows, factor=plan.rows)
    bx, columns = stage.split(result.columns, factor=plan.columns // unit)
    lead = [axis for axis, _ in result.lead]
    stage.reorder(*lead, by, bx, rows, columns, *result.lanes)
    down, across = result.counts
    blocks = [(by, -(-down // plan.rows)), (bx, -(-across // plan.columns))]
    if lead:
        front = stage.fuse(*lead) if len(lead) > 1 else lead[0]
        blocks.insert(0, (front, prod(count for _, count in result.lead)))
    block = bind_blocks(stage, blocks)
    stage.pragma(block, "min_blocks_per_sm", plan.resident)
    return block, rows, columns


def _bind_threads(
    stage: Stage,
    slices: Sequence[IterVar],
    rows: IterVar,
    columns: IterVar,
    lanes: Sequence[IterVar],
    unit: int,
    plan: Plan,
) -> IterVar:
    """Share a tile out among threads; returns the loop of a thread.

    Args:
        stage: its innermost loops are ``slices``, ``rows``, ``columns`` and ``lanes``.
        slices: a loop over these, if there is one.
        rows, columns: of a tile; ``unit`` columns are a step.
        lanes: the loop over these, if there is one.
    """
    block, run = plan.block, plan.column_run // unit
    vy, rows = stage.split(rows, factor=plan.down * plan.row_run)
    tx, own_rows = stage.split(rows, factor=plan.row_run)
    vx, columns = stage.split(columns, factor=plan.across * run)
    ty, own = stage.split(columns, factor=run)
    tz, tx = stage.split(tx, factor=block.x)
    stage.reorder(vy, vx, *slices, tz, ty, tx, own_rows, own, *lanes)
    tz = stage.fuse(*slices, tz) if slices else tz
    for axis in (vy, vx):
        stage.bind(axis, te.thread_axis("vthread"))
    if block.z > 1:
        bind(stage, z=tz)
    bind(stage, y=ty, x=tx)
    unroll(stage, (own_rows, own))
    if lanes and plan.column_run > 1:
        stage.vectorize(lanes[0])
    return tx


def _copy(
    s: Schedule, f: Operand, shared: Tensor, read: Tensor | None, size: int, plan: Plan
) -> None:
    """Load an operand's tile into shared memory, each thread a vector of memory at a time."""
    stage = s[shared]
    step, place = stage.op.axis[-2:]
    if f.along_steps:  # what lies side by side goes to different rows
        whole, inner = stage.split(step, factor=f.lanes)
        beside = min(plan.step, _NEAR)
        whole, near = stage.split(whole, factor=beside // f.lanes)
        stage.reorder(*stage.op.axis[:-2], whole, place, near, inner)
        counts = (plan.step // beside, size, beside // f.lanes)
        outer, x = cooperative_load(stage, (whole, place, near), counts, plan.block)
        stage.unroll(inner)
        stage.storage_align(step, _BANKS, _SHIFT)
    else:
        whole, inner = stage.split(place, factor=f.lanes)
        outer, x = cooperative_load(stage, (step, whole), (plan.step, size // f.lanes), plan.block)
        if f.lanes > 1:
            stage.vectorize(inner)
    stage.unroll(outer)
    if read is not None:
        attach(s[read], stage, x)
        vectorize_last(s[read])


def _schedule_split_k(total: Stage, result: Result) -> None:
    """A kernel that adds the partial sums of split-K and stores the result, element by element.

    Args:
        total: the stage that adds the partial sums.
        result: the loops of the stage that stores.
    """
    stage = result.stage
    loops = [*(axis for axis, _ in result.lead), result.rows, result.columns]
    stage.reorder(*loops, *result.lanes)
    thread = bind_fused(stage, loops)
    attach(total, stage, thread)
    (z,) = total.op.reduce_axis
    total.reorder(z, *total.op.axis)
    total.unroll(z)
    for lane in result.lanes:
        stage.vectorize(lane)
        vectorize_last(total)
