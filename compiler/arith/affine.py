"""Affine forms: ``sum of coefficient * atom + constant``, with integer coefficients.

An atom is a variable or any integer expression that is not itself affine: a floordiv, a floormod,
a min, a product of variables, a load. Atoms are told apart by a structural key, so that two
``i // 8`` written in two places cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from whet.compiler.tir.expr import Add, Cast, IntImm, Mul, PrimExpr, Sub, Var
from whet.compiler.tir.visit.rewrite import variables

Terms = dict[Hashable, tuple[Any, int]]
"""Atom's key -> (atom, coefficient). Generators have forms of values that are computed already:
their atoms are names, which are their own keys."""
_NONE: Mapping[Any, Any] = {}


def add_terms(terms: Terms, more: Terms, scale: int) -> None:
    """Add ``scale`` times other terms to ``terms``, of which none stays 0."""
    for k, (atom, c) in more.items():
        if k not in terms:
            terms[k] = (atom, scale * c)
        elif total := terms[k][1] + scale * c:
            terms[k] = (atom, total)
        else:
            del terms[k]


class Affine:
    """An affine form; never changed after it is made.

    Attributes:
        terms: atom's key -> (atom, coefficient); no coefficient is 0.
        const: the constant part.
    """

    __slots__ = ("_key", "const", "terms")

    def __init__(self, terms: Terms, const: int) -> None:
        self.terms = terms
        self.const = const
        self._key: Hashable = None

    @staticmethod
    def constant(value: int) -> Affine:
        """The form of a number."""
        return Affine({}, value)

    @staticmethod
    def atom(key: Hashable, atom: Any) -> Affine:
        """The form of one atom."""
        return Affine({key: (atom, 1)}, 0)

    @property
    def key(self) -> Hashable:
        """Equal for equal forms."""
        if self._key is None:
            self._key = (frozenset((k, c) for k, (_, c) in self.terms.items()), self.const)
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def is_const(self) -> bool:
        """True for a number."""
        return not self.terms

    @property
    def atoms(self) -> tuple[Any, ...]:
        """The atoms that it depends on."""
        return tuple(atom for atom, _ in self.terms.values())

    def mentions(self, some: AbstractSet[Var]) -> bool:
        """True if an atom is one of some variables, or is made of one."""
        return any(variables(atom) & some for atom, _ in self.terms.values())

    @property
    def variable(self) -> Var | None:
        """The variable that it is, without factor or offset; None if it is anything else."""
        if len(self.terms) != 1 or self.const != 0:
            return None
        ((atom, c),) = self.terms.values()
        return atom if c == 1 and isinstance(atom, Var) else None

    def coefficient(self, key: Hashable) -> int:
        """The step of the form when an atom grows by one."""
        return self.terms[key][1] if key in self.terms else 0

    def __add__(self, other: Affine) -> Affine:
        return self.plus(other, 1)

    def __sub__(self, other: Affine) -> Affine:
        return self.plus(other, -1)

    def plus(self, other: Affine, scale: int) -> Affine:
        """``self + scale * other``."""
        if not other.terms:
            return Affine(self.terms, self.const + scale * other.const)
        terms = dict(self.terms)
        add_terms(terms, other.terms, scale)
        return Affine(terms, self.const + scale * other.const)

    def replaced(self, key: Hashable, by: Affine) -> Affine:
        """The form with ``by`` in place of one of its atoms."""
        terms = dict(self.terms)
        scale = terms.pop(key)[1]
        add_terms(terms, by.terms, scale)
        return Affine(terms, self.const + scale * by.const)

    def mapped(
        self, form_of: Callable[[Any], Affine], known: Mapping[Any, Affine] = _NONE
    ) -> Affine:
        """The form with a form in place of each atom: the one in ``known``, else ``form_of`` it."""
        terms: Terms = {}
        const = self.const
        for atom, c in self.terms.values():
            form = known.get(atom)
            if form is None:
                form = form_of(atom)
            const += c * form.const
            if form.terms:
                add_terms(terms, form.terms, c)
        return Affine(terms, const)

    def scaled(self, factor: int) -> Affine:
        """``factor * self``."""
        if factor == 1:
            return self
        if factor == 0:
            return Affine({}, 0)
        return Affine({k: (a, c * factor) for k, (a, c) in self.terms.items()}, self.const * factor)

    def shifted(self, by: int) -> Affine:
        """``self + by``."""
        return Affine(self.terms, self.const + by) if by else self

    def without(self, key: Hashable) -> Affine:
        """The form with one atom left out."""
        if key not in self.terms:
            return self
        terms = dict(self.terms)  # comparing keys with != would build expressions
        del terms[key]
        return Affine(terms, self.const)

    def to_expr(self, dtype: str = "int32") -> PrimExpr:
        """The form as an expression: positive terms first, then negative ones, then the number.

        It is int64 where ``dtype``, an atom or a number in it is, else of the atoms' type.
        """
        kind = "int64" if dtype == "int64" else ""
        for atom, c in self.terms.values():
            if atom.dtype == "int64" or not -_HALF <= c < _HALF:
                kind = "int64"
        if not -_HALF <= self.const < _HALF:
            kind = "int64"
        out: PrimExpr | None = None
        for atom, c in self.terms.values():
            if c > 0:
                part = _times(atom, c, kind)
                out = part if out is None else Add(out, part, part.dtype)
        for atom, c in self.terms.values():
            if c < 0:
                if out is None:
                    out = _times(atom, c, kind)
                else:
                    part = _times(atom, -c, kind)
                    out = Sub(out, part, part.dtype)
        if out is None:
            return IntImm(kind or dtype, self.const)
        if self.const > 0:
            return Add(out, IntImm(out.dtype, self.const), out.dtype)
        if self.const < 0:
            return Sub(out, IntImm(out.dtype, -self.const), out.dtype)
        return out


#: int32 numbers are below it
_HALF = 1 << 31


def _times(atom: PrimExpr, c: int, kind: str) -> PrimExpr:
    """A positive or negative multiple of an atom, in ``kind`` if that says something."""
    if kind and atom.dtype != kind:
        atom = Cast(kind, atom)
    return atom if c == 1 else Mul(atom, IntImm(atom.dtype, c), atom.dtype)


def matched(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr, str]:
    """Two indices in one type, int64 where one of them is; and that type."""
    if a.dtype == b.dtype:
        return a, b, a.dtype
    kind = "int64" if "int64" in (a.dtype, b.dtype) else a.dtype
    x, y = (n if n.dtype == kind else Cast(kind, n) for n in (a, b))
    return x, y, kind
