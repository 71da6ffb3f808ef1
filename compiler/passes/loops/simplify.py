"""Simplify: canonical indices, decided conditions, no loops of one step or none.

for i in range(1):                      A[j] = B[j]
    if likely(i * 8 + j < n + 8):  ->
        A[i * 8 + j] = B[i * 8 + j]
"""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.arith.simplify import Simplifier
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.passes.loops.hoist_if_then_else import moved_out
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.analysis.conditions import negated
from whet.compiler.tir.expr import LE, LT, And, BufferLoad, IntImm, Or, PrimExpr, is_int
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    PARALLEL,
    THREAD_BINDING,
    Allocate,
    AssertStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    is_nothing,
    nothing,
)
from whet.compiler.tir.visit.rewrite import changed, conjuncts, keep, nodes_of, variables


def simplify(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with simpler expressions and without statements that do nothing."""
    return func.with_body(_Statements(config)(func.body))


def simplify_loops(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The same for loops and conditions alone: stores are not looked into, which saves time."""
    return func.with_body(_Statements(config, stores=False)(func.body))


class _Transitive(Analyzer):
    """An analyzer that also adds two known conditions up."""

    def at_most_zero(self, a: Affine) -> bool:
        """True if the form is surely <= 0."""
        if super().at_most_zero(a):
            return True
        known = self.constraints
        for k, first in enumerate(known):
            for second in known[k:]:
                high = self.bounds(a - first - second)[1]
                if high is not None and high <= 0:
                    return True
        return False


class _Statements(Simplifier):
    def __init__(self, config: PassConfig, stores: bool = True) -> None:
        options = config["tir.Simplify"]
        super().__init__(
            _Transitive() if options["transitively_prove_inequalities"] else Analyzer()
        )
        self.stores = stores
        self.keep_trivial = config["tir.debug_keep_trivial_loop"]
        self.rules |= {
            For: self._for,
            IfThenElse: self._if,
            BufferStore: self._store if stores else keep,
            Allocate: self._allocate,
            LetStmt: self._let,
            AssertStmt: self._assert,
        }
        either = self._or
        if options["apply_constraints_to_boolean_branches"]:
            either = self.rules[Or] = self._or_knowing
        if options["convert_boolean_to_and_of_ors"]:
            self.rules[Or] = lambda n: _and_of_ors(either(n))

    def _or_knowing(self, n: Or) -> PrimExpr:
        a = self(n.a)
        with self.analyzer.assuming(negated(a)):
            b = self(n.b)
        return n if a is n.a and b is n.b else ops.logical_or(a, b)

    def _let(self, n: LetStmt) -> Stmt:
        value = self(n.value)
        if isinstance(value, IntImm) and not dt.is_bool(value.dtype):
            self.analyzer.bind_loop(n.var, value, IntImm(value.dtype, 1))
        body = self(n.body)
        self.analyzer.ranges.pop(n.var, None)
        return changed(n, value=value, body=body)

    def _assert(self, n: AssertStmt) -> Stmt:
        condition = self(n.condition)
        with self.analyzer.assuming(condition):
            body = self(n.body)
        if isinstance(condition, IntImm) and condition.value:
            return body
        return changed(n, condition=condition, body=body, values=tuple(map(self, n.values)))

    def _for(self, n: For) -> Stmt:
        begin, extent = self(n.min), self(n.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return nothing()
        with self.analyzer.inside(n.var, begin, extent, steps=not isinstance(extent, IntImm)):
            body = self(n.body)
        if is_nothing(body):
            return nothing()
        if is_int(extent, 1) and self._dissolves(n):
            return body  # the analyzer has put the variable's one value everywhere
        shorter = self._guarded_steps(n, begin, extent, body)
        if shorter is not None:
            return shorter
        if _hoistable(n, body):
            assert isinstance(body, IfThenElse)
            return moved_out(replace(n, min=begin, extent=extent), body)
        if begin is n.min and extent is n.extent and body is n.body:
            return n
        return For(n.var, begin, extent, n.kind, body, n.annotations, n.thread)

    def _dissolves(self, n: For) -> bool:
        """True for a loop of one step that goes: one over GPU threads stands for a kernel."""
        on_gpu = n.kind == THREAD_BINDING and not n.thread.startswith(("vthread", "cthread"))
        return self.stores and not self.keep_trivial and not on_gpu

    def _guarded_steps(self, n: For, begin: PrimExpr, extent: PrimExpr, body: Stmt) -> Stmt | None:
        """The loop without the steps that its guard skips, when that is a number of steps."""
        if not (isinstance(body, IfThenElse) and body.likely and body.else_case is None):
            return None
        if not (isinstance(begin, IntImm) and isinstance(extent, IntImm)):
            return None
        tests = conjuncts(body.condition)[0]
        d = self.analyzer.inequality(tests)
        if d is None or not isinstance(tests, (LT, LE)):
            return None
        coef = d.coefficient(n.var)
        if len(d.terms) != 1 or coef < 1:
            return None
        steps = -d.const // coef + 1 - begin.value  # coef * var + const <= 0
        if steps >= extent.value:
            return None
        return self(changed(n, min=begin, extent=IntImm(extent.dtype, steps), body=body))

    def _if(self, n: IfThenElse) -> Stmt:
        condition = self(n.condition)
        if isinstance(condition, IntImm):
            if condition.value:
                return self(n.then_case)
            return nothing() if n.else_case is None else self(n.else_case)
        with self.analyzer.assuming(condition):
            then = self(n.then_case)
        other = None
        if n.else_case is not None:
            with self.analyzer.assuming(negated(condition)):
                other = self(n.else_case)
        if other is not None and is_nothing(other):
            other = None
        if is_nothing(then) and other is None:
            return nothing()
        return changed(n, condition=condition, then_case=then, else_case=other)

    def _store(self, n: BufferStore) -> Stmt:
        self._within_value = True
        value = self(n.value)
        self._within_value = False
        indices = tuple(self(i) for i in n.indices)
        mask = None if n.mask is None else self(n.mask)
        out = changed(n, value=value, indices=indices, mask=mask)
        if isinstance(out.mask, IntImm):
            return replace(out, mask=None) if out.mask.value else nothing()
        return out

    def _allocate(self, n: Allocate) -> Stmt:
        body = self(n.body)
        return body if is_nothing(body) else changed(n, body=body)


def _hoistable(loop: For, body: Stmt) -> bool:
    """True for a loop that is one guard's body at each step alike: the guard goes around it.

    A guard with an else branch takes the loop's head along twice, which costs next to nothing.
    """
    if not isinstance(body, IfThenElse) or not body.likely:
        return False
    if loop.kind == THREAD_BINDING or (body.else_case is not None and loop.kind == PARALLEL):
        return False
    reads = nodes_of(body.condition, BufferLoad)
    return not reads and loop.var not in variables(body.condition)


def _and_of_ors(n: PrimExpr) -> PrimExpr:
    """``(a and b) or c`` as ``(a or c) and (b or c)``."""
    if not isinstance(n, Or):
        return n
    for this, other in ((n.a, n.b), (n.b, n.a)):
        if isinstance(this, And):
            return ops.logical_and(
                _and_of_ors(ops.logical_or(this.a, other)),
                _and_of_ors(ops.logical_or(this.b, other)),
            )
    return n
