"""The analyzer: what is known of variables, affine forms and bounds of expressions, proofs.

Everything here is about integers without overflow, as indices are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from whet.compiler.arith.affine import Affine
from whet.compiler.arith.forms import NESTED, Forms
from whet.compiler.arith.queries import Queries
from whet.compiler.tir import expr as e
from whet.compiler.tir.visit.rewrite import variables


class Analyzer(Forms, Queries):
    """Knows the ranges of loop variables and the conditions that hold around a place."""

    # what is known

    def bind(self, var: e.Var, low: Affine | Any, high: Affine | None = None) -> None:
        """Learn that ``low <= var <= high``; or, of a Range or an expression, that it is that."""
        if high is None:
            self.bind_value(var, low)
            return
        if var not in self.ranges:
            self._order[var] = len(self._order)
        self.ranges[var] = (low, high)
        self._kept = None
        if low.key == high.key:
            self.fixed[var] = low
        else:
            self.fixed.pop(var, None)

    def bind_loop(self, var: e.Var, begin: e.PrimExpr, extent: e.PrimExpr) -> None:
        """Learn that ``var`` runs over ``begin .. begin + extent - 1``."""
        low = self.affine(begin)
        self.bind(var, low, (low + self.affine(extent)).shifted(-1))

    @contextmanager
    def assuming(self, condition: e.PrimExpr) -> Iterator[None]:
        """Within the block, ``condition`` holds."""
        before = len(self.constraints)
        self._learn(condition)
        try:
            yield
        finally:
            del self.constraints[before:]

    def _learn(self, c: e.PrimExpr) -> None:
        kind = type(c)
        if kind is e.And:
            self._learn(c.a)  # type: ignore[attr-defined]
            self._learn(c.b)  # type: ignore[attr-defined]
        elif kind in (e.LT, e.LE, e.GT, e.GE, e.EQ) and c.a.dtype in ("int32", "int64"):  # type: ignore[attr-defined]
            d = self.affine(c.a) - self.affine(c.b)  # type: ignore[attr-defined]
            if kind in (e.LT, e.LE, e.EQ):
                self.constraints.append(d.shifted(1) if kind is e.LT else d)
            if kind in (e.GT, e.GE, e.EQ):
                self.constraints.append(d.scaled(-1).shifted(1 if kind is e.GT else 0))

    # bounds

    def _bound(self, a: Affine, sign: int) -> int | None:
        if self._query is not None:
            return self._query.bound(a, sign, self._bound_anew)
        for atom, _ in a.terms.values():
            if type(atom) in NESTED:
                return self._in_query(self._bound, a, sign)
        return self._bound_by_ranges(a, sign)

    def _bound_anew(self, a: Affine, sign: int) -> int | None:
        far = self._bound_by_ranges(a, sign)
        for atom, _ in a.terms.values():
            if type(atom) is e.FloorDiv:  # x - 8 * (x // 8) is below 8, however far x may go
                near = self._bound_by_mod(a, sign)
                if near is None or far is None:
                    return far if near is None else near
                return min(near, far) if sign > 0 else max(near, far)
        return far

    def _bound_by_ranges(self, a: Affine, sign: int) -> int | None:
        # Bounds of inner variables mention outer ones: replace the variable bound last first, so
        # that what the two have in common cancels.
        order, ranges = self._order, self.ranges
        while a.terms:
            latest, last, up = -1, None, True
            for key, (atom, coef) in a.terms.items():
                # min(x, y) is at most either: whichever of them cancels better with the rest
                if type(atom) is (e.Min if coef * sign > 0 else e.Max):
                    if self._query is None:
                        return self._in_query(self._bound_by_ranges, a, sign)
                    ends = [
                        self._bound(a.replaced(key, self.affine(x)), sign) for x in (atom.a, atom.b)
                    ]
                    known = [x for x in ends if x is not None]
                    if not known:
                        return None
                    return min(known) if sign > 0 else max(known)
                place = order.get(key, -1)
                if place > latest and atom in ranges:
                    latest, last, up = place, atom, coef * sign > 0
            if last is None:
                break
            a = a.replaced(last, ranges[last][1 if up else 0])  # type: ignore[index]
        total = a.const
        for key, (atom, coef) in a.terms.items():
            low_high = self.atom_bounds(atom, key)
            end_value = low_high[1] if coef * sign > 0 else low_high[0]
            if end_value is None:
                return self._bound_by_mod(a, sign)
            total += coef * end_value
        return total

    def eliminate(self, a: Affine, inner: set[e.Var], sign: int) -> Affine | None:
        """The greatest (``sign`` 1) or least (-1) value of a form over the variables ``inner``.

        The result mentions none of them; it is a bound, exact unless they occur in several atoms.
        """
        rest = _without_remainders(a, inner, sign)
        for var in reversed(self.ranges):
            term = rest.terms.get(var)
            if term is not None and var in inner:
                low, high = self.ranges[var]
                end = high if term[1] * sign > 0 else low
                rest = rest.without(var).plus(end, term[1])
        out = Affine({}, rest.const)
        for key, (atom, coef) in rest.terms.items():
            if not (variables(atom) & inner):
                out = out + Affine({key: (atom, coef)}, 0)
                continue
            side = sign if coef > 0 else -sign
            if isinstance(atom, e.FloorDiv) and isinstance(atom.b, e.IntImm) and atom.b.value > 0:
                part = self.eliminate(self.affine(atom.a), inner, side)
                if part is not None:
                    out = out + self.floordiv(part, atom.b.value, atom.dtype).scaled(coef)
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
            if isinstance(atom, e.FloorDiv) and isinstance(key, tuple) and len(key) == 3:
                inner, c = self.affine(atom.a), key[2]
                if not isinstance(c, int) or coef % c:
                    continue
                # coef * (x // c) == (coef / c) * (x - x % c)
                rest = a.without(key).plus(inner, coef // c)
                if len(rest.terms) >= len(a.terms):
                    continue
                bound = self._bound(rest, sign)
                if bound is not None:
                    slack = -(coef // c) * (c - 1)
                    return bound + (max(slack, 0) if sign > 0 else min(slack, 0))
        return None

    def _bound_of_quotients(self, a: Affine, sign: int) -> int | None:
        """Bounds of ``x // c - y // c`` where ``x - y`` is a number."""
        if len(a.terms) != 2:
            return None
        (kx, (x, one)), (ky, (y, other)) = a.terms.items()
        if one + other or not (isinstance(x, e.FloorDiv) and isinstance(y, e.FloorDiv)):
            return None
        c = kx[2] if isinstance(kx, tuple) else None
        if not isinstance(c, int) or c <= 0 or not isinstance(ky, tuple) or ky[2] != c:
            return None
        d = self.affine(x.a) - self.affine(y.a)
        if not d.is_const:
            return None
        # floor(d / c) <= x // c - y // c <= ceil(d / c)
        up = one * sign > 0
        return a.const + one * (-(-d.const // c) if up else d.const // c)

    def atom_bounds(self, atom: e.PrimExpr, key: Hashable) -> tuple[int | None, int | None]:
        """Bounds of one atom."""
        kind = type(atom)
        if kind is e.SizeVar:
            return 0, None
        if kind is e.FloorDiv:
            div = self.affine(atom.b)  # type: ignore[attr-defined]
            low, high = self.bounds(self.affine(atom.a))  # type: ignore[attr-defined]
            if div.is_const and div.const > 0:
                c = div.const
                return None if low is None else low // c, None if high is None else high // c
            least = self.bounds(div)[0]
            if low is not None and low >= 0 and least is not None and least >= 0:
                return 0, high
        elif kind is e.FloorMod:
            low, high = self.bounds(self.affine(atom.b))  # type: ignore[attr-defined]
            if low is not None and low >= 0:  # the remainder has the sign of the divisor
                return 0, None if high is None else high - 1
        elif kind in (e.Min, e.Max):
            (la, ha), (lb, hb) = (self.bounds(self.affine(x)) for x in (atom.a, atom.b))  # type: ignore[attr-defined]
            pick = min if kind is e.Min else max
            one_is_enough = kind is e.Min
            return _combine(pick, la, lb, not one_is_enough), _combine(pick, ha, hb, one_is_enough)
        elif kind is e.Mul:
            (la, ha), (lb, hb) = (self.bounds(self.affine(x)) for x in (atom.a, atom.b))  # type: ignore[attr-defined]
            if None not in (la, ha, lb, hb):
                corners = [x * y for x in (la, ha) for y in (lb, hb)]  # type: ignore[operator]
                return min(corners), max(corners)
            if la is not None and lb is not None and la >= 0 and lb >= 0:
                return la * lb, None
        return None, None

    # proofs

    def at_most_zero(self, a: Affine) -> bool:
        """Whether the form is surely <= 0."""
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
        """Whether the form is surely > 0."""
        return self.at_most_zero(a.scaled(-1).shifted(1))

    def less(self, a: e.PrimExpr, b: e.PrimExpr) -> bool:
        """Whether surely ``a < b``."""
        return self.at_most_zero((self.affine(a) - self.affine(b)).shifted(1))

    def at_most(self, a: e.PrimExpr, b: e.PrimExpr) -> bool:
        """Whether surely ``a <= b``."""
        return self.at_most_zero(self.affine(a) - self.affine(b))

    def equal(self, a: e.PrimExpr, b: e.PrimExpr) -> bool:
        """Whether surely ``a == b``."""
        d = self.affine(a) - self.affine(b)
        return d.is_const and d.const == 0

    def compare(self, n: e.CmpOp) -> bool | None:
        """The truth of an integer comparison, or None when it cannot be told."""
        d = self.affine(n.a) - self.affine(n.b)
        kind = type(n)
        if kind in (e.GT, e.GE):
            d, kind = d.scaled(-1), {e.GT: e.LT, e.GE: e.LE}[kind]
        if kind in (e.LT, e.LE):
            strict = 1 if kind is e.LT else 0
            if self.at_most_zero(d.shifted(strict)):
                return True
            return False if self.at_most_zero(d.scaled(-1).shifted(1 - strict)) else None
        low, high = self.bounds(d)
        if low == high == 0:
            return kind is e.EQ
        if (low is not None and low > 0) or (high is not None and high < 0):
            return kind is e.NE
        return None


def _without_remainders(a: Affine, inner: set[e.Var], sign: int) -> Affine:
    """A form whose parts ``k * (x - c * (x // c))``, of variables ``inner``, are at their ends."""
    for key, (atom, coef) in list(a.terms.items()):
        if not (isinstance(atom, e.FloorDiv) and atom.a in inner):
            continue
        c = atom.b.value if isinstance(atom.b, e.IntImm) else 0
        own = a.terms.get(atom.a)
        if c > 0 and own is not None and own[1] * c + coef == 0:
            most = own[1] * (c - 1) if own[1] * sign > 0 else 0
            a = a.without(key).without(atom.a).shifted(most)
    return a


def _combine(pick: type | object, a: int | None, b: int | None, one: bool) -> int | None:
    """min or max of two bounds, of which one may be missing (enough when ``one``)."""
    if a is None or b is None:
        return (b if a is None else a) if one else None
    return pick(a, b)  # type: ignore[operator]
