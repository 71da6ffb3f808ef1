"""Indices as digits: what an index map takes apart, and puts together in another order.

``c // 4`` and ``c % 4`` are the digits of ``c``. A sum of digits, each times the extents of those
below it, is a fused index, which can be taken apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from whet.compiler.errors import ArgumentError, Text
from whet.compiler.tir.expr import (
    Add,
    FloorDiv,
    FloorMod,
    Mul,
    PrimExpr,
    Var,
    int_value,
    is_int,
)
from whet.compiler.tir.printer import expr_text


@dataclass(frozen=True)
class _Digit:
    """``source // low % (high // low)``; without an end, all that is above.

    The source is an index, by its number, or a sum of digits, each times a number.
    """

    source: int | _Sum
    low: int = 1
    high: int | None = None


_Sum = tuple[tuple[int, _Digit], ...]


@dataclass(frozen=True)
class Step:
    """``parent = outer * extent(inner) + inner``: a split of the parent, or a fusion of the others.

    Indices are numbers: first the map's own, then those that the steps make.
    """

    splits: bool
    parent: int
    outer: int
    inner: int
    factor: int = 0


@dataclass
class Digits:
    """A map as splits and fusions.

    Attributes:
        extents: index -> its extent; None where that is a symbol.
        steps: in the order in which they make indices.
        ones: the indices that are 0, made of nothing.
        final: the indices that the map gives.
    """

    extents: list[int | None]
    steps: list[Step] = field(default_factory=list)
    ones: list[int] = field(default_factory=list)
    final: list[int] = field(default_factory=list)

    def new(self, extent: int | None) -> int:
        """One more index."""
        self.extents.append(extent)
        return len(self.extents) - 1

    def one(self) -> int:
        """An index that is 0."""
        self.ones.append(self.new(1))
        return self.ones[-1]

    def split(self, parent: int, factor: int) -> tuple[int, int]:
        """Split an index: the inner one counts to the factor, or to the end if that is before."""
        whole = self.extents[parent]
        given = factor if whole is None else max(min(factor, whole), 1)
        outer = self.new(None if whole is None else -(-whole // given))
        inner = self.new(given)
        self.steps.append(Step(True, parent, outer, inner, factor))
        return outer, inner

    def fuse(self, outer: int, inner: int) -> int:
        """Fuse two indices."""
        a, b = self.extents[outer], self.extents[inner]
        fused = self.new(None if a is None or b is None else a * b)
        self.steps.append(Step(False, fused, outer, inner))
        return fused

    @property
    def padded(self) -> bool:
        """True if some split does not divide, or may not: there are places without an element."""
        return any(self.has_rest(s) for s in self.steps)

    def has_rest(self, s: Step) -> bool:
        """True if a step is a split that does not divide, or may not."""
        whole, inner = self.extents[s.parent], self.extents[s.inner]
        return s.splits and (whole is None or not inner or whole % inner != 0)


def digits_of(
    variables: Sequence[Var],
    places: Sequence[PrimExpr],
    extents: Sequence[int | None],
    request: Text,
) -> Digits:
    """A map from indices to places as splits and fusions.

    Raises:
        ArgumentError: if it does not take indices apart into digits, each used once.
    """
    return _Builder(_Reader(variables, request), places, extents).digits


def as_sums(variables: Sequence[Var], places: Sequence[PrimExpr]) -> list[_Sum]:
    """Places as sums of digits: equal ones are equal.

    Raises:
        ArgumentError: if they are none.
    """
    reader = _Reader(variables, "IndexMap")
    return [reader.sum(x) for x in places]


class _Reader:
    """Reads expressions as sums of digits."""

    def __init__(self, variables: Sequence[Var], request: Text) -> None:
        self.variables, self.request = variables, request
        self.numbers = {v: k for k, v in enumerate(variables)}

    def sum(self, x: PrimExpr) -> _Sum:
        """An expression as a sum of digits, each times a number, the least number first."""
        return _sorted(self._terms(x))

    def refuse(self, what: str, why: str) -> ArgumentError:
        """The error for a map that is none of digits."""
        return ArgumentError(
            self.request,
            f"{what} {why}",
            "take each index once, whole or all of its digits: lambda i, j: [i // 4, j, i % 4]",
        )

    def _terms(self, x: PrimExpr) -> list[tuple[int, _Digit]]:
        """An expression as a sum of digits, each times a number."""
        if isinstance(x, Var) and x in self.numbers:
            return [(1, _Digit(self.numbers[x]))]
        if is_int(x, 0):
            return []
        if isinstance(x, Add):
            return self._terms(x.a) + self._terms(x.b)
        if isinstance(x, Mul):
            for a, b in ((x.a, x.b), (x.b, x.a)):
                by = int_value(b)
                if by is not None and by > 0:
                    return [(c * by, d) for c, d in self._terms(a)]
        if isinstance(x, (FloorDiv, FloorMod)):
            by = int_value(x.b)
            if by is not None and by > 0:
                return self._divided(x, self._terms(x.a), by)
        raise self.refuse(expr_text(x), "is no sum of indices and their digits")

    def _divided(
        self, x: FloorDiv | FloorMod, terms: list[tuple[int, _Digit]], by: int
    ) -> list[tuple[int, _Digit]]:
        """The quotient or the rest of a division, which is a digit."""
        if not terms:
            return []
        coef, d = terms[0]
        if len(terms) > 1 or coef != 1:
            d = _Digit(_sorted(terms))
        middle = d.low * by
        if d.high is not None and d.high % middle:
            if middle < d.high:
                raise self.refuse(expr_text(x), "divides by no part of a digit")
            return [] if isinstance(x, FloorDiv) else [(1, d)]
        if isinstance(x, FloorDiv):
            return [] if middle == d.high else [(1, _Digit(d.source, middle, d.high))]
        return [] if by == 1 else [(1, _Digit(d.source, d.low, middle))]


class _Builder:
    """Makes the splits and fusions that a map is."""

    def __init__(
        self, reader: _Reader, places: Sequence[PrimExpr], extents: Sequence[int | None]
    ) -> None:
        self.digits = Digits(list(extents))
        self.refuse, self.variables = reader.refuse, reader.variables
        self.used: dict[int | _Sum, list[_Digit]] = {}
        self.indices: dict[_Digit | _Sum, int] = {}
        sums = [reader.sum(x) for x in places]
        for x in sums:
            self._note(x)
        for k, v in enumerate(self.variables):
            if k not in self.used:
                raise self.refuse(f"the index {v.name}", "is in none of them")
        self.digits.final = [self._sum(x) for x in sums]

    def _note(self, terms: _Sum) -> None:
        """Note which digits are used, and all that they are made of."""
        for _, d in terms:
            known = self.used.setdefault(d.source, [])
            if not known and not isinstance(d.source, int):
                self._note(d.source)
            known.append(d)

    def _sum(self, terms: _Sum) -> int:
        """The index that a sum is: a fusion, where each number is the extent of all below it."""
        if terms in self.indices:
            return self.indices[terms]
        parts = [(c, self._index(d)) for c, d in terms]
        least, order = 1, []
        for c, k in parts:
            extent = self.digits.extents[k]
            if extent == 1:
                continue
            if c != least:
                raise self.refuse(
                    self._text(terms),
                    f"leaves places out, or uses some twice: one step is {c}, and should be "
                    f"{'more than a symbol' if least < 0 else least}",
                )
            order.append(k)
            least = -1 if extent is None else least * extent
        order += [k for _, k in parts if self.digits.extents[k] == 1]
        out = order[0] if order else self.digits.one()
        for k in order[1:]:
            out = self.digits.fuse(k, out)
        if terms:  # each 0 is an index of its own
            self.indices[terms] = out
        return out

    def _index(self, d: _Digit) -> int:
        """The index that a digit is; all digits of a source are made at once."""
        if d not in self.indices:
            source = d.source if isinstance(d.source, int) else self._sum(d.source)
            digits = sorted(self.used[d.source], key=lambda x: x.low)
            rest, low, whole = source, 1, self.digits.extents[source]
            for x, after in zip(digits, [*digits[1:], None]):
                last = x.high is None or (after is None and whole is not None and whole <= x.high)
                if x.low != low or last != (after is None):
                    raise self.refuse(
                        "the digits of " + self._text(d.source),
                        "overlap, or leave some of it out",
                    )
                if last:
                    self.indices[x] = rest
                else:
                    assert x.high is not None
                    rest, self.indices[x] = self.digits.split(rest, x.high // x.low)
                    low = x.high
        return self.indices[d]

    def _text(self, source: int | _Sum) -> str:
        if isinstance(source, int):
            return self.variables[source].name
        return "a sum of " + ", ".join(dict.fromkeys(self._text(d.source) for _, d in source))


def _sorted(terms: list[tuple[int, _Digit]]) -> _Sum:
    return tuple(sorted(terms, key=lambda t: t[0]))
