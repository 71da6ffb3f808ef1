"""The mathematical functions of te: intrinsics that a code generator knows by name.

An integer or bool argument becomes float32 first, but for the functions that round, which leave
integers as they are. Of two arguments, both get the common type. Constants are computed at once
where the table of operations has a function for it and the result is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import EQ, LT, NE, Call, FloatImm, IntImm, PrimExpr
from whet.compiler.tir.ops.ops import (
    add,
    call,
    cast,
    common_float,
    compare,
    const,
    convert,
    maximum,
    minimum,
    multiply,
    negate,
    select,
    subtract,
)
from whet.compiler.tir.ops.table import OPERATIONS

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clz", "copysign",
    "cos", "cosh", "erf", "exp", "exp10", "exp2", "expm1", "floor", "fmod", "hypot", "isfinite",
    "isinf", "isnan", "ldexp", "log", "log10", "log1p", "log2", "logaddexp", "nearbyint",
    "nextafter", "popcount", "power", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
]  # fmt: skip
"""The names that ``te`` and ``tir`` offer."""


def _unary(op: str) -> Callable[[Any], PrimExpr]:
    def build(x: Any) -> PrimExpr:
        return call(op, x)

    return documented(build, op)


def _rounding(op: str) -> Callable[[Any], PrimExpr]:
    def build(x: Any) -> PrimExpr:
        x = convert(x)
        return call(op, x) if dt.is_float(x.dtype) else x

    return documented(build, op)


def _binary(op: str) -> Callable[[Any, Any], PrimExpr]:
    def build(x: Any, y: Any) -> PrimExpr:
        return call(op, x, y)

    return documented(build, op)


def documented(build: Callable[..., PrimExpr], op: str) -> Callable[..., PrimExpr]:
    """The function with the name and the text of an intrinsic."""
    build.__name__ = build.__qualname__ = op
    build.__doc__ = OPERATIONS[op].text
    return build


exp = _unary("exp")
exp2 = _unary("exp2")
exp10 = _unary("exp10")
expm1 = _unary("expm1")
log = _unary("log")
log2 = _unary("log2")
log10 = _unary("log10")
log1p = _unary("log1p")
sqrt = _unary("sqrt")
rsqrt = _unary("rsqrt")
sin = _unary("sin")
cos = _unary("cos")
tan = _unary("tan")
sinh = _unary("sinh")
cosh = _unary("cosh")
tanh = _unary("tanh")
asin = _unary("asin")
acos = _unary("acos")
atan = _unary("atan")
asinh = _unary("asinh")
acosh = _unary("acosh")
atanh = _unary("atanh")
erf = _unary("erf")
sigmoid = _unary("sigmoid")
floor = _rounding("floor")
ceil = _rounding("ceil")
trunc = _rounding("trunc")
round = _rounding("round")
nearbyint = _rounding("nearbyint")
fmod = _binary("fmod")
atan2 = _binary("atan2")
hypot = _binary("hypot")
copysign = _binary("copysign")
nextafter = _binary("nextafter")


def _as_float(x: Any) -> PrimExpr:
    x = convert(x)
    return x if dt.is_float(x.dtype) else cast("float32", x)


def ldexp(x: Any, n: Any) -> PrimExpr:
    """``x * 2**n`` for an integer ``n``."""
    x = _as_float(x)
    return Call(x.dtype, "ldexp", (x, cast(dt.vector("int32", dt.lanes(x.dtype)), n)))


def power(x: Any, y: Any) -> PrimExpr:
    """``x`` to the power of ``y``; NaN for a negative ``x`` unless ``y`` is an integer."""
    exponent = y.value if isinstance(y, (FloatImm, IntImm)) else y
    if isinstance(exponent, (int, float)) and not isinstance(x, (int, float)):
        base = _as_float(x)
        if exponent == 1:
            return base
        if exponent == 2:
            return multiply(base, base)  # what pow gives, too: both round once
    return call("pow", x, y)


def abs(x: Any) -> PrimExpr:
    """Absolute value; that of the smallest integer wraps."""
    x = convert(x)
    if dt.is_float(x.dtype):
        return call("fabs", x)
    if dt.is_uint(x.dtype) or dt.is_bool(x.dtype):
        return x
    return maximum(x, negate(x))


def isnan(x: Any) -> PrimExpr:
    """True where ``x`` is not a number; false for integers."""
    x = convert(x)
    return compare(NE, x, x) if dt.is_float(x.dtype) else _all_lanes(False, x)


def isinf(x: Any) -> PrimExpr:
    """True where ``x`` is infinite; false for integers."""
    x = convert(x)
    if not dt.is_float(x.dtype):
        return _all_lanes(False, x)
    return compare(EQ, abs(x), const(math.inf, x.dtype))


def logaddexp(x: Any, y: Any) -> PrimExpr:
    """``log(exp(x) + exp(y))``, which does not overflow."""
    kind = common_float(x, y)
    x, y = cast(kind, x), cast(kind, y)
    small, large = minimum(x, y), maximum(x, y)
    rest = log1p(exp(subtract(small, large)))  # NaN for two infinities of one sign
    same = compare(EQ, small, large)
    return add(large, select(same, const(math.log(2), kind), rest))


def isfinite(x: Any) -> PrimExpr:
    """True where ``x`` is neither infinite nor NaN; true for integers."""
    x = convert(x)
    if not dt.is_float(x.dtype):
        return _all_lanes(True, x)
    return compare(LT, abs(x), const(math.inf, x.dtype))


def _all_lanes(value: bool, x: PrimExpr) -> PrimExpr:
    return const(value, dt.vector("bool", dt.lanes(x.dtype)))


def popcount(x: Any) -> PrimExpr:
    """How many bits of an integer are 1, in its type.

    Raises:
        ArgumentError: ``x`` is no integer.
    """
    x = _integer("popcount", x)
    return Call(x.dtype, "popcount", (x,))


def clz(x: Any) -> PrimExpr:
    """How many leading bits of an integer are 0, as int32; all its bits for zero.

    Raises:
        ArgumentError: ``x`` is no integer.
    """
    x = _integer("clz", x)
    return Call(dt.vector("int32", dt.lanes(x.dtype)), "clz", (x,))


def _integer(op: str, x: Any) -> PrimExpr:
    x = convert(x)
    if not dt.is_int(x.dtype):
        raise ArgumentError(f"{op} of {x.dtype}", "it counts the bits of integers", "cast")
    return x
