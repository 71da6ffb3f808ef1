"""The facts that an analyzer has, and its memory of bounds and forms.

The bounds of nested splits of unknown sizes need the same parts over and over, and each minimum in
them has two ends to try: without a memory and a limit the work doubles with every split.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from whet.compiler.arith.affine import Affine
from whet.compiler.tir.expr import PrimExpr, Var

#: bounds that one question may work out; beyond, a bound is unknown, and a guard stays
STEPS = 400


class Query:
    """Answers for as long as what is known of variables and conditions stays as it is.

    Attributes:
        last: the last condition that is known, by which one sees whether they are still the same.
        left: bounds that the question at hand may still work out.
    """

    __slots__ = ("_bounds", "_forms", "last", "left")

    def __init__(self, last: Affine | None) -> None:
        self.last = last
        self.left = 0
        self._bounds: dict[Hashable, int | None] = {}
        # expression's id -> the expression, which keeps the id its own, and its form
        self._forms: dict[int, tuple[PrimExpr, Affine]] = {}

    def bound(
        self, a: Affine, sign: int, work_out: Callable[[Affine, int], int | None]
    ) -> int | None:
        """The bound of a form on one side, worked out once; None also where that is too much."""
        key = (a.key, sign)
        if key in self._bounds:
            return self._bounds[key]
        if self.left <= 0:
            return None
        self.left -= 1
        out = self._bounds[key] = work_out(a, sign)
        return out

    def form(self, n: PrimExpr, work_out: Callable[[PrimExpr], Affine]) -> Affine:
        """The form of an expression, worked out once."""
        known = self._forms.get(id(n))
        if known is None:
            known = self._forms[id(n)] = n, work_out(n)
        return known[1]


class Knowledge:
    """Facts about variables and conditions, and the memory of the question that goes by them.

    Attributes:
        ranges: variable -> (least, greatest) value as forms over variables bound before it.
        fixed: variable -> the one value that it can have.
        order: variable -> the greater, the later it was bound.
        constraints: forms known to be <= 0.
        query: the memory of the question that is being answered; None between questions.
    """

    def __init__(self) -> None:
        self.ranges: dict[Var, tuple[Affine, Affine]] = {}
        self.fixed: dict[Var, Affine] = {}
        self.order: dict[Hashable, int] = {}
        self.constraints: list[Affine] = []
        self.query: Query | None = None
        self._kept: Query | None = None  # the memory of the last question

    def bind(self, var: Var, low: Affine, high: Affine) -> None:
        """Learn that ``low <= var <= high``."""
        if var not in self.ranges:
            self.order[var] = len(self.order)
        self.ranges[var] = (low, high)
        self._kept = None
        if low.key == high.key:
            self.fixed[var] = low
        else:
            self.fixed.pop(var, None)

    def ask(self, answer: Callable[..., Any], *args: Any) -> Any:
        """The result of ``answer``, with one memory for all that it asks."""
        last = self.constraints[-1] if self.constraints else None
        query = self._kept
        if query is None or query.last is not last:
            query = self._kept = Query(last)
        query.left = STEPS
        self.query = query
        try:
            return answer(*args)
        finally:
            self.query = None
            if query.left <= 0:  # what was too much for this question is not for the next one
                self._kept = None
