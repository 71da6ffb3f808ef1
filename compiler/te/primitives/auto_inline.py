"""Inlining all stages that are cheap to compute again: TVM's AutoInline functions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.relations import ROOT
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir import expr as e
from whet.compiler.tir.visit.rewrite import post_order_visit

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


def AutoInlineElemWise(sch: Schedule) -> None:
    """Inline each stage that reads its tensors at its own element: ``A[i, j] + B[i, j]``.

    Outputs stay, and so do stages to which a primitive was applied.

    >>> A = te.placeholder((8,), name="A")
    >>> T = te.compute((8,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((8,), lambda i: T[i] + 1.0, name="U")
    >>> s = te.create_schedule(U.op)
    >>> te.schedule.AutoInlineElemWise(s)
    >>> print(lower(s, [A, U]))
    def main(A: float32[8], U: float32[8]):
        for i in range(8):
            U[i] = A[i] * float32(2.0) + float32(1.0)

    Raises:
        ArgumentError: for anything but a schedule.
    """
    _inline(sch, "AutoInlineElemWise", is_elementwise)


def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inline each stage that reads its tensors at some of its own axes, in order: ``A[j]``.

    Raises:
        ArgumentError: for anything but a schedule.
    """
    _inline(sch, "AutoInlineBroadcast", is_broadcast)


def AutoInlineInjective(sch: Schedule) -> None:
    """Inline each stage that is no reduction, wherever it reads.

    Raises:
        ArgumentError: for anything but a schedule.
    """
    _inline(sch, "AutoInlineInjective", is_injective)


def is_injective(op: Operation) -> bool:
    """Whether an operation is computed element by element, without a reduction."""
    return isinstance(op, ComputeOp) and not op.reduce_axis


def is_elementwise(op: Operation) -> bool:
    """Whether every read has the operation's own indices."""
    return is_injective(op) and all(places == list(range(len(op.axis))) for places in _places(op))


def is_broadcast(op: Operation) -> bool:
    """Whether every read has some of the operation's own indices, in their order."""
    return is_injective(op) and all(
        all(a < b for a, b in pairwise(places)) and -1 not in places for places in _places(op)
    )


def _places(op: Any) -> list[list[int]]:
    """For each read of an operation which of its axes the indices are; -1: another expression."""
    axes = {axis.var: k for k, axis in enumerate(op.axis)}
    found: list[list[int]] = []

    def look(node: Any) -> None:
        if isinstance(node, e.ProducerLoad):
            found.append([axes.get(i, -1) if isinstance(i, e.Var) else -1 for i in node.indices])

    for value in op.body:
        post_order_visit(value, look)
    return found


def _inline(sch: Schedule, asked: str, wanted: Callable[[Operation], bool]) -> None:
    from whet.compiler.te.schedule import Schedule

    if not isinstance(sch, Schedule):
        raise ArgumentError(f"{asked}({sch!r})", f"a {type(sch).__name__} is not a schedule")
    for stage in sch.stages:
        if not stage.is_output and _untouched(stage) and wanted(stage.op):
            stage.compute_inline()


def _untouched(stage: Stage) -> bool:
    plain = not stage.relations and not stage.iter_var_attrs and stage.attach_type == ROOT
    return plain and stage.leaf_iter_vars == stage.all_iter_vars
