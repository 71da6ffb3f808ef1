"""Bits of integers, values read as another type, infinity and hints, under TVM's names."""

from __future__ import annotations

import math
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops


def bitwise_and(x: Any, y: Any, span: Any = None) -> e.PrimExpr:
    """The bits that both integers have; of bools, whether both are true."""
    return ops.bitwise("bitwise_and", x, y)


def bitwise_or(x: Any, y: Any, span: Any = None) -> e.PrimExpr:
    """The bits that either integer has; of bools, whether either is true."""
    return ops.bitwise("bitwise_or", x, y)


def bitwise_xor(x: Any, y: Any, span: Any = None) -> e.PrimExpr:
    """The bits in which two integers differ."""
    return ops.bitwise("bitwise_xor", x, y)


def bitwise_not(x: Any, span: Any = None) -> e.PrimExpr:
    """All bits of an integer flipped; the opposite of a bool."""
    return ops.bitwise_not(x)


def shift_left(x: Any, y: Any, span: Any = None) -> e.PrimExpr:
    """``x << y``, of integers."""
    return ops.bitwise("shift_left", x, y)


def shift_right(x: Any, y: Any, span: Any = None) -> e.PrimExpr:
    """``x >> y``, of integers; of those with a sign, the sign stays."""
    return ops.bitwise("shift_right", x, y)


def infinity(dtype: str, span: Any = None) -> e.PrimExpr:
    """Positive infinity of a type of floats.

    Raises:
        ArgumentError: for another type.
    """
    if not dt.is_float(dt.check(dtype)):
        raise ArgumentError(
            f"infinity({dtype!r})", "integers have no infinity", f"max_value({dtype!r})"
        )
    return ops.const(math.inf, dtype)


def reinterpret(dtype: str, value: Any, span: Any = None) -> e.PrimExpr:
    """The bits of ``value`` as a ``dtype`` of as many bits.

    Raises:
        ArgumentError: for another number of bits, and for bools and addresses.
    """
    x = ops.convert(value)
    kind = dt.check(dtype)
    if dt.lanes(kind) == 1:
        kind = dt.vector(kind, dt.lanes(x.dtype))
    asked = f"reinterpret({kind!r}, {x.dtype})"
    for t in (kind, x.dtype):
        if not dt.is_float(t) and (not dt.is_int(t) or dt.is_bool(t)):
            raise ArgumentError(asked, f"{t} is no type of numbers", "x.astype(dtype) converts")
    have, want = dt.bits(x.dtype), dt.bits(kind)
    if have != want or dt.lanes(x.dtype) != dt.lanes(kind):
        raise ArgumentError(
            asked, f"{x.dtype} has {have} bits, {kind} has {want}", "x.astype(dtype) converts"
        )
    return x if x.dtype == kind else e.Call(kind, "reinterpret", (x,))


def likely(cond: Any, span: Any = None) -> e.PrimExpr:
    """``cond`` itself: guards of loops are known to hold nearly always without being told.

    Raises:
        ArgumentError: ``cond`` is no condition.
    """
    return ops._condition(cond, "likely")
