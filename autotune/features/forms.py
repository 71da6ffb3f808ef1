"""Indices as linear forms over loops, with sizes that may be traced: how far each loop moves them.

The compiler's own analyzer proves more and asks the size of every number for it. Here sizes stay
symbolic wherever they can, so that one look at a schedule holds for many tile sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whet.compiler.tir import expr as e
from whet.compiler.tir.tracing.traced import TracedInt, least, most
from whet.compiler.tir.visit.rewrite import TABLE

Size = Any
"""An int, perhaps a traced one."""


class Loop:
    """A loop: its number of steps and how they are run; a GPU's threads by their tag."""

    __slots__ = ("extent", "kind", "reduces", "tag", "unroll")

    def __init__(
        self, extent: Size, kind: int, reduces: bool, unroll: Size = 0, tag: str = ""
    ) -> None:
        self.extent = extent
        self.tag = tag
        self.kind = kind
        self.reduces = reduces
        self.unroll = unroll


class Division:
    """``rest`` divided by ``by``, which does not go out evenly; :data:`Quotient` is its result."""

    __slots__ = ("by", "quotient", "remainder", "rest")

    def __init__(self, rest: Form, by: Size) -> None:
        self.rest = rest
        self.by = by
        self.quotient = Quotient(self)
        self.remainder = Remainder(self)


class Quotient:
    """The quotient of a division, rounded down."""

    __slots__ = ("of",)

    def __init__(self, of: Division) -> None:
        self.of = of


class Remainder:
    """The remainder of a division."""

    __slots__ = ("of",)

    def __init__(self, of: Division) -> None:
        self.of = of


class Clamped:
    """A form kept inside limits: it moves like the form, or less."""

    __slots__ = ("form",)

    def __init__(self, form: Form) -> None:
        self.form = form


class Unknown:
    """An index that depends on data, or on loops in no linear way."""

    __slots__ = ("loops",)

    def __init__(self, loops: set[Loop]) -> None:
        self.loops = loops


class Form:
    """``sum of coefficient * atom + const``; never changed after it is made."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Any, Size], const: Size = 0) -> None:
        self.terms = terms
        self.const = const

    def plus(self, other: Form, scale: Size = 1) -> Form:
        """``self + scale * other``."""
        const = _sum(self.const, other.const, scale)
        if not other.terms:
            return Form(self.terms, const)
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            total = _sum(terms.get(atom, 0), c, scale)
            if type(total) is int and total == 0:
                terms.pop(atom, None)
            else:
                terms[atom] = total
        for atom in list(terms):
            if type(atom) is Remainder:
                _rejoin(terms, atom)
        return Form(terms, const)

    def scaled(self, by: Size) -> Form:
        """``by * self``."""
        if type(by) is int and by == 1:
            return self
        if type(by) is int and by == 0:
            return Form({})
        return Form({a: c * by for a, c in self.terms.items()}, self.const * by)

    def loops(self) -> set[Loop]:
        """All loops that it depends on."""
        return set().union(*(loops_of(atom) for atom in self.terms))


def _sum(a: Size, b: Size, scale: Size) -> Size:
    """``a + scale * b``; a difference of equal sizes is 0 although they are traced."""
    if type(b) is int and b == 0:
        return a
    if type(scale) is int:
        if scale == 1:
            return b if type(a) is int and a == 0 else a + b
        if scale == -1:
            return a - b
    return a + scale * b


def _rejoin(terms: dict[Any, Size], remainder: Remainder) -> None:
    """``c * (x // c) + x % c`` is ``x``."""
    division = remainder.of
    scale, other = terms[remainder], terms.get(division.quotient)
    if other is None or division.rest.const != 0 or not agree(other, scale * division.by):
        return
    del terms[remainder], terms[division.quotient]
    for atom, c in division.rest.terms.items():
        terms[atom] = terms.get(atom, 0) + scale * c
    for atom in division.rest.terms:
        if type(atom) is Remainder and atom in terms:  # of a division within the other
            _rejoin(terms, atom)


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are surely equal; nothing is asked of traced ones."""
    if type(a) is TracedInt or type(b) is TracedInt:
        return type(a) is type(b) and a.node == b.node
    return bool(a == b)


def agree(a: Size, b: Size) -> bool:
    """Whether two sizes are equal; of traced ones that is asked where they are in this run.

    A tile that divides an image is found whole; the others are no reason for structures.
    """
    return same(a, b) or (_now(a) == _now(b) and bool(a == b))


def _now(a: Size) -> int:
    """A size in this run; nothing is asked of it."""
    return a.tape.values[a.node] if type(a) is TracedInt else a


def loops_of(atom: Any) -> set[Loop]:
    """The loops that an atom depends on."""
    if type(atom) is Loop:
        return {atom}
    if type(atom) is Unknown:
        return atom.loops
    return (atom.form if type(atom) is Clamped else atom.of.rest).loops()


class Forms:
    """Makes forms of index expressions; a division that occurs twice is one atom."""

    def __init__(self) -> None:
        self._divisions: list[Division] = []

    def of(self, n: e.PrimExpr, env: dict[e.Var, Form]) -> Form:
        """The form of an expression over variables whose forms are known."""
        kind = type(n)
        if kind is e.IntImm:
            return Form({}, n.value)  # type: ignore[attr-defined]
        if isinstance(n, e.Var):
            return env.get(n, _ZERO)
        if kind is e.Cast:
            return self.of(n.value, env)  # type: ignore[attr-defined]
        if kind not in _KNOWN:
            return self._unknown((n,), env)
        a, b = self.of(n.a, env), self.of(n.b, env)  # type: ignore[attr-defined]
        if kind is e.Add:
            return a.plus(b)
        if kind is e.Sub:
            return a.plus(b, -1)
        if kind in (e.Min, e.Max):
            inner = a if a.terms else b
            return Form({Clamped(inner): 1}) if inner.terms else inner
        if kind is e.Mul:
            if not b.terms:
                return a.scaled(b.const)
            return b.scaled(a.const) if not a.terms else self._unknown((n,), env)
        if b.terms:
            return self._unknown((n,), env)
        quotient, remainder = self.divided(a, b.const)
        return quotient if kind in (e.FloorDiv, e.Div) else remainder

    def divided(self, form: Form, by: Size) -> tuple[Form, Form]:
        """``form // by`` and ``form % by``."""
        if type(by) is int and by == 1:
            return form, _ZERO
        whole: dict[Any, Size] = {}
        rest: dict[Any, Size] = {}
        for atom, c in form.terms.items():
            if c % by == 0:
                whole[atom] = c // by
            else:
                rest[atom] = c
        quotient = Form(whole, form.const // by)
        remainder = Form(rest, form.const % by)
        if not rest:
            return quotient, remainder
        ends = span(remainder)
        if ends is not None and ends[0] >= 0 and ends[1] < by:
            return quotient, remainder
        division = self._division(remainder, by)
        return (
            quotient.plus(Form({division.quotient: 1})),
            Form({division.remainder: 1}),
        )

    def _division(self, rest: Form, by: Size) -> Division:
        for known in self._divisions:
            if same(known.by, by) and same_form(known.rest, rest):
                return known
        self._divisions.append(Division(rest, by))
        return self._divisions[-1]

    def _unknown(self, parts: Iterable[Any], env: dict[e.Var, Form]) -> Form:
        loops: set[Loop] = set()
        seen: set[int] = set()
        stack = list(parts)
        while stack:
            n = stack.pop()
            if id(n) in seen:
                continue
            seen.add(id(n))
            if isinstance(n, e.Var):
                loops |= env.get(n, _ZERO).loops()
            else:
                stack.extend(TABLE[type(n)][0](n))
        return Form({Unknown(loops): 1})

    def extreme(self, form: Form, inner: set[Loop], sign: int) -> Form | None:
        """The greatest (``sign`` 1) or least (-1) value over all steps of the loops ``inner``."""
        out = Form({}, form.const)
        for atom, c in form.terms.items():
            if not loops_of(atom) & inner:
                out = out.plus(Form({atom: c}))
                continue
            up = (c > 0) == (sign > 0)
            part: Form | None
            if type(atom) is Loop:
                part = Form({}, atom.extent - 1) if up else _ZERO
            elif type(atom) is Remainder:
                part = Form({}, atom.of.by - 1) if up else _ZERO
            elif type(atom) is Quotient:
                part = self.extreme(atom.of.rest, inner, 1 if up else -1)
                part = None if part is None else self.divided(part, atom.of.by)[0]
            elif type(atom) is Clamped:
                part = self.extreme(atom.form, inner, 1 if up else -1)
                part = part if part is None or not part.terms else Form({Clamped(part): 1})
            else:
                part = None
            if part is None:
                return None
            out = out.plus(part, c)
        return out


def same_form(a: Form, b: Form) -> bool:
    """Whether two forms are surely equal."""
    if a.terms.keys() != b.terms.keys() or not same(a.const, b.const):
        return False
    return all(same(c, b.terms[atom]) for atom, c in a.terms.items())


def difference(high: Form, low: Form) -> Size | None:
    """An upper bound of ``high - low``; None where none is found."""
    rest = high.plus(low, -1)
    total = rest.const
    terms = dict(rest.terms)
    for atom, c in rest.terms.items():
        if atom not in terms:
            continue
        del terms[atom]
        partner = next((o for o in terms if type(o) is type(atom)), None)
        if partner is None or not same(terms[partner], -c):
            return None
        if not (c > 0):
            atom, partner, c = partner, atom, -c
        terms.pop(partner, None)
        terms.pop(atom, None)
        if type(atom) is Clamped:
            part = difference(atom.form, partner.form)
        elif type(atom) is Quotient and same(atom.of.by, partner.of.by):
            part = difference(atom.of.rest, partner.of.rest)
            part = None if part is None else -(-part // atom.of.by)
        else:
            part = None
        if part is None:
            return None
        total = total + c * part
    return total


def span(form: Form) -> tuple[Size, Size] | None:
    """The least and the greatest value over all steps of all loops; None where it is unknown."""
    low = high = form.const
    for atom, c in form.terms.items():
        if type(atom) is Loop:
            ends: tuple[Size, Size] | None = (0, atom.extent - 1)
        elif type(atom) is Remainder:
            ends = (0, atom.of.by - 1)
        elif type(atom) is Quotient:
            inner = span(atom.of.rest)
            ends = None if inner is None else (inner[0] // atom.of.by, inner[1] // atom.of.by)
        else:
            ends = span(atom.form) if type(atom) is Clamped else None
        if ends is None:
            return None
        small, large = ends if c > 0 else ends[::-1]
        low, high = low + c * small, high + c * large
    return low, high


def moves(form: Form, length: Size) -> dict[Loop, tuple[Size, Size]]:
    """How far a whole loop, and one step of it, moves an index in a dimension of ``length``."""
    out: dict[Loop, tuple[Size, Size]] = {}
    for atom, c in form.terms.items():
        for loop, (far, step) in _moves_of(atom, length).items():
            size = most(c, -c)
            old = out.get(loop)
            far, step = far * size, step * size
            out[loop] = (far, step) if old is None else (old[0] + far, old[1] + step)
    return out


def _moves_of(atom: Any, length: Size) -> dict[Loop, tuple[Size, Size]]:
    if type(atom) is Loop:
        return {atom: (atom.extent - 1, 1)}
    if type(atom) is Unknown:
        return {loop: (length - 1, length) for loop in atom.loops}
    if type(atom) is Clamped:
        return moves(atom.form, length)
    by = atom.of.by
    inner = moves(atom.of.rest, length)
    if type(atom) is Quotient:
        return {loop: (far // by, step // by) for loop, (far, step) in inner.items()}
    return {loop: (least(far, by - 1), step % by) for loop, (far, step) in inner.items()}


_ZERO = Form({})
_KNOWN = {
    e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max,
}  # fmt: skip
