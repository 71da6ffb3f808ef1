"""Numbers of mixed radix: sums of ``factor * digit`` in which no two spellings are equal."""

from __future__ import annotations

from collections.abc import Iterable


def is_mixed_radix(digits: Iterable[tuple[int, int | None]]) -> bool:
    """True if all sums of digits differ.

    Args:
        digits: for each, its positive factor and how many values it has from 0 on; None: unknown.
    """
    reach: int | None = 0
    for factor, count in sorted(digits, key=lambda d: (d[0], d[1] is None)):
        if reach is None or factor <= reach:
            return False
        reach = None if count is None else reach + factor * (count - 1)
    return True
