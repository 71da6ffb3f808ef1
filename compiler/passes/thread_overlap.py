"""Whether threads that sum, each by itself, would sum into the same elements.

``B[blockIdx.x + u]`` with ``u < 3`` is an element of three blocks. ``B[blockIdx.x * 3 + u]`` is one
block's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from whet.compiler.arith import Analyzer
from whet.compiler.tir import expr as e
from whet.compiler.tir.rewrite import variables

# Sums of digits are bits of a number: beyond so many, the larger digits are left out.
_MOST = 1 << 22

Digit = tuple[int, int | None, e.Var]


def overlapping(
    index: e.PrimExpr, spans: Mapping[e.Var, int | None], threads: Collection[e.Var]
) -> e.Var | None:
    """One of ``threads`` two values of which give the same index; None where none is found.

    Args:
        index: of an access.
        spans: how many values the variables of threads and loops have, where that is known.
        threads: those of them that are looked at.
    """
    digits: list[Digit] = []
    for atom, factor in Analyzer().affine(index).terms.values():
        if isinstance(atom, e.Var) and atom in spans:
            digits.append((abs(factor), spans[atom], atom))
        elif variables(atom) & spans.keys():
            return None
    digits.sort(key=lambda d: (d[0], _MOST if d[1] is None else d[1]))
    if _is_radix(digits):
        return None
    return next((d[2] for d in digits if d[2] in threads and _meets(d, digits)), None)


def _is_radix(digits: list[Digit]) -> bool:
    """Whether all numbers of these digits, the smallest first, are different."""
    reach: int | None = 0
    for factor, count, _ in digits:
        if reach is None or factor <= reach:
            return False
        reach = None if count is None else reach + factor * (count - 1)
    return True


def _meets(digit: Digit, digits: list[Digit]) -> bool:
    """Whether other digits can make up for another value of one."""
    factor, count, var = digit
    sums, reach = 1, 0  # bit k of sums: whether k is a sum of the others
    for f, n, other in digits:
        if other is var or n is None or n < 1:
            continue
        if reach + f * (n - 1) > _MOST:
            break
        have = 1
        while have < n:
            step = min(have, n - have)
            sums |= sums << f * step
            have += step
        reach += f * (n - 1)
    most = reach // factor if count is None else min(count - 1, reach // factor)
    return any(sums & (sums >> factor * d) for d in range(1, most + 1))
