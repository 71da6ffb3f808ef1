"""Indices as linear forms over loops, with sizes that may be traced: how far each loop moves them.

The compiler's own analyzer proves more and asks the size of every number for it. Here sizes stay
symbolic wherever they can, so that one look at a schedule holds for many tile sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.tir.tracing.traced import TracedInt, least, most

Size = Any
"""An int, perhaps a traced one."""


@dataclass(slots=True, eq=False)
class Loop:
    """A loop: its number of steps and how they are run; a GPU's threads by their tag."""

    extent: Size
    kind: int
    reduces: bool
    unroll: Size = 0
    tag: str = ""


@dataclass(slots=True, eq=False)
class Quotient:
    """``rest`` divided by ``by``, which does not go out evenly, rounded down."""

    rest: Form
    by: Size


@dataclass(slots=True, eq=False)
class Remainder:
    """The remainder of a division."""

    of: Quotient


@dataclass(slots=True, eq=False)
class Clamped:
    """A form kept inside limits: it moves like the form, or less."""

    form: Form


@dataclass(slots=True, eq=False)
class Unknown:
    """An index that depends on data, or on loops in no linear way."""

    loops: set[Loop]


@dataclass(slots=True, eq=False)
class Form:
    """``sum of coefficient * atom + const``; never changed after it is made."""

    terms: dict[Any, Size]
    const: Size = 0

    @property
    def is_const(self) -> bool:
        """True if it depends on no loop."""
        return not self.terms

    def __add__(self, other: Form) -> Form:
        return self.plus(other)

    def __sub__(self, other: Form) -> Form:
        return self.plus(other, -1)

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
    quotient = remainder.of
    scale, other = terms[remainder], terms.get(quotient)
    if other is None or quotient.rest.const != 0 or not agree(other, scale * quotient.by):
        return
    del terms[remainder], terms[quotient]
    for atom, c in quotient.rest.terms.items():
        terms[atom] = terms.get(atom, 0) + scale * c
    for atom in quotient.rest.terms:
        if type(atom) is Remainder and atom in terms:  # of a division within the other
            _rejoin(terms, atom)


def same(a: Size, b: Size) -> bool:
    """True if two sizes are surely equal; nothing is asked of traced ones."""
    if type(a) is TracedInt or type(b) is TracedInt:
        return type(a) is type(b) and a.node == b.node
    return bool(a == b)


def agree(a: Size, b: Size) -> bool:
    """True if two sizes are equal; of traced ones that is asked where they are in this run.

    A tile that divides an image is found whole; the others are no reason for structures.
    """
    now_a, now_b = (x.tape.values[x.node] if type(x) is TracedInt else x for x in (a, b))
    return same(a, b) or (now_a == now_b and bool(a == b))


def loops_of(atom: Any) -> set[Loop]:
    """The loops that an atom depends on."""
    if type(atom) is Loop:
        return {atom}
    if type(atom) is Unknown:
        return atom.loops
    if type(atom) is Clamped:
        return atom.form.loops()
    return (atom.of if type(atom) is Remainder else atom).rest.loops()


def same_form(a: Form, b: Form) -> bool:
    """True if two forms are surely equal."""
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
        elif type(atom) is Quotient and same(atom.by, partner.by):
            part = difference(atom.rest, partner.rest)
            part = None if part is None else -(-part // atom.by)
        else:
            part = None
        if part is None:
            return None
        total = total + c * part
    return total


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
    quotient = atom if type(atom) is Quotient else atom.of
    by, inner = quotient.by, moves(quotient.rest, length)
    if atom is quotient:
        return {loop: (far // by, step // by) for loop, (far, step) in inner.items()}
    return {loop: (least(far, by - 1), step % by) for loop, (far, step) in inner.items()}


ZERO = Form({})
