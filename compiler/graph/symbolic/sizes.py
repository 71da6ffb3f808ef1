"""Ranges of sizes, and sizes in terms of symbols, found from their values at some sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, count, product
from math import gcd, prod
from typing import Any

import numpy as np

from whet.compiler.abi.extent import Extent, Operation, Symbol, evaluate, symbols_of
from whet.compiler.errors import ArgumentError

Sizes = Mapping[str, int]
"""A symbol's name -> its number."""

_INNER = 4  # sizes between the bounds of a range that a model is looked at with
_ENOUGH = 3  # sizes that tell a polynomial of degree 2 from others
_WHOLE = 16  # so many sets of sizes are all looked at


@dataclass(frozen=True, eq=False)
class Dynamic:
    """A size that stays a symbol; one object is one size, wherever it stands.

    Attributes:
        low, high: its bounds, both of which it may be.
        step: from one size to the next.
    """

    low: int
    high: int
    step: int = 1

    def __repr__(self) -> str:
        step = f", {self.step}" if self.step > 1 else ""
        return f"whet.dynamic({self.low}, {self.high}{step})"

    def __str__(self) -> str:
        steps = f" in steps of {self.step}" if self.step > 1 else ""
        return f"{self.low} to {self.high}{steps}"

    def __contains__(self, size: int) -> bool:
        return self.low <= size <= self.high and (size - self.low) % self.step == 0

    @property
    def count(self) -> int:
        """How many sizes there are."""
        return (self.high - self.low) // self.step + 1

    def at_most(self, size: int) -> int:
        """The greatest of its sizes that is at most another number, or the least one."""
        return self.low + max(min(size, self.high) - self.low, 0) // self.step * self.step

    @property
    def dots(self) -> str:
        """The range as commands take it: ``64..512..32``, as the shells write it."""
        return f"{self.low}..{self.high}" + (f"..{self.step}" if self.step > 1 else "")

    @property
    def above_one(self) -> int:
        """The least size that is not 1, where there is one: passes drop what an axis of 1 does."""
        return min(self.low + self.step, self.high) if self.low == 1 else self.low

    def wider(self, size: int) -> Dynamic:
        """The range with another size in it."""
        low, high = min(self.low, size), max(self.high, size)
        return Dynamic(low, high, gcd(self.step, size - self.low))


def dynamic(low: int, high: int, step: int = 1) -> Dynamic | int:
    """A size of a model that stays a symbol: any from ``low`` to ``high``.

    ``whet.compile("model.onnx", {"batch": whet.dynamic(1, 64)})`` is one model for all of them. The
    same object for several dimensions says that they are equal. ``whet.dynamic(64, 512, 32)`` is
    64, 96 and so on: networks that halve an image and put it together again want even sizes.

    Args:
        low: the least size, at least 1.
        high: the greatest one: memory between kernels is as large as it needs.
        step: from one size to the next; ``high`` is some of them above ``low``.

    Returns:
        The range; of one size, that size: it is a number as any other.

    Raises:
        ArgumentError: the bounds are no sizes in order, or no steps lead from one to the other.
    """
    request = f"dynamic({low!r}, {high!r}{'' if step == 1 else f', {step!r}'})"
    for bound in (low, high, step):
        if isinstance(bound, bool) or not isinstance(bound, int | np.integer):
            raise ArgumentError(request, f"{bound!r} is no integer", "dynamic(1, 64)")
    if not 1 <= low <= high:
        raise ArgumentError(
            request, "bounds are sizes from 1 on, the least first", "dynamic(1, 64)"
        )
    if step < 1:
        raise ArgumentError(request, "a step is at least 1", "dynamic(64, 512, 32)")
    if (high - low) % step:
        last = high - (high - low) % step
        way = f"dynamic({low}, {last}, {step})" if last > low else "a smaller step"
        raise ArgumentError(request, f"steps of {step} from {low} on pass {high}", way)
    return Dynamic(int(low), int(high), int(step)) if low < high else int(low)


def range_text(name: str, r: Dynamic) -> str:
    """The condition that the function of a model asserts of a symbol."""
    return f"{name} is from {r}"


def widest(ranges: Mapping[str, Dynamic]) -> dict[str, int]:
    """The greatest size of each symbol."""
    return {name: r.high for name, r in ranges.items()}


def looked_at(ranges: Mapping[str, Dynamic], beyond: bool = False) -> list[dict[str, int]]:
    """The sizes that a model is looked at with, the greatest first.

    Both ends of each range are there with their neighbours, and some between. No size is 1 that
    may be more: passes drop what an axis of 1 does. :func:`ones` has these.

    Args:
        ranges: symbol -> its range.
        beyond: add sizes above ranges from 1 that are too short to tell what follows at 1.
    """
    each = {name: _of_range(r, beyond) for name, r in ranges.items()}
    many = max(len(own) for own in each.values())
    found = [widest(ranges)]
    strides = [  # each meets all sizes of its own
        next(s for s in count(j + 1) if gcd(s, len(own)) == 1)
        for j, own in enumerate(each.values())
    ]
    for k in range(many):
        at = zip(each.items(), strides)
        found.append({n: own[(k * s + j) % len(own)] for j, ((n, own), s) in enumerate(at)})
    for one in each:  # corners: all but one at its lower end
        found.append({n: own[-1] if n == one else own[0] for n, own in each.items()})
    found.append({n: own[0] for n, own in each.items()})
    if prod(len(own) for own in each.values()) <= _WHOLE:
        found += [dict(zip(each, p)) for p in product(*each.values())]
    return list({tuple(p.values()): p for p in found}.values())


def ones(ranges: Mapping[str, Dynamic]) -> list[dict[str, int]]:
    """The sizes at which a model is looked at where symbols are 1."""
    able = [n for n, r in ranges.items() if r.low == 1 < r.high]
    found = [{**widest(ranges), one: 1} for one in able]
    if len(able) > 1:
        found.append({**widest(ranges), **dict.fromkeys(able, 1)})
    return found


def _of_range(r: Dynamic, beyond: bool) -> list[int]:
    low, step = r.above_one, r.step
    inner = [r.at_most(low + (r.high - low) * k // (_INNER - 1)) for k in range(1, _INNER - 1)]
    near = {low, low + step, r.high - step, r.high, *inner, *(n + step for n in inner)}
    found = {n for n in near if low <= n <= r.high}
    if beyond and r.low == 1:
        found |= set(range(low, low + _ENOUGH * step, step))
    return sorted(found)


def fitted(points: Sequence[Sizes], numbers: Sequence[int], spare: int = 0) -> Extent | None:
    """The polynomial of the symbols that has some values; of degree 2 at most, in integers.

    >>> print(fitted([{"n": 2}, {"n": 3}, {"n": 7}], [5, 7, 15]))
    2 * n + 1

    Args:
        points: sizes.
        numbers: the value at each of them.
        spare: so many more sizes there are at least than terms: as many terms fit anything.

    Returns:
        None if there is none.
    """
    if all(n == numbers[0] for n in numbers):
        return numbers[0]
    for monomials in _bases(list(points[0])):
        if len(points) < len(monomials) + spare:
            return None
        columns = [[prod(p[x] for x in m) for m in monomials] for p in points]
        found = np.linalg.lstsq(np.array(columns, float), np.array(numbers, float), rcond=None)[0]
        factors = [round(float(x)) for x in found]
        if all(sum(f * c for f, c in zip(factors, row)) == n for row, n in zip(columns, numbers)):
            return _sum(list(zip(factors, monomials)))
    return None


def _bases(names: Sequence[str]) -> Iterator[list[tuple[str, ...]]]:
    """Sets of monomials, the simplest first."""
    linear = [(x,) for x in names]
    square = list(combinations_with_replacement(names, 2))
    for m in (*linear, *square):
        yield [m, ()]
    yield [*linear, ()]
    for s in square:
        yield [s, *linear, ()]
    yield [*(s for s in square if s[0] != s[1]), *linear, ()]
    yield [*square, *linear, ()]


def _sum(terms: Sequence[tuple[int, tuple[str, ...]]]) -> Extent:
    total: Extent | None = None
    for factor, monomial in terms:
        if factor == 0:
            continue
        term: Extent | None = None if abs(factor) == 1 and monomial else abs(factor)
        for x in monomial:
            term = Symbol(x) if term is None else Operation("*", term, Symbol(x))
        assert term is not None
        if total is None:
            total = term if factor > 0 else Operation("-", 0, term)
        else:
            total = Operation("+" if factor > 0 else "-", total, term)
    return 0 if total is None else total


def is_open(extent: Any) -> bool:
    """True for an extent that a symbol stands in."""
    return not isinstance(extent, int) and bool(symbols_of(extent))


def most_each(shape: Sequence[Extent], itemsize: int, ranges: Mapping[str, Dynamic]) -> int:
    """Bytes such that an array has at most as many times the product of all symbols.

    In each symbol alone, size over product is a sum of powers of it from -1 on, which is convex: it
    is greatest at an end of the range.
    """
    if not all(map(_only_grows, shape)):
        return most_elements(shape, ranges) * itemsize
    ends = [{(n, r.low), (n, r.high)} for n, r in ranges.items()]
    found = 0
    for corner in map(dict, product(*ends)):
        size = itemsize * prod(evaluate(d, corner) for d in shape)
        found = max(found, -(-size // prod(corner.values())))
    return found


def most_elements(shape: Sequence[Extent], ranges: Mapping[str, Dynamic]) -> int:
    """A number of elements that an array of some extents has at most for sizes of these ranges."""
    return prod(_most(d, ranges) for d in shape)


def _only_grows(d: Extent) -> bool:
    """True for sums and products, which are greatest where all symbols are."""
    if isinstance(d, Operation):
        return d.op in "+*" and _only_grows(d.a) and _only_grows(d.b)
    return True


def _most(d: Extent, ranges: Mapping[str, Dynamic]) -> int:
    """A bound of an extent; of a polynomial of one symbol its greatest value."""
    names = symbols_of(d)
    if len(names) > 1 or divides(d) or _only_grows(d):
        return _bounds(d, ranges)[1]
    (name,) = names
    r = ranges[name]

    def at(n: int) -> int:
        return int(evaluate(d, {name: n}))

    # at an end of its range, or at its top
    square, line = at(2) - 2 * at(1) + at(0), 4 * at(1) - 3 * at(0) - at(2)
    top = -line // (2 * square) if square else r.low
    return max(at(n) for n in (r.low, r.high, top, top + 1) if r.low <= n <= r.high)


def divides(d: Extent) -> bool:
    """True for an extent with a quotient in it."""
    return isinstance(d, Operation) and (d.op == "//" or divides(d.a) or divides(d.b))


def _bounds(d: Extent, ranges: Mapping[str, Dynamic]) -> tuple[int, int]:
    """Numbers between which an extent is, by those of its parts."""
    if isinstance(d, Symbol):
        return ranges[d.name].low, ranges[d.name].high
    if not isinstance(d, Operation):
        return d, d
    (a, b), (x, y) = _bounds(d.a, ranges), _bounds(d.b, ranges)
    if d.op == "+":
        return a + x, b + y
    if d.op == "-":
        return a - y, b - x
    each = [evaluate(Operation(d.op, m, n), {}) for m in (a, b) for n in (x, y)]
    return min(each), max(each)
