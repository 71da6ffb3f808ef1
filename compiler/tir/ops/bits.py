"""Bits of integers, values read as another type, infinity and hints, under TVM's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import Call, PrimExpr
from whet.compiler.tir.ops import ops
from whet.compiler.tir.ops.mathematics import documented


def _bitwise(op: str) -> Callable[..., PrimExpr]:
    def build(x: Any, y: Any, span: Any = None) -> PrimExpr:
        return ops.bitwise(op, x, y)

    return documented(build, op)


bitwise_and = _bitwise("bitwise_and")
bitwise_or = _bitwise("bitwise_or")
bitwise_xor = _bitwise("bitwise_xor")
shift_left = _bitwise("shift_left")
shift_right = _bitwise("shift_right")


def bitwise_not(x: Any, span: Any = None) -> PrimExpr:
    """All bits of an integer flipped; the opposite of a bool."""
    return ops.bitwise_not(x)


def infinity(dtype: str, span: Any = None) -> PrimExpr:
    """Positive infinity of a type of floats.

    Raises:
        ArgumentError: for another type.
    """
    if not dt.is_float(dt.check(dtype)):
        raise ArgumentError(
            f"infinity({dtype!r})", "integers have no infinity", f"max_value({dtype!r})"
        )
    return ops.const(math.inf, dtype)


def reinterpret(dtype: str, value: Any, span: Any = None) -> PrimExpr:
    """The bits of ``value`` as a ``dtype`` of as many bits: of a vector as a whole.

    A scalar ``dtype`` of as many bits as one lane is that of each lane.

    Raises:
        ArgumentError: for another number of bits, and for bools and addresses.
    """
    x = ops.convert(value)
    kind = dt.check(dtype)
    have, want = (dt.bits(t) * dt.lanes(t) for t in (x.dtype, kind))
    if dt.lanes(kind) == 1 and have != want:  # each lane by itself
        kind = dt.vector(kind, dt.lanes(x.dtype))
        want = dt.bits(kind) * dt.lanes(kind)
    request = f"reinterpret({kind!r}, {x.dtype})"
    for t in (kind, x.dtype):
        if not dt.is_float(t) and (not dt.is_int(t) or dt.is_bool(t)):
            raise ArgumentError(request, f"{t} is no type of numbers", "x.astype(dtype) converts")
    if have != want:
        raise ArgumentError(
            request, f"{x.dtype} has {have} bits, {kind} has {want}", "x.astype(dtype) converts"
        )
    return x if x.dtype == kind else Call(kind, "reinterpret", (x,))


def likely(cond: Any, span: Any = None) -> PrimExpr:
    """``cond`` itself: guards of loops are known to hold nearly always without being told.

    Raises:
        ArgumentError: ``cond`` is no condition.
    """
    return ops.condition_of(cond, "likely")
