"""Bits of integers, values read as another type, infinity and hints, under TVM's names."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.constants import wrapped
from whet.compiler.tir.expr import Call, IntImm, PrimExpr, is_int
from whet.compiler.tir.ops import ops
from whet.compiler.tir.ops.mathematics import documented

_BITS: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}


def bitwise(op: str, a: Any, b: Any) -> PrimExpr:
    """``bitwise_and``, ``bitwise_or``, ``bitwise_xor``, ``shift_left`` or ``shift_right``.

    Raises:
        ArgumentError: for floats.
    """
    x, y = ops.same_type(a, b)
    for z in (x, y):
        if dt.is_float(z.dtype):
            raise ArgumentError(
                f"{op} of {z.dtype}",
                "bits are those of integers or bools",
                "convert it: x.astype('int32')",
            )
    if op.startswith("shift") and isinstance(y, IntImm) and not 0 <= y.value < dt.bits(x.dtype):
        raise ArgumentError(
            f"{op} of a {x.dtype} by {y.value}", f"it has {dt.bits(x.dtype)} bits", "0 or more"
        )
    if dt.is_bool(x.dtype) and op in ("bitwise_and", "bitwise_or"):
        return ops.logical_and(x, y) if op == "bitwise_and" else ops.logical_or(x, y)
    if type(x) is IntImm and type(y) is IntImm and type(x.value) is type(y.value) is int:
        return IntImm(x.dtype, wrapped(_BITS[op](x.value, y.value), x.dtype))
    return x if op.startswith("shift") and is_int(y, 0) else Call(x.dtype, op, (x, y))


def _bitwise(op: str) -> Callable[..., PrimExpr]:
    def build(x: Any, y: Any, span: Any = None) -> PrimExpr:
        return bitwise(op, x, y)

    return documented(build, op)


bitwise_and = _bitwise("bitwise_and")
bitwise_or = _bitwise("bitwise_or")
bitwise_xor = _bitwise("bitwise_xor")
shift_left = _bitwise("shift_left")
shift_right = _bitwise("shift_right")


def bitwise_not(x: Any, span: Any = None) -> PrimExpr:
    """All bits flipped; the opposite of a bool."""
    x = ops.convert(x)
    if dt.is_bool(x.dtype):
        return ops.logical_not(x)
    ones = 2 ** dt.bits(x.dtype) - 1 if dt.is_uint(x.dtype) else -1
    return bitwise("bitwise_xor", x, ops.const(ones, x.dtype))


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
