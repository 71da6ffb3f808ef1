"""The mathematical functions of te: intrinsics that a code generator knows by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import add, cast, compare, const, convert, divide, negate, select


def call(op: str, *args: Any) -> e.PrimExpr:
    """The float intrinsic ``op`` of its arguments, whose type the first one gives."""
    first = convert(args[0])
    if not dt.is_float(first.dtype):
        first = cast("float32", first)
    rest = tuple(cast(first.dtype, a) for a in args[1:])
    return e.Call(first.dtype, op, (first, *rest))


def _unary(op: str, text: str) -> Callable[[Any], e.PrimExpr]:
    def build(x: Any) -> e.PrimExpr:
        return call(op, x)

    build.__name__ = op
    build.__qualname__ = op
    build.__doc__ = text
    return build


exp = _unary("exp", "e to the power of x.")
log = _unary("log", "Natural logarithm.")
log2 = _unary("log2", "Logarithm to base 2.")
log10 = _unary("log10", "Logarithm to base 10.")
sqrt = _unary("sqrt", "Square root.")
sin = _unary("sin", "Sine.")
cos = _unary("cos", "Cosine.")
tan = _unary("tan", "Tangent.")
sinh = _unary("sinh", "Hyperbolic sine.")
cosh = _unary("cosh", "Hyperbolic cosine.")
tanh = _unary("tanh", "Hyperbolic tangent.")
asin = _unary("asin", "Inverse sine.")
acos = _unary("acos", "Inverse cosine.")
atan = _unary("atan", "Inverse tangent.")
erf = _unary("erf", "The error function.")
ceil = _unary("ceil", "Rounded up.")
trunc = _unary("trunc", "Rounded towards zero.")
round = _unary("round", "Rounded to the nearest integer, halves to even.")
nearbyint = round


def floor(x: Any) -> e.PrimExpr:
    """Rounded down; integers stay as they are."""
    x = convert(x)
    return x if dt.is_int(x.dtype) else call("floor", x)


def abs(x: Any) -> e.PrimExpr:
    """Absolute value."""
    x = convert(x)
    if dt.is_float(x.dtype):
        return call("fabs", x)
    if dt.is_uint(x.dtype):
        return x
    return select(compare(e.LT, x, 0), negate(x), x)


def rsqrt(x: Any) -> e.PrimExpr:
    """``1 / sqrt(x)``."""
    root = sqrt(x)
    return divide(const(1.0, dt.element(root.dtype)), root)


def sigmoid(x: Any) -> e.PrimExpr:
    """``1 / (1 + exp(-x))``."""
    grown = exp(negate(cast("float32", x) if not dt.is_float(convert(x).dtype) else x))
    one = const(1.0, dt.element(grown.dtype))
    return divide(one, add(one, grown))


def power(x: Any, y: Any) -> e.PrimExpr:
    """``x`` to the power of ``y``."""
    return call("pow", x, y)


def fmod(x: Any, y: Any) -> e.PrimExpr:
    """The floating-point remainder, with the sign of ``x``."""
    return call("fmod", x, y)


def isnan(x: Any) -> e.PrimExpr:
    """True where ``x`` is not a number."""
    x = convert(x)
    return compare(e.NE, x, x) if dt.is_float(x.dtype) else const(False)
