"""Reductions whose steps come in order: what is accumulated stands no later than what comes.

An argmax compares the places of equal values. Where a loop goes through the places in order, its
accumulator has an earlier one than each step has, and nothing is left to compare:

    before = x1 > y1 or (x1 == y1 and x0 <= y0)     ->     before = x1 >= y1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    EQ,
    GE,
    GT,
    LE,
    LT,
    And,
    IntImm,
    Or,
    PrimExpr,
    Reduce,
    Select,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import SERIAL, UNROLLED
from whet.compiler.tir.visit.rewrite import Rewriter

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage

_OR_EQUAL = {GT: GE, LT: LE}


def ordered_result(
    bounds: Bounds, stage: Stage, first: Reduce, values: Mapping[int, PrimExpr]
) -> tuple[PrimExpr, ...]:
    """The results of a reducer of tuples, without the comparisons that its loops decide.

    Args:
        bounds: of the schedule.
        stage: the reduction's.
        first: one reduction of the tuple.
        values: of each component in one step, over loops.
    """
    c = first.combiner
    known = {v for v, x in values.items() if _in_order(bounds, stage, first, v, x)}
    if not known:
        return c.result
    pairs = {(c.lhs[v], c.rhs[v]) for v in known}

    def decided(n: LE | LT | GE | GT) -> PrimExpr:
        forwards, backwards = (n.a, n.b) in pairs, (n.b, n.a) in pairs
        if (forwards and isinstance(n, LE)) or (backwards and isinstance(n, GE)):
            return ops.const(True)
        if (forwards and isinstance(n, GT)) or (backwards and isinstance(n, LT)):
            return ops.const(False)
        return n

    def both(n: And) -> PrimExpr:
        n = rewrite.children(n)
        for one, other in ((n.a, n.b), (n.b, n.a)):
            if isinstance(one, IntImm):
                return other if one.value else one
        return n

    def either(n: Or) -> PrimExpr:
        n = rewrite.children(n)
        for one, other in ((n.a, n.b), (n.b, n.a)):
            if isinstance(one, IntImm):
                return one if one.value else other
        kind = _OR_EQUAL.get(type(n.a))  # type: ignore[arg-type]
        if kind and isinstance(n.b, EQ) and (n.a.a, n.a.b) == (n.b.a, n.b.b):  # type: ignore[attr-defined]
            return ops.compare(kind, n.b.a, n.b.b)
        return n

    rewrite = Rewriter({**dict.fromkeys((LE, LT, GE, GT), decided), And: both, Or: either})
    return tuple(rewrite(x) for x in c.result)


def _in_order(bounds: Bounds, stage: Stage, first: Reduce, v: int, value: PrimExpr) -> bool:
    """True where a component is the greatest so far of those that grow from step to step."""
    c = first.combiner
    kept, identity = c.result[v], c.identity[v]
    picks = isinstance(kept, Select) and {kept.true_value, kept.false_value} == {c.lhs[v], c.rhs[v]}
    if not picks or first.init or not isinstance(identity, IntImm):
        return False
    leaves = [a for a in stage.leaf_iter_vars if a.iter_type == COMM_REDUCE]
    if any(stage.attr(a).kind not in (SERIAL, UNROLLED) for a in leaves):
        return False
    form = bounds.analyzer.affine(value)
    if not bounds.analyzer.at_most_zero(form.scaled(-1).shifted(identity.value)):
        return False
    extents, span = bounds.stages[stage].extents, 0
    rest = form
    for k, leaf in enumerate(reversed(leaves)):
        step, extent = form.coefficient(leaf.var), extents[leaf]
        # the next step of a loop is not below the last one of those inside of it
        if step < span or (not extent.is_const and k < len(leaves) - 1):
            return False
        span += step * (extent.const - 1) if extent.is_const else 0
        rest = rest.without(leaf.var)
    return not rest.mentions({a.var for a in leaves})
