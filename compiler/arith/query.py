"""What questions to the analyzer have found so far, and how much one may still look into.

The bounds of nested splits of unknown sizes ask for the same parts over and over, and each minimum
in them has two ends to try: without a memory and a limit the work doubles with every split.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from whet.compiler.arith.affine import Affine
from whet.compiler.tir import expr as e

#: bounds that one question may work out; beyond, a bound is unknown, and a guard stays
STEPS = 400


class Query:
    """What has been found, for as long as what is known of variables and conditions stays as it is.

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
        self._forms: dict[int, tuple[e.PrimExpr, Affine]] = {}

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
        found = self._bounds[key] = work_out(a, sign)
        return found

    def form(self, n: e.PrimExpr, work_out: Callable[[e.PrimExpr], Affine]) -> Affine:
        """The form of an expression, worked out once."""
        found = self._forms.get(id(n))
        if found is None:
            found = self._forms[id(n)] = n, work_out(n)
        return found[1]
