"""Affine forms of expressions, simplified with what is known of their variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import gcd
from typing import Any

from whet.compiler.arith.affine import Affine, Terms, add_terms, matched
from whet.compiler.arith.keys import factors, key_order, structural_key
from whet.compiler.arith.knowledge import Knowledge
from whet.compiler.tir.expr import (
    INDEX_ARITHMETIC,
    Add,
    BinaryOp,
    Cast,
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
    Sub,
    Var,
)

#: sums of more steps than this are gathered part by part instead of term by term
_MANY = 2000
#: atoms that others of their kind may stand in
NESTED = frozenset((FloorDiv, FloorMod, Min, Max))


class Forms:
    """Turns integer expressions into affine forms.

    Args:
        known: facts about variables.
        bound: the least (sign -1) or the greatest (1) value of a form, None where there is none.
        at_most_zero: True for a form that is surely <= 0.
    """

    def __init__(
        self,
        known: Knowledge,
        bound: Callable[[Affine, int], int | None],
        at_most_zero: Callable[[Affine], bool],
    ) -> None:
        self.known = known
        self.bound = bound
        self.at_most_zero = at_most_zero
        self._rules: dict[type, Callable[[Any], Affine]] = {
            Var: self._var,
            SizeVar: self._var,
            IntImm: lambda n: Affine({}, n.value),
            Add: self._sum,
            Sub: self._sum,
            Mul: self._mul,
            FloorDiv: self._floordiv,
            FloorMod: self._floormod,
            Min: self._minmax,
            Max: self._minmax,
            Cast: self._cast,
            Div: partial(_truncdiv, self),
            Mod: partial(_truncmod, self),
        }

    def affine(self, n: PrimExpr) -> Affine:
        """The affine form of an integer expression, simplified with what is known."""
        rule = self._rules.get(type(n))
        if rule is None:
            return Affine.atom(structural_key(n), n)
        if type(n) not in NESTED:
            return rule(n)
        if self.known.query is not None:
            return self.known.query.form(n, rule)
        if _is_simple(n.a):  # type: ignore[attr-defined]
            return rule(n)
        return self.known.ask(self.affine, n)

    def _var(self, n: Var) -> Affine:
        known = self.known.fixed.get(n)
        return Affine({n: (n, 1)}, 0) if known is None else known

    def _sum(self, n: PrimExpr) -> Affine:
        """The form of a sum, however nested, gathered in one go."""
        terms: Terms = {}
        const = 0
        waiting = [(n, 1)]
        steps = 0
        fixed = self.known.fixed
        while waiting:
            x, scale = waiting.pop()
            steps += 1
            if steps > _MANY:  # parts that occur over and over: each of them once
                return self._shared_sum(n)
            kind = type(x)
            if kind is Add:
                waiting += ((x.b, scale), (x.a, scale))  # type: ignore[attr-defined]
            elif kind is Sub:
                waiting += ((x.b, -scale), (x.a, scale))  # type: ignore[attr-defined]
            elif kind is IntImm:
                const += scale * x.value  # type: ignore[attr-defined]
            elif kind is Mul and type(x.b) is IntImm:  # type: ignore[attr-defined]
                waiting.append((x.a, scale * x.b.value))  # type: ignore[attr-defined]
            elif (kind is Var or kind is SizeVar) and x not in fixed:
                if x in terms:
                    scale += terms[x][1]
                if scale:
                    terms[x] = (x, scale)
                else:
                    terms.pop(x, None)
            else:
                form = self.affine(x)
                const += scale * form.const
                add_terms(terms, form.terms, scale)
        return Affine(terms, const)

    def _shared_sum(self, n: PrimExpr) -> Affine:
        """The form of a sum that uses its parts more often than they are written."""
        known: dict[int, Affine] = {}
        stack = [n]
        while stack:
            x = stack[-1]
            kind = type(x)
            if kind not in (Add, Sub):
                known[id(x)] = self.affine(x)
            elif id(x.a) in known and id(x.b) in known:  # type: ignore[attr-defined]
                a, b = known[id(x.a)], known[id(x.b)]  # type: ignore[attr-defined]
                known[id(x)] = a.plus(b, 1 if kind is Add else -1)
            else:
                waiting = (x.a, x.b)  # type: ignore[attr-defined]
                stack += [y for y in waiting if id(y) not in known]
                continue
            stack.pop()
        return known[id(n)]

    def _cast(self, n: Cast) -> Affine:
        """A widened index is the index: neither wraps."""
        if n.dtype == "int64" and n.value.dtype == "int32" and _is_index(n.value):
            return self.affine(n.value)
        return Affine.atom(structural_key(n), n)

    def _mul(self, n: Mul) -> Affine:
        a, b = self.affine(n.a), self.affine(n.b)
        if b.is_const:
            return a.scaled(b.const)
        if a.is_const:
            return b.scaled(a.const)
        # distribute, so that products of sums cancel: the atoms are products of atoms
        out = Affine({}, a.const * b.const) + Affine(b.terms, 0).scaled(a.const)
        out = out + Affine(a.terms, 0).scaled(b.const)
        for ka, (x, cx) in a.terms.items():
            for kb, (y, cy) in b.terms.items():
                both = sorted((*factors(ka), *factors(kb)), key=key_order)
                key = ("*", *both)
                out = out + Affine({key: (Mul(*matched(x, y)), cx * cy)}, 0)
        return out

    def _divide(self, a: Affine, c: int) -> tuple[Affine, Affine]:
        """``(q, r)`` with ``a == c * q + r`` and as much as possible in ``q``."""
        q, r = {}, {}
        for k, (atom, coef) in a.terms.items():
            if coef % c == 0:
                q[k] = (atom, coef // c)
            else:
                r[k] = (atom, coef)
        return Affine(q, a.const // c), Affine(r, a.const % c)

    def _floordiv(self, n: FloorDiv) -> Affine:
        a, b = self.affine(n.a), self.affine(n.b)
        if b.is_const and b.const > 0:
            return self.floordiv(a, b.const, n.dtype)
        if a.key == b.key and self.at_most_zero(b.scaled(-1).shifted(1)):
            return Affine({}, 1)
        if self._is_rest(a, b):
            return Affine({}, 0)
        x, y = a.to_expr(n.dtype), b.to_expr(n.dtype)
        return Affine.atom(("//", a.key, b.key), FloorDiv(*matched(x, y)))

    def floordiv(self, a: Affine, c: int, dtype: str = "int32") -> Affine:
        """``a // c`` for a positive number ``c``."""
        if c == 1:
            return a
        q, r = self._divide(a, c)
        quotient = self._quotient(r, c)
        if quotient is not None:
            return q.shifted(quotient)
        inner = self._divided_before(r)
        if inner is not None:  # (x // b) // c
            return q + self.floordiv(inner[0], inner[1] * c, dtype)
        # (g*x + y) // (g*c) == x // c for 0 <= y < g
        g = c
        for coef in sorted({abs(w) for _, w in r.terms.values()}, reverse=True):
            g = gcd(g, coef)
            x = {k: t for k, t in r.terms.items() if t[1] % g == 0}
            y = Affine({k: t for k, t in r.terms.items() if k not in x}, r.const)
            quotient = self._quotient(y, g) if g > 1 else None
            if quotient is not None:
                r = Affine({k: (v, w // g) for k, (v, w) in x.items()}, quotient)
                return q + (self.floordiv(r, c // g, dtype) if c > g else r)
        key = ("//", r.key, c)
        rest = r.to_expr(dtype)
        return q + Affine.atom(key, FloorDiv(rest, IntImm(rest.dtype, c), rest.dtype))

    def _divided_before(self, a: Affine) -> tuple[Affine, int] | None:
        """The dividend and the divisor of a form that is one quotient by a number."""
        if len(a.terms) != 1 or a.const:
            return None
        ((atom, coef),) = a.terms.values()
        if coef != 1 or not isinstance(atom, FloorDiv) or not isinstance(atom.b, IntImm):
            return None
        return (self.affine(atom.a), atom.b.value) if atom.b.value > 0 else None

    def _quotient(self, a: Affine, c: int) -> int | None:
        """``a // c`` where it is the same number for all values of a form."""
        low, high = self.bound(a, -1), self.bound(a, 1)
        same = low is not None and high is not None and low // c == high // c
        return low // c if same else None  # type: ignore[operator]

    def _is_rest(self, a: Affine, b: Affine) -> bool:
        """True where 0 <= a < b, as of a step of an axis of open extent."""
        low = self.bound(a, -1)
        return low is not None and low >= 0 and self.at_most_zero((a - b).shifted(1))

    def _floormod(self, n: FloorMod) -> Affine:
        a, b = self.affine(n.a), self.affine(n.b)
        if b.is_const and b.const > 0:
            c = b.const
            # a % c == a - c * (a // c), which cancels with the other half of a fused index
            _, r = self._divide(a, c)
            quotient = self._quotient(r, c)
            if quotient is not None:
                return r.shifted(-c * quotient)
            return r - self.floordiv(r, c, n.dtype).scaled(c)
        if self._is_rest(a, b):
            return a
        x, y = a.to_expr(n.dtype), b.to_expr(n.dtype)
        return Affine.atom(("%", a.key, b.key), FloorMod(*matched(x, y)))

    def _minmax(self, n: BinaryOp) -> Affine:
        """The least or greatest of all operands of a nest of them, the dominated ones left out."""
        kind = type(n)
        sign = 1 if kind is Min else -1
        operands = [f for x in (n.a, n.b) for f in self._operands(self.affine(x), kind)]
        kept = undominated(operands, sign, self._never_above)
        out, expression = kept[0], kept[0].to_expr(n.dtype)
        for f in kept[1:]:
            expression = kind(*matched(expression, f.to_expr(n.dtype)))
            out = Affine.atom((kind.symbol, frozenset((out.key, f.key))), expression)
        return out

    def _operands(self, a: Affine, kind: type[BinaryOp]) -> list[Affine]:
        """The operands of a form that is one min (or max); else the form itself."""
        if len(a.terms) == 1 and a.const == 0:
            ((atom, coef),) = a.terms.values()
            if coef == 1 and type(atom) is kind:
                return [f for x in (atom.a, atom.b) for f in self._operands(self.affine(x), kind)]
        return [a]

    def _never_above(self, a: Affine) -> bool:
        high = self.bound(a, 1)
        return high is not None and high <= 0


def undominated(
    forms: Iterable[Affine], sign: int, at_most_zero: Callable[[Affine], bool]
) -> list[Affine]:
    """The forms that may be the least (``sign`` 1) or the greatest (-1) of them."""
    kept: list[Affine] = []
    for f in forms:
        if any(at_most_zero((k - f).scaled(sign)) for k in kept):
            continue
        kept = [k for k in kept if not at_most_zero((f - k).scaled(sign))]
        kept.append(f)
    return kept


def _is_simple(n: PrimExpr) -> bool:
    """True for a sum of two leaves at most, in which nothing is nested."""
    return isinstance(n, (Var, IntImm)) or (
        type(n) in (Add, Sub)
        and isinstance(n.a, (Var, IntImm))  # type: ignore[attr-defined]
        and isinstance(n.b, (Var, IntImm))  # type: ignore[attr-defined]
    )


def _is_index(n: PrimExpr) -> bool:
    """True for an expression of variables and numbers alone."""
    if isinstance(n, Var) or type(n) is IntImm:
        return True
    return type(n) in INDEX_ARITHMETIC and _is_index(n.a) and _is_index(n.b)  # type: ignore[attr-defined]


# Divisions that round towards zero, as C's: those that round down where the dividend's sign is
# known; where it is not, what divides evenly leaves the quotient, and the rest is an atom.


def _truncdiv(forms: Forms, n: Div) -> Affine:
    """The form of ``n.a / n.b``, of integers."""
    a, b = forms.affine(n.a), forms.affine(n.b)
    if b.is_const and b.const:
        return _truncated(forms, a, b.const, n.dtype)
    if a.key == b.key and forms.at_most_zero(b.scaled(-1).shifted(1)):
        return Affine({}, 1)
    x, y = a.to_expr(n.dtype), b.to_expr(n.dtype)
    return Affine.atom(("/", a.key, b.key), Div(*matched(x, y)))


def _truncmod(forms: Forms, n: Mod) -> Affine:
    """The form of the remainder, which has the sign of ``n.a``."""
    a, b = forms.affine(n.a), forms.affine(n.b)
    if b.is_const and b.const:
        # a - c * (a / c), which cancels with the quotient; the divisor's sign does not matter
        c = abs(b.const)
        return a - _truncated(forms, a, c, n.dtype).scaled(c)
    x, y = a.to_expr(n.dtype), b.to_expr(n.dtype)
    return Affine.atom(("truncmod", a.key, b.key), Mod(*matched(x, y)))


def _truncated(forms: Forms, a: Affine, c: int, dtype: str) -> Affine:
    """``a / c`` for a number that is not 0."""
    if c < 0:
        return _truncated(forms, a, -c, dtype).scaled(-1)
    if c == 1:
        return a
    low, high = forms.bound(a, -1), forms.bound(a, 1)
    if low is not None and low >= 0:
        return forms.floordiv(a, c, dtype)
    if high is not None and high <= 0:
        return forms.floordiv(a.scaled(-1), c, dtype).scaled(-1)
    if low is not None and high is not None and -c < low and high < c:
        return Affine({}, 0)
    common = gcd(c, a.const, *(w for _, w in a.terms.values()))
    if common > 1:  # (g * x) / (g * c) == x / c
        terms = {k: (atom, w // common) for k, (atom, w) in a.terms.items()}
        return _truncated(forms, Affine(terms, a.const // common), c // common, dtype)
    inner = _truncated_before(forms, a)
    if inner is not None:  # (x / b) / c
        return _truncated(forms, inner[0], inner[1] * c, dtype)
    rest = a.to_expr(dtype)
    return Affine.atom(("/", a.key, c), Div(rest, IntImm(rest.dtype, c), rest.dtype))


def _truncated_before(forms: Forms, a: Affine) -> tuple[Affine, int] | None:
    """The dividend and the divisor of a form that is one such quotient by a number."""
    if len(a.terms) != 1 or a.const:
        return None
    ((atom, coef),) = a.terms.values()
    if coef != 1 or type(atom) is not Div or not isinstance(atom.b, IntImm):
        return None
    return (forms.affine(atom.a), atom.b.value) if atom.b.value > 0 else None
