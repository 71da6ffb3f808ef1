"""Constants of the loop IR as numbers, and numbers as the types of constants hold them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from whet.compiler.tir.expr import BinaryOp, Broadcast, FloatImm, IntImm, PrimExpr


def constant(n: PrimExpr) -> int | None:
    """The number that an integer is in all lanes, if it is one."""
    if isinstance(n, Broadcast):
        n = n.value
    return n.value if isinstance(n, IntImm) else None


def count_of(shape: Sequence[PrimExpr]) -> int | None:
    """The number of elements of a shape, if all its extents are numbers."""
    extents = [constant(d) for d in shape]
    return None if None in extents else math.prod(d for d in extents if d is not None)


def rounded(value: float, dtype: str) -> float:
    """``value`` as the nearest of a float type's numbers; infinity where it is too large."""
    if not math.isfinite(value) or dtype == "float64":
        return value
    try:
        if dtype == "float16":
            return struct.unpack("e", struct.pack("e", value))[0]
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    if dtype == "float32":
        return single
    bits = struct.unpack("I", struct.pack("f", single))[0]
    if single != value:  # rounded to odd, so that the second rounding decides alone
        bits = (bits - (abs(single) > abs(value))) | 1
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("f", struct.pack("I", bits))[0]


def limit_first(n: BinaryOp) -> tuple[PrimExpr, PrimExpr]:
    """The operands of a minimum or a maximum, a constant float in front.

    The second operand is the result where one of them is NaN, as of the processor's instruction:
    ``max(x, 0)`` of NaN is NaN, at no cost.
    """
    b = n.b.value if isinstance(n.b, Broadcast) else n.b
    return (n.b, n.a) if isinstance(b, FloatImm) else (n.a, n.b)
