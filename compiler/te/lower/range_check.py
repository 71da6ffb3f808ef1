"""Checks before lowering: no read surely outside a tensor, no division by 0, no unknown variable.

Found are reads whose index, an affine form of the axes, goes beyond the tensor's shape for some
step. What a condition guards is left to the condition: reads inside ``if_then_else``, inside
``select``, on the right side of ``te.all`` and ``te.any``, or of a reduction with ``where``.
What a recurrence computes is looked at as it is defined, at the steps that it has: a state is read
at earlier ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.relations import ROOT
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.te.lower.lower_scan import step_axes
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    And,
    BinaryOp,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Mod,
    Or,
    PrimExpr,
    ProducerLoad,
    Range,
    Reduce,
    Select,
    Var,
    is_choice,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.visit.rewrite import nodes, variables

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def check_reads(schedule: Schedule) -> None:
    """Look at every computation that a schedule does as a whole.

    Raises:
        LowerError: naming the computation, the tensor, the index and how far it goes.
    """
    for stage in schedule.stages:
        # what is attached or inlined computes only what its readers need
        if isinstance(stage.op, ComputeOp) and stage.attach_type == ROOT:
            _check(stage.op)
        if isinstance(stage.origin_op, ScanOp):
            for op, axes in step_axes(stage.origin_op).items():
                _check_in_scan(op, stage.origin_op, axes)


def check_values(schedule: Schedule, given: Collection[Var] | None = None) -> None:
    """Look at what the expressions of all stages are made of.

    Args:
        schedule: what is lowered.
        given: the variables that the arguments give; None where they are not known yet.

    Raises:
        LowerError: for a division of integers by 0, and for a variable that has no value.
    """
    axes: dict[Var, str] = {}
    for stage in schedule.stages:
        for op in (stage.op, stage.origin_op):
            for a in (*op.axis, *op.reduce_axis):
                axes.setdefault(a.var, op.name)
    for stage in schedule.stages:
        if isinstance(stage.op, ComputeOp):
            _check_values(stage.op, axes, given)


def given_by(params: Iterable[Buffer | Var]) -> set[Var]:
    """The variables to which arguments give values."""
    known: set[Var] = set()
    for p in params:
        parts = (*p.shape, *p.strides, p.elem_offset) if isinstance(p, Buffer) else (p,)
        for x in parts:
            known |= variables(x)
    return known


def _check_values(op: ComputeOp, axes: dict[Var, str], given: Collection[Var] | None) -> None:
    own = {a.var for a in (*op.axis, *op.reduce_axis)}
    parts = nodes(op.body)
    own |= {n.var for n in parts if type(n) is Let}
    for n in parts:
        if type(n) in _DIVISIONS and not dt.is_float(n.dtype):
            _check_divisor(op, n)
        if not isinstance(n, Var) or n in own:
            continue
        if n in axes:
            raise LowerError(
                f"lower: {op.name} uses {n.name}",
                f"{n.name} is an axis of {axes[n]}, not of {op.name}",
                _axes_of(op),
            )
        if given is not None and n not in given and n.dtype != "handle":
            raise LowerError(
                f"lower: {op.name} uses {n.name}",
                f"{n.name} is neither an axis of {op.name} nor a size of an argument, and no "
                "argument gives it a value",
                f"{_axes_of(op)}\na reduction axis stands inside its reduction: "
                f"te.sum(..., axis={n.name});\na variable is passed in args: an array with the "
                f"dimension {n.name}, or {n.name} itself",
            )


def _axes_of(op: ComputeOp) -> str:
    data = ", ".join(a.name for a in op.axis) or "none"
    reduced = ", ".join(a.name for a in op.reduce_axis)
    return f"axes of {op.name}: {data}" + (f"; it reduces over {reduced}" if reduced else "")


def _check_divisor(op: ComputeOp, n: BinaryOp) -> None:
    if type(n.b) is not IntImm and n.b.dtype in ("int32", "int64"):
        form = Analyzer().affine(n.b)
        zero = form.is_const and form.const == 0
    else:
        zero = isinstance(n.b, IntImm) and n.b.value == 0
    if zero:
        raise LowerError(
            f"lower: {op.name} computes {expr_text(n)}",
            "the divisor is zero",
            "divide by something else; te.if_then_else(d != 0, x // d, ...) guards a variable",
        )


def _check(op: ComputeOp) -> None:
    _check_over(op, {a: a.domain for a in (*op.axis, *op.reduce_axis)})


def _check_in_scan(op: ComputeOp, scan: ScanOp, steps: Mapping[IterVar, int | None]) -> None:
    """Look at a computation that a recurrence does at each step.

    Args:
        steps: axis -> how far it is from the step; None where that is unknown.
    """
    over = {a: a.domain for a in (*op.axis, *op.reduce_axis) if a not in steps}
    placed = {a: c for a, c in steps.items() if c is not None}
    first, count = scan.scan_axis.domain.min, scan.scan_axis.domain.extent
    for a, c in placed.items():
        over[a] = Range.from_min_extent(ops.add(first, c), count)
    step = next(((a, c) for a, c in placed.items()), None)
    _check_over(op, over, {t.op for t in scan.state_placeholder}, step)


def _check_over(
    op: ComputeOp,
    over: Mapping[IterVar, Range],
    states: Collection[Operation] = (),
    step: tuple[IterVar, int] | None = None,
) -> None:
    analyzer = Analyzer()
    axes: set[Var] = set()
    for a, domain in over.items():
        if isinstance(domain.extent, IntImm) and domain.extent.value <= 0:
            return  # nothing is computed
        analyzer.bind_loop(a.var, domain.min, domain.extent)
        axes.add(a.var)

    for n in nodes(op.body, _always_evaluated):
        if isinstance(n, ProducerLoad):
            if step is not None and n.producer.op in states:
                _check_earlier(op, n, analyzer, axes, step)
            for d, (index, extent) in enumerate(zip(n.indices, n.producer.shape)):
                _check_index(op, n, d, analyzer, axes, index, extent)


def _check_earlier(
    op: ComputeOp,
    n: ProducerLoad,
    analyzer: Analyzer,
    axes: set[Var],
    step: tuple[IterVar, int],
) -> None:
    """A state is read at a step before the one that is computed."""
    axis, offset = step
    index = analyzer.affine(n.indices[0])
    if any(not isinstance(atom, Var) for atom, _ in index.terms.values()):
        return
    ahead = index - analyzer.affine(axis.var).shifted(-offset)
    most = analyzer.eliminate(ahead, axes, 1)
    if most is None or not analyzer.at_most_zero(most.scaled(-1)):
        return
    here = analyzer.affine(axis.var).shifted(-offset)
    where = ", ".join(expr_text(i) for i in n.indices)
    raise LowerError(
        f"lower: {op.name} reads {n.producer.name}[{where}]",
        f"index 0, {expr_text(n.indices[0])}, is not before the step that is computed, "
        f"{expr_text(here.to_expr())}: the steps come one after the other",
        f"read an earlier step: {n.producer.name}[{axis.name} - 1, ...]",
    )


def _always_evaluated(n: PrimExpr) -> tuple[PrimExpr, ...]:
    """The children that are evaluated in every step; others are under a condition."""
    if isinstance(n, Select) or is_choice(n):
        return ()
    if isinstance(n, Reduce) and not isinstance(n.condition, IntImm):
        return ()
    return (n.a,) if isinstance(n, (And, Or)) else n.parts


def _check_index(
    op: ComputeOp,
    n: ProducerLoad,
    d: int,
    analyzer: Analyzer,
    axes: set[Var],
    index: PrimExpr,
    extent: PrimExpr,
) -> None:
    form = analyzer.affine(index)
    if any(not isinstance(atom, Var) for atom, _ in form.terms.values()):
        return  # its bounds may not be reached
    low, high = (analyzer.eliminate(form, axes, sign) for sign in (-1, 1))
    size = analyzer.affine(extent)
    if low is None or high is None:
        return
    below = analyzer.at_most_zero(low.shifted(1))
    if not below and not analyzer.at_most_zero(size - high):
        return
    reached = low if below else high
    where = ", ".join(expr_text(i) for i in n.indices)
    raise LowerError(
        f"lower: {op.name} reads {n.producer.name}[{where}]",
        f"index {d}, {expr_text(form.to_expr())}, goes "
        f"{'down' if below else 'up'} to {expr_text(reached.to_expr())}, "
        f"but the dimension is {expr_text(extent)}",
        "guard the read: te.if_then_else(condition, read, other value)",
    )
