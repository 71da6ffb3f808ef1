"""Checks before lowering: no read surely outside a tensor, no division by 0, no unknown variable.

Found are reads whose index, an affine form of the axes, goes beyond the tensor's shape for some
step. What a condition guards is left to the condition: reads inside ``if_then_else``, inside
``select``, on the right side of ``te.all`` and ``te.any``, or of a reduction with ``where``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.relations import ROOT
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    And,
    BinaryOp,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Or,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Select,
    Var,
    is_choice,
)
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.visit.rewrite import nodes

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
    analyzer = Analyzer()
    axes: set[Var] = set()
    for a in (*op.axis, *op.reduce_axis):
        if isinstance(a.domain.extent, IntImm) and a.domain.extent.value <= 0:
            return  # nothing is computed
        analyzer.bind_loop(a.var, a.domain.min, a.domain.extent)
        axes.add(a.var)

    for n in nodes(op.body, _always_evaluated):
        if isinstance(n, ProducerLoad):
            for d, (index, extent) in enumerate(zip(n.indices, n.producer.shape)):
                _check_index(op, n, d, analyzer, axes, index, extent)


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
