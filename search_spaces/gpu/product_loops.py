"""The loops of a product on a GPU: what a plan says, as schedule primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.gpu.product import Factor, Sums
from whet.search_spaces.gpu.product_plan import Plan
from whet.search_spaces.gpu.threads import bind, bind_blocks, copy_together

# Steps of the sum that are written out, and products of a thread: enough to load the next factors
# while these are used, and to forget what a step of a loop costs.
_WRITTEN, _PRODUCTS = 8, 512
# Rows of shared memory that are written step by step begin in other banks.
_BANKS, _SHIFT = 32, 4
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
    at = _store(result, plan)
    tile = s[sums.tile]
    tile.set_scope("local")
    tile.compute_at(result.stage, at)
    own = []
    for shared in sums.shared:
        s[shared].set_scope("shared")
        own.append(s.cache_read(shared, "local", [sums.tile]))
    k, *others = tile.op.reduce_axis
    i, j = tile.op.axis[-2:]
    block, step = tile.split(k, factor=plan.step)
    written = min(plan.step, max(_WRITTEN, _PRODUCTS // (plan.own_rows * plan.own_columns)))
    loops = [step] if written == plan.step else list(tile.split(step, factor=written))
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
    stage, block = result.stage, plan.block
    by, rows = stage.split(result.rows, factor=plan.rows)
    vy, rows = stage.split(rows, factor=plan.down * plan.row_run)
    ty, own_rows = stage.split(rows, factor=plan.row_run)
    unit = plan.column_run if result.lanes is not None else 1
    bx, columns = stage.split(result.columns, factor=plan.columns // unit)
    vx, columns = stage.split(columns, factor=plan.across * plan.column_run // unit)
    tx, own = stage.split(columns, factor=plan.column_run // unit)
    lanes = [] if result.lanes is None else [result.lanes]
    lead = [axis for axis, _ in result.lead]
    tz, tx = stage.split(tx, factor=block.x)
    stage.reorder(*lead, by, bx, vy, vx, tz, ty, tx, own_rows, own, *lanes)
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
    rows_, columns_ = (
        -(-count // size) for count, size in zip(result.counts, (plan.rows, plan.columns))
    )
    front = stage.fuse(*lead) if len(lead) > 1 else (lead[0] if lead else None)
    blocks = [(by, rows_), (bx, columns_)]
    if front is not None:
        blocks.insert(0, (front, prod(count for _, count in result.lead)))
    stage.pragma(ty, "min_blocks_per_sm", plan.resident)
    bind_blocks(stage, blocks)
    return tx


def _copy(
    s: Schedule, f: Factor, shared: Tensor, read: Tensor | None, size: int, plan: Plan
) -> None:
    """Copy a factor's tile into shared memory, each thread a vector of memory at a time."""
    stage = s[shared]
    step, place = stage.op.axis[-2:]
    if f.along_steps:  # what lies side by side goes to different rows
        whole, inner = stage.split(step, factor=f.lanes)
        stage.reorder(*stage.op.axis[:-2], place, whole, inner)
        outer, x = copy_together(stage, (place, whole), (size, plan.step // f.lanes), plan.block)
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
