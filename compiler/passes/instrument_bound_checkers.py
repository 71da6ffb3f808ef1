"""InstrumentBoundCheckers: an access outside its buffer becomes an error that names it.

for i in range(n):              for i in range(n):
    C[i] = A[B[i]]       ->         assert 0 <= B[i] and B[i] < 8, "..." % (B[i], 8)
                                    C[i] = A[B[i]]

Only accesses that cannot be proved to be in range are checked; each under the conditions that guard
it, before the statement that it is in, and what an index reads before the index. A vectorised loop
with a check inside becomes a serial one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from whet.compiler.arith.keys import structural_key
from whet.compiler.passes.contract.facts import FactsRewriter
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.passes.contract.uses import is_address
from whet.compiler.target import Target
from whet.compiler.tir.analysis.conditions import negated
from whet.compiler.tir.expr import And, Broadcast, BufferLoad, Call, Let, Or, PrimExpr, Ramp, Select
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    AssertStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    is_nothing,
    nothing,
    seq,
)
from whet.compiler.tir.visit.rewrite import substitute


def instrument_bound_checkers(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function that checks its accesses."""
    return func.with_body(_Checker()(func.body))


class _Checker(FactsRewriter):
    def __init__(self) -> None:
        super().__init__(
            {
                BufferStore: lambda n: self._around(n, [n.value, *n.indices]),
                Evaluate: lambda n: self._around(n, [n.value]),
                LetStmt: lambda n: self._around(self.children(n), [n.value]),
                AssertStmt: lambda n: self._around(self.children(n), [n.condition, *n.values]),
                While: self._while,
            }
        )
        self.checks: list[tuple[PrimExpr, str, tuple[PrimExpr, ...]]] = []
        self.seen: set[Hashable] = set()

    def loop(self, n: For) -> Stmt:
        """A loop, its length checked before it."""
        return self._around(super().loop(n), [n.min, n.extent])

    def branch(self, n: IfThenElse) -> Stmt:
        """A branch, its condition checked before it."""
        return self._around(super().branch(n), [n.condition])

    def _while(self, n: While) -> Stmt:
        again = self._around(nothing(), [n.condition])
        body = self(n.body)
        checked = n if body is n.body else While(n.condition, body)
        if is_nothing(again):
            return checked
        return self._around(While(n.condition, seq(body, again)), [n.condition])

    def _around(self, n: Stmt, values: Sequence[PrimExpr]) -> Stmt:
        """A statement after the checks of what it evaluates itself."""
        self.checks, self.seen = [], set()
        for v in values:
            self._visit(v, [])
        if isinstance(n, BufferStore):
            self._access("write", n, [])
        for condition, message, values in reversed(self.checks):
            n = AssertStmt(condition, message, n, values)
        return n

    def _visit(self, n: PrimExpr, guards: list[PrimExpr]) -> None:
        """Collect the checks of an expression that is evaluated where all ``guards`` hold."""
        if isinstance(n, Select) or (isinstance(n, Call) and n.op == "if_then_else"):
            condition, yes, no = n.parts
            self._visit(condition, guards)
            if "x" in condition.dtype:
                return  # lanes have their masks
            for value, known in ((yes, condition), (no, negated(condition))):
                with self.analyzer.assuming(known):
                    self._visit(value, [*guards, known])
            return
        if isinstance(n, (And, Or)) and n.dtype == "bool":
            # the left side guards what the right one reads
            known = n.a if isinstance(n, And) else negated(n.a)
            self._visit(n.a, guards)
            with self.analyzer.assuming(known):
                self._visit(n.b, [*guards, known])
            return
        if isinstance(n, Let):
            self._visit(n.value, guards)
            self._visit(substitute(n.body, {n.var: n.value}), guards)
            return
        if is_address(n):
            for load in n.args:  # an address is taken, nothing is read
                for p in load.parts:
                    self._visit(p, guards)
            return
        for p in n.parts:
            self._visit(p, guards)
        if isinstance(n, BufferLoad):
            self._access("read", n, guards)

    def _access(self, how: str, n: BufferLoad | BufferStore, guards: list[PrimExpr]) -> None:
        if n.mask is not None:
            return
        name = n.buffer.name.replace("{", "{{").replace("}", "}}")
        for d, (lanes, extent) in enumerate(zip(map(_lanes, n.indices), n.buffer.shape)):
            for index in lanes:
                tests = []
                if not self.not_below(index):
                    tests.append(index >= ops.const(0, index.dtype))
                if not self.analyzer.less(index, extent):
                    tests.append(index < extent)
                key = (how, n.buffer, d, *map(structural_key, (index, *guards)))
                if not tests or key in self.seen:
                    continue
                self.seen.add(key)
                condition = ops.all_of(*tests)
                if guards:  # a branch: what the index reads may be read only under them
                    condition = ops.if_then_else(ops.all_of(*guards), condition, ops.const(True))
                message = f"{how} of {name}: index {{0}} of dimension {d} is out of range, "
                values = (index, extent)
                self.checks.append((condition, message + "the extent is {1}", values))


def _lanes(index: PrimExpr) -> list[PrimExpr]:
    """The indices to check: the first and the last lane of a vector; none for a table of lanes."""
    if isinstance(index, Ramp):
        return [index.base, index.base + (index.lanes - 1) * index.stride]
    if isinstance(index, Broadcast):
        return [index.value]
    return [] if "x" in index.dtype else [index]
