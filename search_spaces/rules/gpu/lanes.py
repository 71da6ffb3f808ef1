"""How many neighbours in memory a thread reads or writes at once."""

from __future__ import annotations

from whet.compiler.tir import dtype as dt
from whet.compiler.topi.halves import summed_in
from whet.search_spaces.operators.cpu.arguments import BYTES

MOST_BYTES = 16
"""What one instruction of a thread moves at most."""


def lanes_of(dtype: str, *multiples: int) -> int:
    """Elements that one instruction moves where runs begin at multiples of all these numbers.

    >>> lanes_of("float32", 128, 6), lanes_of("float16", 64)
    (2, 8)
    """
    lanes = MOST_BYTES // dt.itemsize(dtype)
    while lanes > 1 and any(n % lanes for n in multiples):
        lanes //= 2
    return lanes


def of_products(dtype: str) -> tuple[str, str]:
    """The types that sums of products of a stored type are kept in, and stored in.

    >>> of_products("float16"), of_products("int8")
    (('float32', 'float16'), ('int32', 'int32'))
    """
    return ("int32", "int32") if dtype in BYTES else (summed_in(dtype), dtype)
