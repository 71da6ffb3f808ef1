"""The steps of lowering a schedule under TVM's names, for those who look inside.

bounds = te.schedule.InferBound(s)
stmt = te.schedule.ScheduleOps(s, bounds)
func = te.schedule.SchedulePostProcToPrimFunc([A, B], stmt, None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.tensor import PlaceholderOp, Tensor
from whet.compiler.te.lower.infer_bound import Bounds
from whet.compiler.te.lower.schedule_ops import schedule_ops
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import expr as e
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import AttrStmt, BufferStore, Stmt
from whet.compiler.tir.visit.rewrite import post_order_visit, replace_buffers


@dataclass(frozen=True, eq=False)
class Kept:
    """The buffers that stand for a schedule's inputs and outputs."""

    buffers: dict[Tensor, Buffer]

    def __repr__(self) -> str:
        return f"buffers of {', '.join(t.name for t in self.buffers)}"


def infer_bound(schedule: Schedule) -> dict[e.IterVar, e.Range]:
    """The range of every axis and loop of every stage that is computed.

    Raises:
        ArgumentError: for anything but a schedule.
        LowerError: if a stage is attached in vain.
    """
    _check(schedule, "InferBound")
    out: dict[e.IterVar, e.Range] = {}
    for b in Bounds(schedule).stages.values():
        for axis, extent in b.extents.items():
            first = b.mins[axis].to_expr(axis.dtype) if axis in b.mins else ops.const(0, axis.dtype)
            out[axis] = e.Range.from_min_extent(first, extent.to_expr(axis.dtype))
    return out


def schedule_statement(
    schedule: Schedule,
    bounds: Mapping[e.IterVar, e.Range] | None = None,
    debug_keep_trivial_loop: bool = False,
) -> Stmt:
    """The loops of a schedule, before any pass.

    Args:
        schedule: what to lower.
        bounds: what ``InferBound`` gave; it follows from the schedule.
        debug_keep_trivial_loop: loops of one step are there before the passes in any case.

    Raises:
        ArgumentError: for anything but a schedule.
        LowerError: if it cannot be lowered.
    """
    _check(schedule, "ScheduleOps")
    buffers: dict[Tensor, Buffer] = {}
    for stage in schedule.stages:
        if isinstance(stage.op, PlaceholderOp) or stage.is_output:
            for k in range(stage.op.num_outputs):
                t = Tensor(stage.origin_op, k)
                buffers[t] = Buffer(t.name, t.shape, t.dtype)
    return AttrStmt(Kept(buffers), "buffers", ops.const(1), schedule_ops(schedule, buffers))


def function_of(
    args: Sequence[Any], statement: Stmt, extern_buffer: Mapping[Tensor, Buffer] | None = None
) -> PrimFunc:
    """A function of some arguments around what ``ScheduleOps`` gave.

    Args:
        args: tensors, buffers and scalar variables, in the order of the function's parameters.
        statement: the loops.
        extern_buffer: buffers to use for some tensors.

    Raises:
        ArgumentError: for another statement or another argument.
    """
    asked = "SchedulePostProcToPrimFunc(args, statement)"
    if not isinstance(statement, AttrStmt) or not isinstance(statement.node, Kept):
        raise ArgumentError(asked, "the statement is none that ScheduleOps gave")
    known = statement.node.buffers
    given = dict(extern_buffer or {})
    params: list[Any] = []
    for a in args:
        if isinstance(a, Tensor):
            if a not in known:
                names = ", ".join(t.name for t in known)
                raise ArgumentError(asked, f"{a.name} is no input or output", f"there are: {names}")
            params.append(given.get(a, known[a]))
        elif isinstance(a, (Buffer, e.Var)):
            params.append(a)
        else:
            raise ArgumentError(asked, f"a {type(a).__name__} is no Tensor, Buffer or Var")
    body = replace_buffers(statement.body, {known[t]: b for t, b in given.items() if t in known})
    return PrimFunc(tuple(params), body, attrs={"global_symbol": "main"})


def is_compact(statement: Stmt) -> bool:
    """Whether everything is stored without gaps between rows."""
    found: list[bool] = []
    post_order_visit(
        statement,
        lambda n: (
            found.append(not n.buffer.strides)
            if isinstance(n, (BufferStore, e.BufferLoad))
            else None
        ),
    )
    return all(found)


def _check(schedule: Any, asked: str) -> None:
    if not isinstance(schedule, Schedule):
        raise ArgumentError(asked, f"a {type(schedule).__name__} is not a schedule")


#: TVM's names
TABLE = {
    "InferBound": infer_bound,
    "ScheduleOps": schedule_statement,
    "SchedulePostProcToPrimFunc": function_of,
    "VerifyCompactBuffer": is_compact,
}
