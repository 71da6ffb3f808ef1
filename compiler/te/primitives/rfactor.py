"""The primitive rfactor: one axis of a reduction becomes a data axis, which is reduced last."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.arith import Analyzer
from whet.compiler.errors import ScheduleError
from whet.compiler.te.bounds.extents import AffineSizes, axis_extents, pass_up, touched
from whet.compiler.te.bounds.ragged import ragged_axes, refused
from whet.compiler.te.lang.axes import axis_over
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.primitives.checks import (
    Request,
    argument_text,
    check_loops,
    leaf_index,
    loops_of,
    on_schedule,
)
from whet.compiler.tir.expr import COMM_REDUCE, DATA_PAR, LT, IterVar, PrimExpr, Reduce, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import substitute

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


@on_schedule
def rfactor(schedule: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
    """Reduce in two stages: ``B.rf[k, i]`` over all axes but ``k``, then ``B[i]`` over ``k``.

    The steps of ``k`` do not depend on each other any more: they can be vectorised, parallel
    or threads. Both stages begin with plain loops over their axes.

    >>> A = te.placeholder((64,), name="A")
    >>> k = te.reduce_axis((0, 64), name="k")
    >>> B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(lower(s, [A, B]))
    def main(A: float32[64], B: float32[1]):
        B[0] = float32(0.0)
        B_acc = allocate([1], "float32", "local")
        B_acc[0] = B[0]
        for k in range(64):
            B_acc[0] = B_acc[0] + A[k]
        B[0] = B_acc[0]
    >>> ko, ki = s[B].split(k, factor=8)
    >>> BF = s.rfactor(B, ki)
    >>> print(lower(s, [A, B]))
    def main(A: float32[64], B: float32[1]):
        B_rf = allocate([8], "float32", "global")
        for k_inner in range(8):
            B_rf[k_inner] = float32(0.0)
            B_rf_acc = allocate([1], "float32", "local")
            B_rf_acc[0] = B_rf[k_inner]
            for k_outer in range(8):
                B_rf_acc[0] = B_rf_acc[0] + A[k_outer * 8 + k_inner]
            B_rf[k_inner] = B_rf_acc[0]
        B[0] = float32(0.0)
        B_acc = allocate([1], "float32", "local")
        B_acc[0] = B[0]
        for k_inner_v in range(8):
            B_acc[0] = B_acc[0] + B_rf[k_inner_v]
        B[0] = B_acc[0]

    Args:
        tensor: the result of a reduction.
        axis: a reduction loop of its stage.
        factor_axis: where the new axis stands among those of the first stage; from the end if
            negative.

    Returns:
        The first stage's tensor; a list of them for a reduction of tuples.

    Raises:
        ScheduleError: if the axis is no reduction loop of the stage, or the position does not
            exist.
    """
    stage, old = _reduction(schedule, tensor, axis, factor_axis)
    first, second = _factored(stage, old, axis, _place(factor_axis, len(old.axis)))
    schedule.insert_stage(stage, first, "", stage)
    schedule.replace_op(stage, second)
    out = [Tensor(first, k) for k in range(first.num_outputs)]
    schedule.record("rfactor", stage, (tensor, axis), {"factor_axis": int(factor_axis)}, out, old)
    return out if len(out) > 1 else out[0]


def _reduction(
    schedule: Schedule, tensor: Any, axis: IterVar, factor_axis: Any
) -> tuple[Stage, ComputeOp]:
    """The stage of a reduction that can be factored at an axis, and its operation."""
    if not isinstance(tensor, Tensor):
        raise ScheduleError(f"rfactor({tensor!r})", "give the tensor that is reduced")
    stage = schedule[tensor]
    old = stage.op
    request = Request(stage, "rfactor", axis, factor_axis=factor_axis)
    check_loops(stage, request)
    if not isinstance(old, ComputeOp) or not isinstance(old.body[0], Reduce):
        raise ScheduleError(request, f"{old.name} is not a reduction", loops_of(stage))
    leaf_index(stage, axis, request)
    if axis.iter_type != COMM_REDUCE:
        raise ScheduleError(
            request,
            f"{argument_text(axis)} is a data axis, not one of the reduction",
            loops_of(stage),
        )
    if ragged_axes(old):
        raise refused(old, request)
    if not isinstance(factor_axis, numbers.Integral) or isinstance(factor_axis, bool):
        raise ScheduleError(request, "factor_axis must be an integer")
    rank = len(old.axis)
    if not 0 <= _place(factor_axis, rank) <= rank:
        raise ScheduleError(
            request,
            f"the first stage has {rank + 1} axes: {-rank - 1} to {rank} are places among them",
        )
    return stage, old


def _place(factor_axis: Any, rank: int) -> int:
    return int(factor_axis) + (rank + 1 if factor_axis < 0 else 0)


def _factored(
    stage: Stage, old: ComputeOp, axis: IterVar, place: int
) -> tuple[ComputeOp, ComputeOp]:
    """The operations that reduce over all axes but one, and over that one."""
    analyzer = Analyzer()
    sizes = AffineSizes(analyzer)
    extents = axis_extents(stage, sizes)
    tied = touched(axis, stage.relations)
    extent = extents[axis].to_expr(axis.dtype)

    factor = axis_over(axis.var.name, extent, axis.dtype, DATA_PAR)
    values = {axis: analyzer.affine(factor.var)}
    reduced: list[IterVar] = []
    for leaf in stage.leaf_iter_vars:
        if leaf in tied and leaf is not axis:
            new = axis_over(
                leaf.var.name, extents[leaf].to_expr(leaf.dtype), leaf.dtype, COMM_REDUCE
            )
            values[leaf] = analyzer.affine(new.var)
            reduced.append(new)
    about = [r for r in stage.relations if not tied.isdisjoint(r.members)]
    guards = pass_up(about, extents, values, sizes)
    inside = [ops.compare(LT, v.to_expr(), n.to_expr()) for v, n in guards]

    known: dict[Var, PrimExpr] = {}
    for a in old.reduce_axis:
        if a in tied:
            known[a.var] = ops.add(values[a].to_expr(a.dtype), a.domain.min)
    over = (*[a for a in old.reduce_axis if a not in tied], *reduced)
    axes = (*old.axis[:place], factor, *old.axis[place:])
    groups = _groups(old.body)
    partial = _partial(groups, known, inside, over)
    first = ComputeOp(f"{old.name}.rf", axes, over, partial, old.tag, old.attrs)

    last = axis_over(f"{axis.var.name}.v", extent, axis.dtype, COMM_REDUCE)
    data = tuple(IterVar(a.dom, Var(a.var.name, a.dtype), DATA_PAR) for a in old.axis)
    indices: list[Var] = [a.var for a in data]
    indices.insert(place, last.var)
    parts = [Tensor(first, k)(*indices) for k in range(first.num_outputs)]
    renamed = {a.var: b.var for a, b in zip(old.axis, data)}
    body = []
    for b in old.body:
        assert isinstance(b, Reduce)
        begin = sum(len(g.source) for g in groups[: _group_of(b, groups)])
        source = tuple(parts[begin : begin + len(b.source)])
        init = tuple(substitute(x, renamed) for x in b.init)
        body.append(
            Reduce(b.combiner, source, (last,), ops.const(True), b.value_index, b.dtype, init)
        )
    return first, ComputeOp(old.name, data, (last,), tuple(body), old.tag, old.attrs)


def _partial(
    groups: list[Reduce],
    known: dict[Var, PrimExpr],
    inside: list[PrimExpr],
    over: tuple[IterVar, ...],
) -> tuple[PrimExpr, ...]:
    """The body of the first stage: every component of every reduction."""
    body: list[PrimExpr] = []
    for g in groups:
        condition = ops.all_of(*inside, substitute(g.condition, known))
        source = tuple(substitute(x, known) for x in g.source)
        for k, x in enumerate(source):
            if over:
                body.append(Reduce(g.combiner, source, over, condition, k, x.dtype))
            else:  # nothing is left to reduce: what is masked is the identity
                body.append(ops.if_then_else(condition, x, g.combiner.identity[k]))
    return tuple(body)


def _groups(body: Sequence[PrimExpr]) -> list[Reduce]:
    """One of each reduction: the components of a tuple belong together."""
    out: list[Reduce] = []
    for b in body:
        assert isinstance(b, Reduce)
        if _group_of(b, out) == len(out):
            out.append(b)
    return out


def _group_of(b: Reduce, groups: list[Reduce]) -> int:
    for k, g in enumerate(groups):
        if g.combiner is b.combiner and len(b.source) > 1:
            return k
        if g is b:
            return k
    return len(groups)
