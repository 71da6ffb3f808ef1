"""A schedule that binds nothing, built for a GPU: its loops are spread over threads.

The stages that are computed on their own are bound; what is attached to them or inlined goes with
them. Nothing here is clever: it makes a program that runs, and says how it did that.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from whet.compiler.arith import Analyzer
from whet.compiler.target import Target
from whet.compiler.te.bounds.extents import AffineSizes, axis_extents
from whet.compiler.te.bounds.threads import has_threads
from whet.compiler.te.lang.axes import thread_axis
from whet.compiler.te.lang.relations import AHEAD, AT, ROOT
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp
from whet.compiler.tir import stmt as s
from whet.compiler.tir.expr import COMM_REDUCE, PARALLELIZED, UNROLLED, VECTORIZED, Call, IterVar
from whet.compiler.tir.visit.rewrite import nodes_of

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage

THREADS = 256
"""Threads of a block: enough to hide latencies, few enough for any kernel's registers."""

_INNER = (COMM_REDUCE, UNROLLED, VECTORIZED)
_HOST_CALLS = ("call_packed", "call_extern")


class AutoBindWarning(UserWarning):
    """Loops were bound to threads because a schedule bound none."""


def bound_schedule(schedule: Schedule, target: Target) -> Schedule:
    """``schedule`` itself if a stage of it is bound; else a copy in which all are, with a warning.

    An element-wise stage's loops are fused and split into blocks of 256 threads; of a stage with a
    reduction, the outer loops over data are; a stage without any, and an extern statement of plain
    loops, is run by one thread.
    """
    if has_threads(schedule):
        return schedule
    new = schedule.copy()
    threads = max(1, min(THREADS, target.max_num_threads))
    said = [_bind(x, threads) for x in new.stages if _is_computed_alone(x)]
    if said:
        warnings.warn(
            f"no loop of the schedule is bound to the threads of {target.kind}; bound "
            + "; ".join(said),
            AutoBindWarning,
            stacklevel=5,  # the caller of whet.build
        )
    return new


def _is_computed_alone(stage: Stage) -> bool:
    if isinstance(stage.op, ExternOp) and not _is_plain(stage.op):
        return False
    return isinstance(stage.op, ComputeOp | ExternOp) and stage.attach_type in (ROOT, AHEAD)


def _is_plain(op: ExternOp) -> bool:
    """True if a statement has neither threads of its own nor calls that the host makes."""
    calls, loops = nodes_of(op.body, Call), nodes_of(op.body, s.For)
    return not any(n.op.removeprefix("tir.") in _HOST_CALLS for n in calls) and not any(
        n.kind == s.THREAD_BINDING for n in loops
    )


def _bind(stage: Stage, threads: int) -> str:
    """Bind a stage's loops; what was done, in words."""
    if isinstance(stage.op, ExternOp):
        stage.env_threads(thread_axis((0, 1), "threadIdx.x"))
        return f"{stage.op.name}: one thread"
    loops = _data_loops(stage)
    if not loops:
        one = stage.fuse()
        stage.bind(one, thread_axis("threadIdx.x"))
        return f"{stage.op.name}: one thread"
    for x in loops:
        if stage.attr(x).iter_type == PARALLELIZED:  # threads are what parallel means here
            del stage.iter_var_attrs[x]
    names = ", ".join(x.var.name for x in loops)
    fused = loops[0]
    for x in loops[1:]:
        fused = stage.fuse(fused, x)
    if any(s.attach_type == AT and s.attach_ivar is fused for s in stage.schedule.stages):
        stage.bind(fused, thread_axis("blockIdx.x"))
        return f"{stage.op.name}: {names} to blockIdx.x"
    extent = axis_extents(stage, AffineSizes(Analyzer()))[fused]
    if extent.is_const:
        threads = max(1, min(threads, extent.const))
    outer, inner = stage.split(fused, factor=threads)
    stage.bind(outer, thread_axis("blockIdx.x"))
    stage.bind(inner, thread_axis("threadIdx.x"))
    return f"{stage.op.name}: {names} to blockIdx.x and {threads} of threadIdx.x"


def _data_loops(stage: Stage) -> list[IterVar]:
    """The outer loops over data, up to where a reduction, a vector or an attached stage begins."""
    points = {
        s.attach_ivar
        for s in stage.schedule.stages
        if s.attach_type == AT and s.attach_stage is stage
    }
    loops: list[IterVar] = []
    for x in stage.leaf_iter_vars:
        if stage.attr(x).iter_type in _INNER or (loops and x in points):
            break
        loops.append(x)
        if x in points:
            break
    return loops
