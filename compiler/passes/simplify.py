"""Simplify: canonical indices, decided conditions, no loops of one step or none.

for i in range(1):                      A[j] = B[j]
    if likely(i * 8 + j < n + 8):  ->
        A[i * 8 + j] = B[i * 8 + j]
"""

from __future__ import annotations

from whet.compiler.arith import Analyzer
from whet.compiler.arith.simplify import Simplifier
from whet.compiler.passes.context import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.rewrite import keep, post_order_visit, variables


def simplify(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with simpler expressions and without statements that do nothing."""
    return func.with_body(_Statements(Analyzer())(func.body))


def simplify_loops(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The same for loops and conditions alone: stores are not looked into, which saves time."""
    return func.with_body(_Statements(Analyzer(), stores=False)(func.body))


class _Statements(Simplifier):
    def __init__(self, analyzer: Analyzer, stores: bool = True) -> None:
        super().__init__(analyzer)
        self.stores = stores
        self.rules |= {
            s.For: self._for,
            s.IfThenElse: self._if,
            s.BufferStore: self._store if stores else keep,
            s.Allocate: self._allocate,
        }

    def _for(self, n: s.For) -> s.Stmt:
        begin, extent = self(n.min), self(n.extent)
        if isinstance(extent, e.IntImm) and extent.value <= 0:
            return s.nothing()
        self.analyzer.bind_loop(n.var, begin, extent)
        known = len(self.analyzer.constraints)
        if not isinstance(extent, e.IntImm):  # inside the loop at least one step is taken
            self.analyzer.constraints.append(self.analyzer.affine(extent).scaled(-1).shifted(1))
        body = self(n.body)
        del self.analyzer.constraints[known:]
        del self.analyzer.ranges[n.var]
        if s.is_nothing(body):
            return s.nothing()
        if isinstance(extent, e.IntImm) and extent.value == 1 and self.stores:
            return body  # the analyzer has put the variable's one value everywhere
        shorter = self._guarded_steps(n, begin, extent, body)
        if shorter is not None:
            return shorter
        if _hoistable(n, body):
            assert isinstance(body, s.IfThenElse)
            parts = [
                None if x is None else s.For(n.var, begin, extent, n.kind, x, n.annotations)
                for x in (body.then_case, body.else_case)
            ]
            assert parts[0] is not None
            return s.IfThenElse(body.condition, parts[0], parts[1], body.likely)
        if begin is n.min and extent is n.extent and body is n.body:
            return n
        return s.For(n.var, begin, extent, n.kind, body, n.annotations)

    def _guarded_steps(
        self, n: s.For, begin: e.PrimExpr, extent: e.PrimExpr, body: s.Stmt
    ) -> s.Stmt | None:
        """The loop without the steps that its guard skips, when that is a number of steps."""
        if not (isinstance(body, s.IfThenElse) and body.likely and body.else_case is None):
            return None
        if not (isinstance(begin, e.IntImm) and isinstance(extent, e.IntImm)):
            return None
        tests = body.condition
        while isinstance(tests, e.And):
            tests = tests.a
        if not isinstance(tests, (e.LT, e.LE)):
            return None
        d = self.analyzer.affine(tests.a) - self.analyzer.affine(tests.b)
        term = d.terms.get(n.var)
        if term is None or len(d.terms) != 1 or term[1] < 1:
            return None
        # coef * var + const < 0 (or <= 0)
        strict = 1 if isinstance(tests, e.LT) else 0
        end = (-d.const - strict) // term[1] + 1
        steps = end - begin.value
        if steps >= extent.value:
            return None
        return self(s.For(n.var, begin, e.IntImm(extent.dtype, steps), n.kind, body, n.annotations))

    def _if(self, n: s.IfThenElse) -> s.Stmt:
        condition = self(n.condition)
        if isinstance(condition, e.IntImm):
            if condition.value:
                return self(n.then_case)
            return s.nothing() if n.else_case is None else self(n.else_case)
        with self.analyzer.assuming(condition):
            then = self(n.then_case)
        other = None if n.else_case is None else self(n.else_case)
        if other is not None and s.is_nothing(other):
            other = None
        if s.is_nothing(then) and other is None:
            return s.nothing()
        if condition is n.condition and then is n.then_case and other is n.else_case:
            return n
        return s.IfThenElse(condition, then, other, n.likely)

    def _store(self, n: s.BufferStore) -> s.Stmt:
        out = self.children(n)
        if isinstance(out.mask, e.IntImm):
            return (
                s.BufferStore(out.buffer, out.value, out.indices) if out.mask.value else s.nothing()
            )
        return out

    def _allocate(self, n: s.Allocate) -> s.Stmt:
        body = self(n.body)
        if s.is_nothing(body):
            return body
        return n if body is n.body else s.Allocate(n.buffer, body)


def _hoistable(loop: s.For, body: s.Stmt) -> bool:
    """Whether a loop is one guard's body at each step alike: the guard then goes around the loop.

    A guard with an else branch takes the loop's head along twice, which costs next to nothing.
    """
    if not isinstance(body, s.IfThenElse) or not body.likely:
        return False
    if body.else_case is not None and loop.kind == s.PARALLEL:
        return False
    reads: list[object] = []
    post_order_visit(
        body.condition, lambda n: reads.append(n) if isinstance(n, e.BufferLoad) else None
    )
    return not reads and loop.var not in variables(body.condition)
