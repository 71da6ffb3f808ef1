"""Reductions over a domain that depends on the data axes: ``k`` from 0 to ``i + 1``.

Where the data axes are loops around the reduction's, as they stand, its loop has the extent that
was written. Elsewhere (split, fused, reordered, attached, vectorised) it runs over all that any
element needs, under a condition: ``for k in range(0, 9): if k < i + 1: ...``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError, Text
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir.expr import GE, LT, IterVar, PrimExpr, Range, Reduce, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import PARALLEL, UNROLLED
from whet.compiler.tir.visit.rewrite import substitute, variables

if TYPE_CHECKING:
    from whet.compiler.arith import Affine, Analyzer
    from whet.compiler.te.stage import Stage


def ragged_axes(op: Operation) -> list[IterVar]:
    """The reduction axes whose domain depends on data axes."""
    own = {a.var for a in op.axis}
    return [a for a in op.reduce_axis if _needed(a) & own]


def _needed(axis: IterVar) -> set[Var]:
    return variables(axis.domain.min) | variables(axis.domain.extent)


def stands_as_written(stage: Stage) -> bool:
    """True if all that the domains depend on are loops of the stage, before the reduction's."""
    leaves = stage.leaf_iter_vars[: stage.first_reduce]
    before = {leaf.var for leaf in leaves if _is_counted(stage, leaf)}
    own = {a.var for a in stage.op.axis}
    return all(_needed(a) & own <= before for a in ragged_axes(stage.op))


def _is_counted(stage: Stage, leaf: IterVar) -> bool:
    """True if a loop runs its steps in order, so that loops inside may use its variable."""
    attr = stage.iter_var_attrs.get(leaf)
    return attr is None or attr.kind in (PARALLEL, UNROLLED)


def hull(stage: Stage, axis: IterVar, analyzer: Analyzer) -> tuple[Affine, Affine]:
    """The least first step of an axis, and how many steps there are at most, for all elements.

    Raises:
        ScheduleError: it is not known.
    """
    own = set()
    for a in stage.op.axis:
        own.add(a.var)
        analyzer.bind_loop(a.var, a.domain.min, a.domain.extent)
    low = analyzer.eliminate(analyzer.affine(axis.domain.min), own, -1)
    end = analyzer.affine(ops.add(axis.domain.min, axis.domain.extent))
    high = analyzer.eliminate(end, own, 1)
    if low is None or high is None:
        raise refused(stage.op, f"schedule {stage.op.name}")
    return low, high - low


def guarded(op: ComputeOp, body: PrimExpr) -> PrimExpr:
    """A reduction that takes a step only where the domains, as they were written, have one."""
    if not isinstance(body, Reduce):
        return body
    tests = [body.condition]
    for a in ragged_axes(op):
        tests.append(ops.compare(GE, a.var, a.domain.min))
        tests.append(ops.compare(LT, a.var, ops.add(a.domain.min, a.domain.extent)))
    return replace(body, condition=ops.all_of(*tests))


def renamed_domains(op: ComputeOp, names: dict[Var, Any]) -> tuple[IterVar, ...]:
    """The reduction axes, with the domains of ragged ones in terms of other data axes."""
    ragged = ragged_axes(op)
    out = []
    for a in op.reduce_axis:
        if any(a is b for b in ragged):
            low, many = (substitute(x, names) for x in (a.domain.min, a.domain.extent))
            a = IterVar(Range.from_min_extent(low, many), a.var, a.iter_type, a.thread_tag)
        out.append(a)
    return tuple(out)


def refused(op: Operation, request: Text) -> ScheduleError:
    """Why a primitive cannot be had of a reduction with ragged axes."""
    axes = ", ".join(a.var.name for a in ragged_axes(op))
    return ScheduleError(
        request,
        f"the domain of {axes} depends on the data axes of {op.name}",
        "reduce over the whole range under a condition: "
        "k = te.reduce_axis((0, n)); te.sum(A[i, k], axis=k, where=k <= i)",
    )
