"""The least and the greatest values of affine forms.

Everything here is about integers without overflow, as indices are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from whet.compiler.arith.affine import Affine
from whet.compiler.arith.forms import NESTED, Forms
from whet.compiler.arith.knowledge import Knowledge
from whet.compiler.tir.expr import (
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    SizeVar,
    Var,
)
from whet.compiler.tir.visit.rewrite import variables

Interval = tuple[int | None, int | None]
"""The least and the greatest value; None where there is no bound."""


class Bounds:
    """Bounds of forms by what is known of their variables.

    Attributes:
        known: facts about variables.
        forms: turns the operands of atoms into forms.
    """

    def __init__(self, known: Knowledge, at_most_zero: Callable[[Affine], bool]) -> None:
        self.known = known
        self.forms = Forms(known, self.bound, at_most_zero)
        self._rules: dict[type, Callable[[Affine, Affine], Interval]] = {
            FloorDiv: self._of_quotient,
            FloorMod: self._of_remainder,
            Min: partial(self._of_extreme, min),
            Max: partial(self._of_extreme, max),
            Mul: self._of_product,
            Div: self._of_truncated,
            Mod: self._of_rest,
        }

    def bound(self, a: Affine, sign: int) -> int | None:
        """The greatest (``sign`` 1) or least (-1) value of a form; None where there is no bound."""
        query = self.known.query
        if query is not None:
            return query.bound(a, sign, self._bound_anew)
        for atom, _ in a.terms.values():
            if type(atom) in NESTED:
                return self.known.ask(self.bound, a, sign)
        return self._bound_by_ranges(a, sign)

    def _bound_anew(self, a: Affine, sign: int) -> int | None:
        far = self._bound_by_ranges(a, sign)
        for atom, _ in a.terms.values():
            if type(atom) is FloorDiv:  # x - 8 * (x // 8) is below 8, however far x may go
                near = self._bound_by_mod(a, sign)
                if near is None or far is None:
                    return far if near is None else near
                return min(near, far) if sign > 0 else max(near, far)
        return far

    def _bound_by_ranges(self, a: Affine, sign: int) -> int | None:
        # Bounds of inner variables mention outer ones: replace the variable bound last first, so
        # that what the two have in common cancels.
        order, ranges, affine = self.known.order, self.known.ranges, self.forms.affine
        while a.terms:
            latest, last, up = -1, None, True
            for key, (atom, coef) in a.terms.items():
                # min(x, y) is at most either: whichever of them cancels better with the rest
                if type(atom) is (Min if coef * sign > 0 else Max):
                    if self.known.query is None:
                        return self.known.ask(self._bound_by_ranges, a, sign)
                    ends = [self.bound(a.replaced(key, affine(x)), sign) for x in (atom.a, atom.b)]
                    known = [x for x in ends if x is not None]
                    if not known:
                        return None
                    return min(known) if sign > 0 else max(known)
                place = order.get(key, -1)
                if place > latest and atom in ranges:
                    latest, last, up = place, atom, coef * sign > 0
            if last is None:
                break
            a = a.replaced(last, ranges[last][1 if up else 0])
        total = a.const
        for key, (atom, coef) in a.terms.items():
            low_high = self.atom_bounds(atom, key)
            end_value = low_high[1] if coef * sign > 0 else low_high[0]
            if end_value is None:
                return self._bound_by_mod(a, sign)
            total += coef * end_value
        return total

    def eliminate(self, a: Affine, inner: set[Var], sign: int) -> Affine | None:
        """The greatest (``sign`` 1) or least (-1) value of a form over the variables ``inner``.

        The result mentions none of them; it is a bound, exact unless they occur in several atoms.
        """
        rest = _without_remainders(a, inner, sign)
        for var in reversed(self.known.ranges):
            term = rest.terms.get(var)
            if term is not None and var in inner:
                low, high = self.known.ranges[var]
                end = high if term[1] * sign > 0 else low
                rest = rest.without(var).plus(end, term[1])
        out = Affine({}, rest.const)
        for key, (atom, coef) in rest.terms.items():
            if not (variables(atom) & inner):
                out = out + Affine({key: (atom, coef)}, 0)
                continue
            side = sign if coef > 0 else -sign
            if isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm) and atom.b.value > 0:
                part = self.eliminate(self.forms.affine(atom.a), inner, side)
                if part is not None:
                    out = out + self.forms.floordiv(part, atom.b.value, atom.dtype).scaled(coef)
                    continue
            low_high = self.atom_bounds(atom, key)
            value = low_high[1] if side > 0 else low_high[0]
            if value is None:
                return None
            out = out.shifted(coef * value)
        return out

    def _bound_by_mod(self, a: Affine, sign: int) -> int | None:
        """Bounds of ``x - c * (x // c)`` and ``x // c - y // c``, whose parts alone have none."""
        near = self._bound_of_quotients(a, sign)
        if near is not None:
            return near
        for key, (atom, coef) in a.terms.items():
            if isinstance(atom, FloorDiv) and isinstance(key, tuple) and len(key) == 3:
                inner, c = self.forms.affine(atom.a), key[2]
                if not isinstance(c, int) or coef % c:
                    continue
                # coef * (x // c) == (coef / c) * (x - x % c)
                rest = a.without(key).plus(inner, coef // c)
                if len(rest.terms) >= len(a.terms):
                    continue
                bound = self.bound(rest, sign)
                if bound is not None:
                    slack = -(coef // c) * (c - 1)
                    return bound + (max(slack, 0) if sign > 0 else min(slack, 0))
        return None

    def _bound_of_quotients(self, a: Affine, sign: int) -> int | None:
        """Bounds of ``x // c - y // c`` where ``x - y`` is a number."""
        if len(a.terms) != 2:
            return None
        (kx, (x, one)), (ky, (y, other)) = a.terms.items()
        if one + other or not (isinstance(x, FloorDiv) and isinstance(y, FloorDiv)):
            return None
        c = kx[2] if isinstance(kx, tuple) else None
        if not isinstance(c, int) or c <= 0 or not isinstance(ky, tuple) or ky[2] != c:
            return None
        d = self.forms.affine(x.a) - self.forms.affine(y.a)
        if not d.is_const:
            return None
        # floor(d / c) <= x // c - y // c <= ceil(d / c)
        up = one * sign > 0
        return a.const + one * (-(-d.const // c) if up else d.const // c)

    def bounds(self, a: Affine) -> Interval:
        """The least and the greatest value of a form; None where there is no bound."""
        return self.bound(a, -1), self.bound(a, 1)

    def atom_bounds(self, atom: PrimExpr, key: Hashable) -> Interval:
        """Bounds of one atom."""
        if type(atom) is SizeVar:
            return 0, None
        rule = self._rules.get(type(atom))
        if rule is None:
            return None, None
        a, b = self.forms.affine(atom.a), self.forms.affine(atom.b)  # type: ignore[attr-defined]
        return rule(a, b)

    def _of_quotient(self, a: Affine, divisor: Affine) -> Interval:
        low, high = self.bounds(a)
        if divisor.is_const and divisor.const > 0:
            c = divisor.const
            return None if low is None else low // c, None if high is None else high // c
        least = self.bounds(divisor)[0]
        positive = low is not None and low >= 0 and least is not None and least >= 0
        return (0, high) if positive else (None, None)

    def _of_remainder(self, a: Affine, divisor: Affine) -> Interval:
        low, high = self.bounds(divisor)
        if low is None or low < 0:  # the remainder has the sign of the divisor
            return None, None
        return 0, None if high is None else high - 1

    def _of_truncated(self, a: Affine, divisor: Affine) -> Interval:
        """Bounds of a quotient rounded towards zero: it is nowhere farther from it than ``a``."""
        low, high = self.bounds(a)
        by = divisor.const if divisor.is_const and divisor.const > 0 else 1
        least, most = (
            None if x is None else (abs(x) // by) * (1 if x > 0 else -1) for x in (low, high)
        )
        if by == 1:  # a divisor of any size and sign
            far = None if least is None or most is None else max(abs(least), abs(most))
            return (None, None) if far is None else (-far, far)
        return least, most

    def _of_rest(self, a: Affine, divisor: Affine) -> Interval:
        """Bounds of a remainder with the sign of ``a``, by a divisor that is no number."""
        low, high = self.bounds(a)
        return (0 if low is not None and low >= 0 else low), (
            0 if high is not None and high <= 0 else high
        )

    def _of_extreme(self, pick: Callable[..., int], a: Affine, b: Affine) -> Interval:
        (la, ha), (lb, hb) = self.bounds(a), self.bounds(b)
        least = pick is min  # of a minimum one upper bound is enough, of a maximum one lower bound
        return _combine(pick, la, lb, not least), _combine(pick, ha, hb, least)

    def _of_product(self, a: Affine, b: Affine) -> Interval:
        (la, ha), (lb, hb) = self.bounds(a), self.bounds(b)
        if la is not None and ha is not None and lb is not None and hb is not None:
            corners = [x * y for x in (la, ha) for y in (lb, hb)]
            return min(corners), max(corners)
        if la is not None and lb is not None and la >= 0 and lb >= 0:
            return la * lb, None
        return None, None


def _without_remainders(a: Affine, inner: set[Var], sign: int) -> Affine:
    """A form whose parts ``k * (x - c * (x // c))``, of variables ``inner``, are at their ends."""
    for key, (atom, coef) in list(a.terms.items()):
        if not (isinstance(atom, FloorDiv) and atom.a in inner):
            continue
        c = atom.b.value if isinstance(atom.b, IntImm) else 0
        own = a.terms.get(atom.a)
        if c > 0 and own is not None and own[1] * c + coef == 0:
            most = own[1] * (c - 1) if own[1] * sign > 0 else 0
            a = a.without(key).without(atom.a).shifted(most)
    return a


def _combine(pick: Callable[..., int], a: int | None, b: int | None, one: bool) -> int | None:
    """min or max of two bounds, of which one may be missing (enough when ``one``)."""
    if a is None or b is None:
        return (b if a is None else a) if one else None
    return pick(a, b)
