"""Inlining all stages that are cheap to compute again: TVM's AutoInline functions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.relations import ROOT
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir.expr import ProducerLoad, Var
from whet.compiler.tir.visit.rewrite import nodes_of

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


def is_injective(op: Operation) -> bool:
    """True for an operation that is computed element by element, without a reduction."""
    return isinstance(op, ComputeOp) and not op.reduce_axis


def is_elementwise(op: Operation) -> bool:
    """True if every read has the operation's own indices."""
    return is_injective(op) and all(places == list(range(len(op.axis))) for places in _places(op))


def is_broadcast(op: Operation) -> bool:
    """True if every read has some of the operation's own indices, in their order."""
    return is_injective(op) and all(
        all(a < b for a, b in pairwise(places)) and -1 not in places for places in _places(op)
    )


def _places(op: Any) -> list[list[int]]:
    """For each read of an operation the axes that its indices are; -1: another expression."""
    axes = {axis.var: k for k, axis in enumerate(op.axis)}
    loads = [n for value in op.body for n in nodes_of(value, ProducerLoad)]
    return [[axes.get(i, -1) if isinstance(i, Var) else -1 for i in n.indices] for n in loads]


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
    _inline_all(sch, "AutoInlineElemWise", is_elementwise)


def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inline each stage that reads its tensors at some of its own axes, in order: ``A[j]``.

    Raises:
        ArgumentError: for anything but a schedule.
    """
    _inline_all(sch, "AutoInlineBroadcast", is_broadcast)


def AutoInlineInjective(sch: Schedule) -> None:
    """Inline each stage that is no reduction, wherever it reads.

    Raises:
        ArgumentError: for anything but a schedule.
    """
    _inline_all(sch, "AutoInlineInjective", is_injective)


def _inline_all(sch: Schedule, name: str, wanted: Callable[[Operation], bool]) -> None:
    """Inline the untouched stages whose operation is ``wanted``, but for outputs."""
    if not hasattr(sch, "stage_map"):
        raise ArgumentError(f"{name}({sch!r})", f"a {type(sch).__name__} is not a schedule")
    for stage in sch.stages:
        if not stage.is_output and _untouched(stage) and wanted(stage.op):
            stage.compute_inline()


def _untouched(stage: Stage) -> bool:
    plain = not stage.relations and not stage.iter_var_attrs and stage.attach_type == ROOT
    return plain and stage.leaf_iter_vars == stage.all_iter_vars
