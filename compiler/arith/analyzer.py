"""The analyzer: facts about variables, affine forms and bounds of expressions, proofs.

Everything here is about integers without overflow, as indices are.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from whet.compiler.arith.affine import Affine
from whet.compiler.arith.bounds import Bounds
from whet.compiler.arith.knowledge import Knowledge
from whet.compiler.tir.expr import (
    COMPARISONS,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    CmpOp,
    IntImm,
    PrimExpr,
    Range,
    Var,
)
from whet.compiler.tir.ops import ops

_INEQUALITIES = frozenset((LT, LE, GT, GE))


@dataclass(frozen=True, slots=True)
class ConstIntBound:
    """The least and the greatest value of an expression; None where there is no bound."""

    min_value: int | None
    max_value: int | None


class _Block:
    """A block within which an analyzer knows a condition.

    Args:
        analyzer: it learns the condition when the block begins.
        condition: what holds.
    """

    __slots__ = ("_analyzer", "_before", "_condition")

    def __init__(self, analyzer: Analyzer, condition: PrimExpr) -> None:
        self._analyzer, self._condition = analyzer, condition
        self._before = 0

    def __enter__(self) -> None:
        self._before = len(self._analyzer.constraints)
        self._analyzer._learn(self._condition)

    def __exit__(self, *error: object) -> None:
        del self._analyzer.constraints[self._before :]


class _Loop(_Block):
    """The block of a loop, whose variable is in its range; lowering enters one for every loop.

    Args:
        analyzer: it learns the range when the block begins, and forgets it at the end.
        var, begin, extent: of the loop.
        steps: whether the loop is known to have a step.
    """

    __slots__ = ("_begin", "_extent", "_steps", "_var")

    def __init__(
        self, analyzer: Analyzer, var: Var, begin: PrimExpr, extent: PrimExpr, steps: bool
    ) -> None:
        self._analyzer, self._var, self._begin = analyzer, var, begin
        self._extent, self._steps = extent, steps

    def __enter__(self) -> None:
        analyzer = self._analyzer
        analyzer.bind_loop(self._var, self._begin, self._extent)
        self._before = len(analyzer.constraints)
        if self._steps:
            analyzer.constraints.append(analyzer.affine(self._extent).scaled(-1).shifted(1))

    def __exit__(self, *error: object) -> None:
        del self._analyzer.constraints[self._before :]
        self._analyzer.ranges.pop(self._var, None)


class Analyzer:
    """Knows the ranges of loop variables and the conditions that hold around a place.

    Attributes:
        ranges: variable -> (least, greatest) value as forms over variables bound before it.
        fixed: variable -> the one value that it can have.
        constraints: forms known to be <= 0.
        affine: the affine form of an integer expression, simplified with what is known.
        floordiv: ``floordiv(form, c)``, the form of a quotient by a positive number.
        bounds: the least and the greatest value of a form; None where there is no bound.
        eliminate: ``eliminate(form, variables, sign)``, the greatest or least value over variables.
    """

    def __init__(self) -> None:
        self._known = known = Knowledge()
        self.ranges, self.fixed, self.constraints = known.ranges, known.fixed, known.constraints
        bounds = Bounds(known, self.at_most_zero)
        self.affine, self.floordiv = bounds.forms.affine, bounds.forms.floordiv
        self.bounds, self.eliminate, self._bound = bounds.bounds, bounds.eliminate, bounds.bound

    # what is known

    def bind(self, var: Var, low: Affine | Any, high: Affine | None = None) -> None:
        """Learn that ``low <= var <= high``; or, of a Range or an expression, that it is that."""
        if high is not None:
            self._known.bind(var, low, high)
        elif isinstance(low, Range):
            self.bind_loop(var, low.min, low.extent)
        else:
            form = self.affine(ops.convert(low))
            self._known.bind(var, form, form)

    def bind_loop(self, var: Var, begin: PrimExpr, extent: PrimExpr) -> None:
        """Learn that ``var`` runs over ``begin .. begin + extent - 1``."""
        low = self.affine(begin)
        self._known.bind(var, low, (low + self.affine(extent)).shifted(-1))

    def inside(
        self, var: Var, begin: PrimExpr, extent: PrimExpr, steps: bool = False
    ) -> AbstractContextManager[None]:
        """Within the block, a loop's variable is in its range; with ``steps`` it has at least one.

        Args:
            var, begin, extent: of the loop.
            steps: the block is inside the loop, which has a step then.
        """
        return _Loop(self, var, begin, extent, steps)

    def assuming(self, condition: PrimExpr) -> AbstractContextManager[None]:
        """Within the block, ``condition`` holds."""
        return _Block(self, condition)

    def _learn(self, c: PrimExpr) -> None:
        kind = type(c)
        if kind is And:
            self._learn(c.a)  # type: ignore[attr-defined]
            self._learn(c.b)  # type: ignore[attr-defined]
        elif kind in COMPARISONS and c.a.dtype in ("int32", "int64"):  # type: ignore[attr-defined]
            form = self.inequality(c)
            if form is not None:
                self.constraints.append(form)
            elif kind is EQ:
                d = self.affine(c.a) - self.affine(c.b)  # type: ignore[attr-defined]
                self.constraints += (d, d.scaled(-1))

    def inequality(self, c: PrimExpr) -> Affine | None:
        """The form that is at most 0 just where an inequality holds; None for other conditions."""
        kind = type(c)
        if kind not in _INEQUALITIES:
            return None
        d = self.affine(c.a) - self.affine(c.b)  # type: ignore[attr-defined]
        if kind is GT or kind is GE:
            d = d.scaled(-1)
        return d.shifted(1) if kind is LT or kind is GT else d

    # proofs

    def at_most_zero(self, a: Affine) -> bool:
        """True for a form that is surely <= 0."""
        high = self._bound(a, 1)
        if high is not None and high <= 0:
            return True
        for known in self.constraints:
            common = next((k for k in known.terms if k in a.terms), None)
            if common is None:
                continue  # nothing cancels: it says no more than the ranges do
            # vectors of four are in range where their number is: 4 x + v where x is
            times = a.terms[common][1] // known.terms[common][1]
            for scale in {1, times} if times > 1 else (1,):
                high = self._bound(a.plus(known, -scale), 1)
                if high is not None and high <= 0:
                    return True
        return False

    def positive(self, a: Affine) -> bool:
        """True for a form that is surely > 0."""
        return self.at_most_zero(a.scaled(-1).shifted(1))

    def less(self, a: PrimExpr, b: PrimExpr) -> bool:
        """True where surely ``a < b``."""
        return self.at_most_zero((self.affine(a) - self.affine(b)).shifted(1))

    def at_most(self, a: PrimExpr, b: PrimExpr) -> bool:
        """True where surely ``a <= b``."""
        return self.at_most_zero(self.affine(a) - self.affine(b))

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """True where surely ``a == b``."""
        d = self.affine(a) - self.affine(b)
        return d.is_const and d.const == 0

    def compare(self, n: CmpOp) -> bool | None:
        """The truth of an integer comparison, or None when it cannot be told."""
        form = self.inequality(n)
        if form is not None:
            if self.at_most_zero(form):
                return True
            return False if self.at_most_zero(form.scaled(-1).shifted(1)) else None
        d, kind = self.affine(n.a) - self.affine(n.b), type(n)
        low, high = self.bounds(d)
        if low == high == 0:
            return kind is EQ
        if (low is not None and low > 0) or (high is not None and high < 0):
            return kind is NE
        return None

    # by the names of TVM's arith.Analyzer

    def simplify(self, expr: Any, steps: int = 2) -> PrimExpr:
        """An equal expression in canonical form.

        Args:
            expr: the expression.
            steps: how often to go over it, at most.
        """
        from whet.compiler.arith.lanes import VectorSimplifier  # few ask

        n = ops.convert(expr)
        for _ in range(max(steps, 1)):
            new = VectorSimplifier(self)(n)
            if new is n:
                break
            n = new
        return n

    def rewrite_simplify(self, expr: Any) -> PrimExpr:
        """:meth:`simplify`: there is one canonical form here."""
        return self.simplify(expr)

    def canonical_simplify(self, expr: Any) -> PrimExpr:
        """:meth:`simplify`: there is one canonical form here."""
        return self.simplify(expr)

    def can_prove(self, condition: Any, strength: int = 0) -> bool:
        """True for a condition that surely holds, by what is known."""
        n = self.simplify(condition)
        return isinstance(n, IntImm) and n.value != 0

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """True for two integers that are surely equal."""
        return self.equal(ops.convert(lhs), ops.convert(rhs))

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """The least and the greatest value of an integer expression."""
        return ConstIntBound(*self.bounds(self.affine(ops.convert(expr))))

    def constraint_scope(self, constraint: Any) -> AbstractContextManager[None]:
        """Within the block, ``constraint`` holds."""
        return self.assuming(ops.convert(constraint))
