"""A rewriter that knows, at every place, the loops and conditions around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whet.compiler.arith import Analyzer
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.analysis.conditions import negated
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.visit.rewrite import Node, Rewriter


class FactsRewriter(Rewriter):
    """Rewrites statements while ``analyzer`` learns what holds where they stand."""

    def __init__(self, rules: Mapping[type, Callable[[Node], Node]] | None = None) -> None:
        super().__init__({s.For: self.loop, s.IfThenElse: self.branch, **(rules or {})})
        self.analyzer = Analyzer()

    def loop(self, n: s.For) -> s.Stmt:
        """A loop: inside, its variable is in its range, and there is at least one step."""
        begin, extent = self(n.min), self(n.extent)
        analyzer = self.analyzer
        analyzer.bind_loop(n.var, n.min, n.extent)
        known = len(analyzer.constraints)
        analyzer.constraints.append(analyzer.affine(n.extent).scaled(-1).shifted(1))
        body = self(n.body)
        del analyzer.constraints[known:]
        del analyzer.ranges[n.var]
        if body is n.body and begin is n.min and extent is n.extent:
            return n
        return s.For(n.var, begin, extent, n.kind, body, n.annotations, n.thread)

    def branch(self, n: s.IfThenElse) -> s.Stmt:
        """A branch: inside, its condition holds, or does not."""
        condition = self(n.condition)
        with self.analyzer.assuming(n.condition):
            then = self(n.then_case)
        other = None
        if n.else_case is not None:
            with self.analyzer.assuming(negated(n.condition)):
                other = self(n.else_case)
        if then is n.then_case and other is n.else_case and condition is n.condition:
            return n
        return s.IfThenElse(condition, then, other, n.likely)

    def in_range(self, buffer: Buffer, indices: tuple[e.PrimExpr, ...]) -> bool:
        """Whether an access of one element is surely inside its buffer."""
        return all(
            self.not_below(i) and self.not_above(i, d) for i, d in zip(indices, buffer.shape)
        )

    def not_below(self, index: e.PrimExpr) -> bool:
        """Whether surely ``0 <= index``."""
        return self.analyzer.at_most_zero(self.analyzer.affine(index).scaled(-1))

    def not_above(self, index: e.PrimExpr, extent: e.PrimExpr) -> bool:
        """Whether surely ``index < extent``."""
        analyzer = self.analyzer
        return analyzer.at_most_zero((analyzer.affine(index) - analyzer.affine(extent)).shifted(1))
