"""Sizes that strides divide: ``k * ((n + b) // c) + d`` of a symbol, and products of such ones.

A convolution or a pool that moves by two pixels halves an image and rounds; several in a row are
one such form, of the product of their strides. What a factor makes of a size is ``p * n // q``,
which is compared at all sizes (:mod:`~whet.compiler.graph.symbolic.factors`). Some sizes that were
looked at may fit several forms: then another size is named, at which they differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np

from whet.compiler.abi.extent import Extent, Operation, Symbol, evaluate, symbols_of
from whet.compiler.graph.passes.tiles import STEP
from whet.compiler.graph.symbolic.sizes import Dynamic, Sizes, fitted, widest

_MOST_STRIDE = 64
_SPARE = 2  # sizes beyond the terms of a polynomial, where not all of a range were looked at
_PERIOD = 4096  # two forms that agree at so many sizes in a row agree at all: c times c' is less
_MOST_FACTORS = 3  # of a product: the images, their rows, their columns

Row = tuple[int, ...]
"""A size at each of the points that were looked at."""


@dataclass(frozen=True)
class Forms:
    """The extents of sizes, in terms of symbols.

    Attributes:
        found: the numbers of a size -> its extent; None where it has no form.
        doubt: sizes at which forms differ that are the same so far; None: there is no doubt.
    """

    found: Mapping[Row, Extent | None]
    doubt: Sizes | None


def forms_of(
    points: Sequence[Sizes],
    rows: set[Row],
    ranges: Mapping[str, Dynamic],
    known: Sequence[Extent] = (),
    times: Collection[float] = (),
) -> Forms:
    """The forms of some sizes.

    Args:
        points: the sizes of the symbols that were looked at.
        rows: of each size its number at each of them.
        ranges: symbol -> its range.
        known: sizes that others are made of; quotients of these by
            :data:`~whet.compiler.graph.passes.tiles.STEP` are tried first.
        times: by which images are resized; what that makes of a size is tried first, too.
    """
    every_size = prod((r.high - r.above_one) // r.step + 1 for r in ranges.values())
    spare = 0 if len(points) >= every_size else _SPARE
    found: dict[Row, Extent | None] = {row: fitted(points, row, spare) for row in rows}
    factors = {q: None for extent in known for q in _quotients(extent)}
    squares = _squares(points, [*map(Symbol, ranges), *known])
    resized = _resized(points, [*map(Symbol, ranges), *known], times)
    for row in sorted(row for row, extent in found.items() if extent is None):
        many: list[_Form] = [*squares.get(row, ())] or [*_candidates(points, row, ranges)]
        many = [*resized.get(row, ()), *many]
        if not many:
            continue
        point = _difference(many, ranges)
        if point is not None:
            return Forms(found, point)
        found[row] = many[0].extent
        factors[many[0].quotient] = None
    resized = _resized(points, [d for d in found.values() if isinstance(d, Operation)], times)
    for row in [row for row in resized if found.get(row, 0) is None]:
        found[row] = resized[row][0].extent
        factors[resized[row][0].quotient] = None
    every = [*map(Symbol, ranges), *factors]
    for row in [row for row, extent in found.items() if extent is None and factors]:
        found[row] = _product(points, row, every)
    return Forms(found, None)


def _squares(points: Sequence[Sizes], known: Iterable[Extent]) -> dict[Row, list[_Candidate]]:
    """How many squares of pixels cover some sizes: at each of the points, and as forms."""
    found: dict[Row, list[_Candidate]] = {}
    for size in known:
        squares = _divided(size, STEP)
        if squares is not None:
            numbers = squares.at(np.array([p[squares.name] for p in points]))
            found.setdefault(tuple(numbers.tolist()), []).append(squares)
    return found


def _resized(
    points: Sequence[Sizes], known: Iterable[Extent], times: Collection[float]
) -> dict[Row, list[_Resized]]:
    """Sizes by factors, rounded down: at each of the points, and as forms."""
    found: dict[Row, list[_Resized]] = {}
    for size, factor in product(known, times):
        one, names = Fraction(factor).limit_denominator(_MOST_STRIDE), symbols_of(size)
        if one.denominator > 1 and len(names) == 1:
            top = size if one.numerator == 1 else Operation("*", size, one.numerator)
            form = _Resized(min(names), Operation("//", top, one.denominator))
            found.setdefault(tuple(evaluate(form.extent, p) for p in points), []).append(form)
    return found


def _divided(size: Extent, by: int) -> _Candidate | None:
    """A size by a number, rounded up: the quotients made one; None for other forms."""
    (name, more), c = _apart(size), 1
    if isinstance(name, Operation) and name.op == "//" and isinstance(name.b, int):
        c = name.b
        name, inner = _apart(name.a)
        more = inner + c * more
    if not isinstance(name, Symbol):
        return None
    d, b = divmod(more + c * (by - 1), c * by)
    return _Candidate(name.name, 1, b, c * by, d)


def _apart(size: Extent) -> tuple[Extent, int]:
    """A size without the number that is added to it, and the number."""
    if isinstance(size, Operation) and isinstance(size.b, int) and size.op in ("+", "-"):
        return size.a, size.b if size.op == "+" else -size.b
    return size, 0


def more_points(ranges: Mapping[str, Dynamic]) -> list[dict[str, int]]:
    """Sizes at which extents with quotients are compared: a row of them at each range's ends."""
    top, found = widest(ranges), []
    for name, r in ranges.items():
        every = range(r.low, r.high + 1, r.step)
        many = 4 * _MOST_STRIDE
        found += [{**top, name: n} for n in sorted({*every[:many], *every[-many:]})]
    return found


@dataclass(frozen=True)
class _Candidate:
    """``k * ((name + b) // c) + d``."""

    name: str
    k: int
    b: int
    c: int
    d: int

    @property
    def quotient(self) -> Extent:
        """The quotient that is multiplied; of a single one, with the number that is added to it."""
        more = self.b + (self.c * self.d if self.k == 1 else 0)
        top: Extent = Symbol(self.name)
        if more:
            top = Operation("+" if more > 0 else "-", top, abs(more))
        return Operation("//", top, self.c)

    @property
    def extent(self) -> Extent:
        return self.quotient if self.k == 1 else _scaled(self.quotient, self.k, self.d)

    def at(self, sizes: np.ndarray) -> np.ndarray:
        """Its values."""
        return self.k * ((sizes + self.b) // self.c) + self.d


@dataclass(frozen=True)
class _Resized:
    """A size of one symbol times a factor, rounded down."""

    name: str
    extent: Extent

    @property
    def quotient(self) -> Extent:
        """The whole."""
        return self.extent

    def at(self, sizes: np.ndarray) -> np.ndarray:
        """Its values."""
        return np.array([evaluate(self.extent, {self.name: int(n)}) for n in sizes])


_Form = _Candidate | _Resized


def _quotients(extent: Extent) -> Iterator[Extent]:
    """The quotients in an extent."""
    if isinstance(extent, Operation):
        if extent.op == "//":
            yield extent
        else:
            yield from (*_quotients(extent.a), *_quotients(extent.b))


def _scaled(extent: Extent, k: int, d: int) -> Extent:
    """``k * extent + d``."""
    found = extent if k == 1 else Operation("*", extent, k)
    return found if not d else Operation("+" if d > 0 else "-", found, abs(d))


def _candidates(
    points: Sequence[Sizes], row: Row, ranges: Mapping[str, Dynamic]
) -> Iterator[_Candidate]:
    """The forms that have some numbers, of one symbol alone.

    Strides that divide the step of its range come first, as kernels count steps; then powers of
    two, as networks halve; then small ones.
    """
    wanted = np.array(row)
    for name, r in ranges.items():
        sizes = np.array([p[name] for p in points])
        high, low = sizes.argmax(), sizes.argmin()
        rise = int(wanted[high] - wanted[low])
        strides = range(2, _MOST_STRIDE + 1)
        for c in sorted(strides, key=lambda c: (r.step % c != 0, c & (c - 1) != 0, c)):
            own = (sizes + np.arange(c)[:, None]) // c
            steps = own[:, high] - own[:, low]
            able = (steps > 0) & (rise % np.maximum(steps, 1) == 0)
            k = np.where(able, rise // np.maximum(steps, 1), 0)
            d = wanted[high] - k * own[:, high]
            fits = (k != 0) & (k[:, None] * own + d[:, None] == wanted).all(axis=1)
            for b in np.flatnonzero(fits):
                yield _Candidate(name, int(k[b]), int(b), c, int(d[b]))


def _difference(many: Sequence[_Form], ranges: Mapping[str, Dynamic]) -> Sizes | None:
    """Sizes at which candidates differ, which tell as many apart as any; None: they never do."""
    best: tuple[int, Sizes] | None = None
    for name in dict.fromkeys(one.name for one in many):
        r = ranges[name]
        sizes = np.arange(r.low, min(r.high, r.low + _PERIOD * r.step) + 1, r.step)
        top = widest(ranges)
        values = np.array([
            one.at(sizes if one.name == name else np.full_like(sizes, top[one.name]))
            for one in many
        ])  # fmt: skip
        other = (values != values[0]).sum(axis=0)
        apart = np.minimum(other, len(many) - other)
        at = int(np.where(other > 0, apart, -1).argmax())
        if other[at] and (best is None or apart[at] > best[0]):
            best = int(apart[at]), {**top, name: int(sizes[at])}
    return None if best is None else best[1]


def _product(points: Sequence[Sizes], row: Row, factors: Sequence[Extent]) -> Extent | None:
    """``k`` times a product of factors, and a number; None where there is none."""
    wanted = np.array(row)
    high, low = wanted.argmax(), wanted.argmin()
    values = {f: np.array([evaluate(f, p) for p in points]) for f in factors}
    for many in range(2, _MOST_FACTORS + 1):
        for chosen in combinations_with_replacement(factors, many):
            if not any(isinstance(f, Operation) for f in chosen):
                continue  # a polynomial, which it is not
            own = np.prod([values[f] for f in chosen], axis=0)
            step = int(own[high] - own[low])
            k, rest = divmod(int(wanted[high] - wanted[low]), step) if step else (0, 1)
            d = int(wanted[high]) - k * int(own[high])
            if k and not rest and (k * own + d == wanted).all():
                extent = chosen[0]
                for f in chosen[1:]:
                    extent = Operation("*", extent, f)
                return _scaled(extent, k, d)
    return None
