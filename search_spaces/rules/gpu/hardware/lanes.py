"""Lanes: neighbours in memory that a thread reads or writes at once."""

from __future__ import annotations

from whet.compiler.tir import dtype as dt

MOST_BYTES = 16
"""Bytes that one instruction of a thread moves at most."""


def lanes_of(dtype: str, *multiples: int) -> int:
    """Elements that one instruction moves where runs begin at multiples of all these numbers.

    >>> lanes_of("float32", 128, 6), lanes_of("float16", 64)
    (2, 8)
    """
    lanes = MOST_BYTES // dt.itemsize(dtype)
    while lanes > 1 and any(n % lanes for n in multiples):
        lanes //= 2
    return lanes
