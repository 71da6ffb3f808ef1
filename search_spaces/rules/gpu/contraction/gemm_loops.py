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


def store_result(s: Schedule, sums: GemmStages, plan: Plan, total: Tensor, result: Result) -> None:
    """Store a GEMM where ``result`` says; with split-K, partial sums in a kernel before.

    Args:
        total: the stage of the whole sums, see :func:`gemm.whole_sums`.
    """
    if sums.partial is None:
        schedule_tiles(s, sums, plan, result)
    else:
        schedule_tiles(s, sums, plan, _matrix(s[sums.partial], plan))
        schedule_split_k(s, total, result)


def store_matrix(s: Schedule, sums: GemmStages, plan: Plan, total: Tensor, out: Tensor) -> None:
    """Store a GEMM in ``out``, ``[*lead, rows, columns]``."""
    if sums.partial is None:
        schedule_tiles(s, sums, plan, _matrix(s[out], plan))
    else:
        schedule_tiles(s, sums, plan, _matrix(s[sums.partial], plan))
        schedule_split_k(s, total, _matrix(s[out], plan))


def _matrix(stage: Stage, plan: Plan) -> Result:
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


def schedule_tiles(s: Schedule, sums: GemmStages, plan: Plan, result: Result) -> None:
    """Compute the tiles where ``result`` stores them."""
    if sums.slices is None:
        stage, at = result.stage, _store(result, plan)
    else:
        stage = s[sums.slices]
        at = _store_slices(s, sums, plan, result)
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


def _store(result: Result, plan: Plan) -> IterVar:
    """Blocks and threads of the result; returns the loop of a thread."""
    unit = _unit(result, plan)
    _, rows, columns, lanes = _tiles(result, plan)
    return _bind_threads(result.stage, (), rows, columns, lanes, unit, plan)


def _store_slices(s: Schedule, sums: GemmStages, plan: Plan, result: Result) -> IterVar:
    """Blocks of the result, whose threads add slices that they store in turn; returns the loop of a
    thread of the latter."""
    stage, unit = result.stage, _unit(result, plan)
    block, rows, columns, lanes = _tiles(result, plan)
    counts = (plan.rows, plan.columns // unit)
    outer, thread = cooperative_load(stage, (rows, columns), counts, plan.block)
    stage.unroll(outer)
    total = s[sums.whole]
    attach(total, stage, thread)
    total.unroll(total.op.reduce_axis[0])
    total.reorder(*total.op.reduce_axis, *total.op.axis)
    if lanes and plan.column_run > 1:
        stage.vectorize(lanes[0])
        vectorize_last(total)
    assert sums.slices is not None
    slices = s[sums.slices]
    attach(slices, stage, block, "shared")
    *front, group, i, j = slices.op.axis
    j, own = slices.split(j, factor=plan.column_run)
    slices.reorder(*front, group, i, j, own)
    return _bind_threads(slices, (group,), i, j, [own], plan.column_run, plan)


def _tiles(result: Result, plan: Plan) -> tuple[IterVar, IterVar, IterVar, list[IterVar]]:
    """Give each tile a block: its loop, and within it those over rows, columns and lanes."""
    stage, unit = result.stage, _unit(result, plan)
    by, rows = stage.split(result.rows, factor=plan.rows)
    bx, columns = stage.split(result.columns, factor=plan.columns // unit)
    lead = [axis for axis, _ in result.lead]
    stage.reorder(*lead, by, bx, rows, columns, *result.lanes)
    return _bind_result(result, by, bx, plan), rows, columns, list(result.lanes)


def _unit(result: Result, plan: Plan) -> int:
    """Columns of an iteration of the result's loop over them."""
    return plan.column_run if result.lanes else 1


def _bind_result(result: Result, by: IterVar, bx: IterVar, plan: Plan) -> IterVar:
    """Bind the loops over tiles to blocks; returns the innermost one."""
    stage = result.stage
    lead = [axis for axis, _ in result.lead]
    rows, columns = (
        -(-count // size) for count, size in zip(result.counts, (plan.rows, plan.columns))
    )
    blocks = [(by, rows), (bx, columns)]
    if lead:
        front = stage.fuse(*lead) if len(lead) > 1 else lead[0]
        blocks.insert(0, (front, prod(count for _, count in result.lead)))
    block = bind_blocks(stage, blocks)
    stage.pragma(block, "min_blocks_per_sm", plan.resident)
    return block


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


def schedule_split_k(s: Schedule, total: Tensor, result: Result) -> None:
    """A kernel that adds the partial sums of split-K and stores the result, element by element.

    Args:
        total: the stage that adds the partial sums.
        result: the loops of the stage that stores.
    """
    stage = result.stage
    loops = [*(axis for axis, _ in result.lead), result.rows, result.columns]
    stage.reorder(*loops, *result.lanes)
    thread = bind_fused(stage, loops)
    attach(s[total], stage, thread)
    (z,) = s[total].op.reduce_axis
    s[total].reorder(z, *s[total].op.axis)
    s[total].unroll(z)
    for lane in result.lanes:
        stage.vectorize(lane)
        vectorize_last(s[total])
