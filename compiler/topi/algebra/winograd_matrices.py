"""Winograd's transformation matrices, made exactly from interpolation points; unrolled sums.

``m`` results of a filter of ``r`` elements need ``m + r - 1`` products (S. Winograd, 1980; Lavin
and Gray, 2016): ``y = A^T ((G g) * (B^T d))``. Filter and data are read as polynomials: ``G``
evaluates the filter's at ``m + r - 2`` points and at infinity, ``A^T`` the result's, and ``B^T`` is
the transposed interpolation. The denominators of the interpolation stand in ``G``, which is applied
to weights, ahead of time: the entries of ``A^T`` and ``B^T`` are few and short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from whet.compiler.errors import ArgumentError

Matrix = tuple[tuple[Fraction, ...], ...]

# Pairs of p and -p share half of their sums. Small points keep rounding errors small.
POINTS = tuple(Fraction(p) for p in ("0", "1", "-1", "2", "-2", "1/2", "-1/2"))
# Of five points, these have a third of the error of 0, 1, -1, 2 and -2 (F(4x4, 3x3), 256 channels
# at 14x14: 1.4e-5 of the root mean square at most, against 4.2e-5); what they make of A^T and B^T,
# floats hold exactly. They are the best of a dozen sets tried, not of all.
FIVE_POINTS = tuple(Fraction(p) for p in ("0", "3/4", "-3/4", "3/2", "-3/2"))


@dataclass(frozen=True)
class Matrices:
    """``A^T``, ``G`` and ``B^T`` of F(m, r), exact.

    Attributes:
        at: (m, m + r - 1), from products to results.
        g: (m + r - 1, r), for the filter.
        bt: (m + r - 1, m + r - 1), for the data.
    """

    at: Matrix
    g: Matrix
    bt: Matrix


def winograd_matrices(m: int, r: int = 3, points: Sequence[Any] | None = None) -> Matrices:
    """The matrices of F(m, r): ``m`` results of a filter of ``r`` elements.

    Args:
        m, r: at least 1.
        points: ``m + r - 2`` different numbers; beside them infinity is used. By default the first
            of 0, 1, -1, 2, -2, 1/2, -1/2; where five are needed, 0, 3/4, -3/4, 3/2, -3/2.

    Raises:
        ArgumentError: a size below 1, another number of points, or the same one twice.

    >>> [[int(x) for x in row] for row in winograd_matrices(2).bt]
    [[-1, 0, 1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]
    """
    request = f"winograd_matrices({m}, {r})"
    if min(m, r) < 1:
        raise ArgumentError(request, "there must be at least one result and one element")
    needed = m + r - 2
    usual = FIVE_POINTS if needed == len(FIVE_POINTS) else POINTS[:needed]
    given = usual if points is None else tuple(Fraction(p) for p in points)
    if len(given) != needed or len(set(given)) != needed:
        raise ArgumentError(
            f"{request} with the points {', '.join(map(str, given))}",
            f"{needed} different ones are needed, and infinity beside them",
            f"give {needed} points" if points is not None else "give points of your own",
        )
    at, g, bt = [], [], []
    for k, p in enumerate(given):
        others = [q for j, q in enumerate(given) if j != k]
        scale = math.prod((p - q for q in others), start=Fraction(1))
        at.append([p**k for k in range(m)])
        g.append([p**k / scale for k in range(r)])
        bt.append([*_from_roots(others), Fraction(0)])
    at.append([*[Fraction(0)] * (m - 1), Fraction(1)])
    g.append([*[Fraction(0)] * (r - 1), Fraction(1)])
    bt.append(_from_roots(given))
    return Matrices(tuple(zip(*at)), tuple(map(tuple, g)), tuple(map(tuple, bt)))


def combined(
    matrix: Matrix, values: Sequence[Any], number: Callable[[float], Any] = float
) -> list[Any]:
    """``matrix @ values`` as unrolled sums, in which rows and columns in pairs share terms.

    Rows ``e + o`` and ``e - o``, which the points p and -p give, have ``e`` and ``o`` once; columns
    of equal size become a sum and a difference, as do those of ``A^T``.

    Args:
        matrix: exact.
        values: as many as it has columns; anything that can be added and multiplied.
        number: makes a constant that can be multiplied by them.

    Returns:
        A value for each row. Equal subexpressions are the same objects.
    """
    rows, terms = _paired_columns([list(row) for row in matrix], list(values))
    out: list[Any] = [None] * len(rows)
    for i, row in enumerate(rows):
        if out[i] is not None:
            continue
        j = next((j for j in range(i + 1, len(rows)) if _mirrored(row, rows[j])), None)
        if j is None:
            out[i] = _sum(row, terms, number)
            continue
        even = _sum([a if a == b else Fraction(0) for a, b in zip(row, rows[j])], terms, number)
        odd = [a if a != b else Fraction(0) for a, b in zip(row, rows[j])]
        scale = next(abs(x) for x in reversed(odd) if x)  # of the highest power: the rest is exact
        shared = _sum([x / scale for x in odd], terms, number)
        if scale == 1:
            out[i], out[j] = even + shared, even - shared
        else:
            out[i] = even + shared * number(float(scale))
            out[j] = even + shared * number(float(-scale))
    return out


def _paired_columns(
    rows: list[list[Fraction]], terms: list[Any]
) -> tuple[list[list[Fraction]], list[Any]]:
    """The product with columns that differ in signs alone replaced by their sum and difference."""
    free = set(range(len(terms)))
    for a in range(len(terms)):
        for b in range(a + 1, len(terms)):
            alike = [(row[a], row[b]) for row in rows]
            if a not in free or b not in free or any(abs(x) != abs(y) for x, y in alike):
                continue
            if all(x == y for x, y in alike) or all(x == -y for x, y in alike):
                continue
            free -= {a, b}
            terms[a], terms[b] = terms[a] + terms[b], terms[a] - terms[b]
            for row, (x, y) in zip(rows, alike):
                row[a], row[b] = (x, Fraction(0)) if x == y else (Fraction(0), x)
    return rows, terms


def _mirrored(a: Sequence[Fraction], b: Sequence[Fraction]) -> bool:
    """True if two rows share some terms, and differ in the signs of the others."""
    if any(abs(x) != abs(y) for x, y in zip(a, b)):
        return False
    return any(x == y != 0 for x, y in zip(a, b)) and any(x == -y != 0 for x, y in zip(a, b))


def _sum(row: Sequence[Fraction], terms: Sequence[Any], number: Callable[[float], Any]) -> Any:
    """One row, begun with a term that needs no product, so that each further one is fused."""
    left = [(c, t) for c, t in zip(row, terms) if c]
    if not left:
        return number(0.0)
    left.sort(key=lambda pair: (pair[0] != 1, pair[0] != -1))
    coefficient, first = left[0]
    out = first if coefficient == 1 else first * number(float(coefficient))
    for coefficient, term in left[1:]:
        if abs(coefficient) == 1:
            out = out + term if coefficient == 1 else out - term
        else:
            out = out + term * number(float(coefficient))
    return out


def _from_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients, lowest first, of the polynomial with these roots and leading one."""
    out = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *out], [x * root for x in out]
        out = [a - b for a, b in zip(shifted, [*scaled, Fraction(0)])]
    return out
