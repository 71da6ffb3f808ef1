"""A check before lowering: no expression surely reads outside a tensor.

Found are reads whose index, an affine form of the axes, goes beyond the tensor's shape for some
step. What a condition guards is left to the condition: reads inside ``if_then_else``, inside
``select``, or of a reduction with ``where``.
"""

from __future__ import annotations

from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.stage import ROOT
from whet.compiler.te.tensor import ComputeOp
from whet.compiler.tir import expr as e
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.rewrite import TABLE


def check_reads(schedule: Schedule) -> None:
    """Look at every computation that a schedule does as a whole.

    Raises:
        LowerError: naming the computation, the tensor, the index and how far it goes.
    """
    for stage in schedule.stages:
        # what is attached or inlined computes only what its readers need
        if isinstance(stage.op, ComputeOp) and stage.attach_type == ROOT:
            _check(stage.op)


def _check(op: ComputeOp) -> None:
    analyzer = Analyzer()
    axes: set[e.Var] = set()
    for a in (*op.axis, *op.reduce_axis):
        assert a.dom is not None
        if isinstance(a.dom.extent, e.IntImm) and a.dom.extent.value <= 0:
            return  # nothing is computed
        analyzer.bind_loop(a.var, a.dom.min, a.dom.extent)
        axes.add(a.var)

    # a stack, not recursion: expressions may be deep
    stack: list[e.PrimExpr] = list(op.body)
    while stack:
        n = stack.pop()
        if isinstance(n, e.Select) or (isinstance(n, e.Call) and n.op == "if_then_else"):
            continue
        if isinstance(n, e.Reduce) and not isinstance(n.condition, e.IntImm):
            continue
        if isinstance(n, e.ProducerLoad):
            for d, (index, extent) in enumerate(zip(n.indices, n.producer.shape)):
                _check_index(op, n, d, analyzer, axes, index, extent)
        stack.extend(TABLE[type(n)][0](n))


def _check_index(
    op: ComputeOp,
    n: e.ProducerLoad,
    d: int,
    analyzer: Analyzer,
    axes: set[e.Var],
    index: e.PrimExpr,
    extent: e.PrimExpr,
) -> None:
    form = analyzer.affine(index)
    if any(not isinstance(atom, e.Var) for atom, _ in form.terms.values()):
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
