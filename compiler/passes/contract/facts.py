"""A rewriter that knows, at every place, the loops and conditions around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whet.compiler.arith import Analyzer
from whet.compiler.tir.analysis.conditions import negated
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import PrimExpr
from whet.compiler.tir.stmt import For, IfThenElse, Stmt
from whet.compiler.tir.visit.rewrite import Node, Rewriter, changed


class FactsRewriter(Rewriter):
    """Rewrites statements while ``analyzer`` learns what holds where they stand."""

    def __init__(self, rules: Mapping[type, Callable[[Node], Node]] | None = None) -> None:
        super().__init__({For: self.loop, IfThenElse: self.branch, **(rules or {})})
        self.analyzer = Analyzer()

    def loop(self, n: For) -> Stmt:
        """A loop: inside, its variable is in its range, and there is at least one step."""
        begin, extent = self(n.min), self(n.extent)
        with self.analyzer.inside(n.var, n.min, n.extent, steps=True):
            return changed(n, min=begin, extent=extent, body=self(n.body))

    def branch(self, n: IfThenElse) -> Stmt:
        """A branch: inside, its condition holds, or does not."""
        condition = self(n.condition)
        with self.analyzer.assuming(n.condition):
            then = self(n.then_case)
        other = None
        if n.else_case is not None:
            with self.analyzer.assuming(negated(n.condition)):
                other = self(n.else_case)
        return changed(n, condition=condition, then_case=then, else_case=other)

    def in_range(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> bool:
        """True for an access of one element that is surely inside its buffer."""
        return all(
            self.not_below(i) and self.analyzer.less(i, d) for i, d in zip(indices, buffer.shape)
        )

    def not_below(self, index: PrimExpr) -> bool:
        """True where surely ``0 <= index``."""
        return self.analyzer.at_most_zero(self.analyzer.affine(index).scaled(-1))
