"""The steps of lowering a schedule under TVM's names, for those who look inside.

bounds = te.schedule.InferBound(s)
stmt = te.schedule.ScheduleOps(s, bounds)
func = te.schedule.SchedulePostProcToPrimFunc([A, B], stmt, None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.te.lang.scan import ScanOp, fixed_points, scan_body
from whet.compiler.te.lang.tensor import Operation, PlaceholderOp, Tensor
from whet.compiler.te.lower import lower_layout
from whet.compiler.te.lower.schedule_ops import schedule_ops
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, IntImm, IterVar, Range, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import AttrStmt, BufferStore, Stmt
from whet.compiler.tir.visit.buffers import replace_buffers
from whet.compiler.tir.visit.rewrite import nodes_of

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Kept:
    """The buffers that stand for a schedule's inputs and outputs."""

    buffers: dict[Tensor, Buffer]

    def __repr__(self) -> str:
        return f"buffers of {', '.join(t.name for t in self.buffers)}"


def infer_bound(schedule: Schedule) -> dict[IterVar, Range]:
    """The range of every axis and loop of every stage that is computed."""
    out: dict[IterVar, Range] = {}
    for b in Bounds(schedule).stages.values():
        for axis, extent in b.extents.items():
            first = b.mins[axis].to_expr(axis.dtype) if axis in b.mins else ops.const(0, axis.dtype)
            out[axis] = Range.from_min_extent(first, extent.to_expr(axis.dtype))
    return out


def schedule_statement(schedule: Schedule) -> Stmt:
    """The loops of a schedule, before any pass, in an attribute that names its buffers."""
    buffers: dict[Tensor, Buffer] = {}
    states = states_of(schedule)
    for stage in schedule.stages:
        if stage.op.output(0) in states:
            continue
        if isinstance(stage.op, PlaceholderOp) or stage.is_output:
            for k in range(stage.op.num_outputs):
                t = Tensor(stage.origin_op, k)
                buffers[t] = Buffer(t.name, t.shape, t.dtype)
    buffers, _ = lower_layout.arguments(schedule, buffers)
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
    request = "SchedulePostProcToPrimFunc(args, statement)"
    if not isinstance(statement, AttrStmt) or not isinstance(statement.node, Kept):
        raise ArgumentError(request, "the statement is none that ScheduleOps gave")
    known = statement.node.buffers
    given = dict(extern_buffer or {})
    params: list[Any] = []
    for a in args:
        if isinstance(a, Tensor):
            if a not in known:
                names = ", ".join(t.name for t in known)
                raise ArgumentError(
                    request, f"{a.name} is no input or output", f"there are: {names}"
                )
            params.append(given.get(a, known[a]))
        elif isinstance(a, (Buffer, Var)):
            params.append(a)
        else:
            raise ArgumentError(request, f"a {type(a).__name__} is no Tensor, Buffer or Var")
    body = replace_buffers(statement.body, {known[t]: b for t, b in given.items() if t in known})
    return PrimFunc(tuple(params), body, attrs={"global_symbol": "main"})


def is_compact(statement: Stmt) -> bool:
    """True if everything is stored without gaps between rows."""
    return not any(n.buffer.strides for n in nodes_of(statement, BufferStore, BufferLoad))


def states_of(schedule: Schedule) -> set[Tensor]:
    """The placeholders that stand for states of recurrences: no caller gives them."""
    scans = (s.op for s in schedule.stages if isinstance(s.op, ScanOp))
    return {t for op in scans for t in op.state_placeholder}


def fixed_points_of(op: Any) -> dict[IterVar, IntImm]:
    """For each axis of a recurrence 1 where an index depends on no other of the steps before.

    Such an axis can be computed a part at a time, e.g. by threads that share nothing.

    Raises:
        ArgumentError: for anything but the operation of a ``te.scan``.
    """
    _body(op, "ScanFixPointAnalysis")
    return {a: IntImm("int32", int(free)) for a, free in fixed_points(op).items()}


def _body(op: Any, request: str) -> list[Operation]:
    if not isinstance(op, ScanOp):
        raise ArgumentError(f"{request}({op!r})", f"a {type(op).__name__} is no ScanOp", "S.op")
    return scan_body(op)


def body_of_scan(op: Any) -> list[Operation]:
    """The operations that a recurrence computes at each step.

    Raises:
        ArgumentError: for anything but the operation of a ``te.scan``.
    """
    return _body(op, "ScanGetBody")


STEPS = {
    "ScanFixPointAnalysis": fixed_points_of,
    "ScanGetBody": body_of_scan,
    "SchedulePostProcToPrimFunc": function_of,
    "VerifyCompactBuffer": is_compact,
}
"""Steps under TVM's names."""
