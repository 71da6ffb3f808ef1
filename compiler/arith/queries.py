"""What people ask an analyzer, with the names of TVM's ``arith.Analyzer``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from whet.compiler.arith.affine import Affine
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops


@dataclass(frozen=True, slots=True)
class ConstIntBound:
    """The least and the greatest value of an expression; None where there is no bound."""

    min_value: int | None
    max_value: int | None


class Queries:
    """Simplifying and proving; the analyzer inherits it."""

    def simplify(self, expr: Any, steps: int = 2) -> e.PrimExpr:
        """An equal expression in canonical form.

        Args:
            expr: the expression.
            steps: how often to go over it, at most.
        """
        from whet.compiler.arith.simplify import Simplifier

        n = ops.convert(expr)
        for _ in range(max(steps, 1)):
            new = Simplifier(self)(n)  # type: ignore[arg-type]
            if new is n:
                break
            n = new
        return n

    def can_prove(self, condition: Any, strength: int = 0) -> bool:
        """Whether a condition surely holds, by what is known."""
        n = self.simplify(condition)
        return isinstance(n, e.IntImm) and n.value != 0

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two integers are surely equal."""
        return self.equal(ops.convert(lhs), ops.convert(rhs))  # type: ignore[attr-defined]

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """The least and the greatest value of an integer expression."""
        form = self.affine(ops.convert(expr))  # type: ignore[attr-defined]
        return ConstIntBound(*self.bounds(form))  # type: ignore[attr-defined]

    def constraint_scope(self, constraint: Any) -> AbstractContextManager[None]:
        """Within the block, ``constraint`` holds."""
        return self.assuming(ops.convert(constraint))  # type: ignore[attr-defined]

    def bind_value(self, var: e.Var, value: Any) -> None:
        """Learn that a variable is in a :class:`tir.Range`, or equal to an expression."""
        if isinstance(value, e.Range):
            self.bind_loop(var, value.min, value.extent)  # type: ignore[attr-defined]
            return
        form: Affine = self.affine(ops.convert(value))  # type: ignore[attr-defined]
        self.bind(var, form, form)  # type: ignore[attr-defined]
