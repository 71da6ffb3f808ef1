"""The loops of a product on a GPU: what a plan says, as schedule primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.rules.gpu.contraction.gemm import Factor, Sums
from whet.search_spaces.rules.gpu.contraction.gemm_plan import Plan
from whet.search_spaces.rules.gpu.threads import bind, bind_blocks, copy_together

# Steps of the sum that are written out, and products of a thread: enough to load the next factors
# while these are used, and to forget what a step of a loop costs.
_WRITTEN, _PRODUCTS = 8, 512
# Rows of shared memory that are written step by step begin in other banks.
_BANKS, _SHIFT = 32, 4
# Steps that threads side by side read of one place, at most: more would be stored in one bank.
_NEAR = 16
_THREADS = 256


@dataclass(frozen=True)
class Result:
    """The loops of the stage that stores sums, as its template has made them.

    Attributes:
        stage: the stage; its loops are ``lead``, ``rows``, ``columns`` and ``lanes``, in any order.
        lead: loops over the batch and their steps.
        rows: the loop over rows.
        columns: the loop over columns, or over vectors of ``plan.column_run`` of them.
        lanes: the loop of such a vector; None where columns are stored one by one.
        counts: rows and columns.
    """

    stage: Stage
    lead: Sequence[tuple[IterVar, int]]
    rows: IterVar
    columns: IterVar
    lanes: IterVar | None
    counts: tuple[int, int]


def schedule_sums(s: Schedule, sums: Sums, plan: Plan, result: Result) -> None:
    """Compute the tiles of sums where ``result`` stores them."""
    if sums.slices is None:
        stage, at = result.stage, _store(result, plan)
    else:
        stage = s[sums.slices]
        at = _store_slices(s, sums, plan, result)
    tile = s[sums.tile]
    tile.set_scope("local")
    tile.compute_at(stage, at)
    own = []
    for shared in sums.shared:
        s[shared].set_scope("shared")
        own.append(s.cache_read(shared, "local", [sums.tile]))
    block, step, *others = tile.op.reduce_axis
    i, j = tile.op.axis[-2:]
    many = plan.step // plan.slices
    written = min(many, max(_WRITTEN, _PRODUCTS // (plan.own_rows * plan.own_columns)))
    loops = [step] if written == many else list(tile.split(step, factor=written))
    tile.reorder(*tile.op.axis[:-2], block, *others, *loops, i, j)
    for axis in (loops[-1], i, j):
        tile.unroll(axis)
    for part, run in zip(own, (plan.row_run, plan.column_run)):
        s[part].compute_at(tile, loops[-1])
        if run > 1:
            s[part].vectorize(s[part].op.axis[-1])
    for f, shared, read, size in zip(
        sums.factors, sums.shared, sums.registers, (plan.rows, plan.columns)
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


def _store_slices(s: Schedule, sums: Sums, plan: Plan, result: Result) -> IterVar:
    """Blocks of the result, whose threads add slices that they store in turn; returns the loop of a
    thread of the latter."""
    stage, unit = result.stage, _unit(result, plan)
    block, rows, columns, lanes = _tiles(result, plan)
    counts = (plan.rows, plan.columns // unit)
    outer, thread = copy_together(stage, (rows, columns), counts, plan.block)
    stage.unroll(outer)
    total = s[sums.whole]
    total.set_scope("local")
    total.compute_at(stage, thread)
    total.unroll(total.op.reduce_axis[0])
    total.reorder(*total.op.reduce_axis, *total.op.axis)
    if lanes and plan.column_run > 1:
        stage.vectorize(lanes[0])
        total.vectorize(total.op.axis[-1])
    assert sums.slices is not None
    slices = s[sums.slices]
    slices.set_scope("shared")
    slices.compute_at(stage, block)
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
    lanes = [] if result.lanes is None else [result.lanes]
    stage.reorder(*lead, by, bx, rows, columns, *lanes)
    return _bind_result(result, by, bx, plan), rows, columns, lanes


def _unit(result: Result, plan: Plan) -> int:
    """How many columns a step of the result's loop over them has."""
    return plan.column_run if result.lanes is not None else 1


def _bind_result(result: Result, by: IterVar, bx: IterVar, plan: Plan) -> IterVar:
    """Bind the loops over tiles to blocks; returns the innermost one."""
    stage = result.stage
    lead = [axis for axis, _ in result.lead]
    rows, columns = (
        -(-count // size) for count, size in zip(result.counts, (plan.rows, plan.columns))
    )
    front = stage.fuse(*lead) if len(lead) > 1 else (lead[0] if lead else None)
    blocks = [(by, rows), (bx, columns)]
    if front is not None:
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
    bind(stage, vy, "vthread")
    bind(stage, vx, "vthread")
    if block.z > 1:
        bind(stage, tz, "threadIdx.z")
    bind(stage, ty, "threadIdx.y")
    bind(stage, tx, "threadIdx.x")
    for axis in (own_rows, own):
        stage.unroll(axis)
    if lanes and plan.column_run > 1:
        stage.vectorize(lanes[0])
    return tx


def _copy(
    s: Schedule, f: Factor, shared: Tensor, read: Tensor | None, size: int, plan: Plan
) -> None:
    """Copy a factor's tile into shared memory, each thread a vector of memory at a time."""
    stage = s[shared]
    step, place = stage.op.axis[-2:]
    if f.along_steps:  # what lies side by side goes to different rows
        whole, inner = stage.split(step, factor=f.lanes)
        beside = min(plan.step, _NEAR)
        whole, near = stage.split(whole, factor=beside // f.lanes)
        stage.reorder(*stage.op.axis[:-2], whole, place, near, inner)
        counts = (plan.step // beside, size, beside // f.lanes)
        outer, x = copy_together(stage, (whole, place, near), counts, plan.block)
        stage.unroll(inner)
        stage.storage_align(step, _BANKS, _SHIFT)
    else:
        whole, inner = stage.split(place, factor=f.lanes)
        outer, x = copy_together(stage, (step, whole), (plan.step, size // f.lanes), plan.block)
        if f.lanes > 1:
            stage.vectorize(inner)
    stage.unroll(outer)
    if read is not None:
        s[read].set_scope("local")
        s[read].compute_at(stage, x)
        s[read].vectorize(s[read].op.axis[-1])


def schedule_parts(
    s: Schedule, total: Tensor, stage: Stage, loops: Sequence[IterVar], lanes: IterVar | None
) -> None:
    """A kernel that adds the parts of sums and stores the result, element by element.

    Args:
        total: the stage that adds the parts.
        stage: the one that stores.
        loops: of the stage, outermost first, all but ``lanes``.
        lanes: its loop over the neighbours that belong to one thread.
    """
    rest = [] if lanes is None else [lanes]
    stage.reorder(*loops, *rest)
    block, thread = stage.split(stage.fuse(*loops), factor=_THREADS)
    bind(stage, block, "blockIdx.x")
    bind(stage, thread, "threadIdx.x")
    s[total].set_scope("local")
    s[total].compute_at(stage, thread)
    (z,) = s[total].op.reduce_axis
    s[total].reorder(z, *s[total].op.axis)
    s[total].unroll(z)
    if lanes is not None:
        stage.vectorize(lanes)
        s[total].vectorize(s[total].op.axis[-1])
