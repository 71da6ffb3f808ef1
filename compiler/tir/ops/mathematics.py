"""The mathematical functions of te: intrinsics that a code generator knows by name.

An integer or bool argument becomes float32 first, but for the functions that round, which leave
integers as they are. Of two arguments, both get the common type. Constants are computed at once
where Python's ``math`` has the function and a finite result.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops.ops import (
    add,
    cast,
    compare,
    const,
    convert,
    is_number,
    maximum,
    minimum,
    multiply,
    negate,
    own_type,
    select,
    subtract,
)

#: what a constant becomes; a function that has no value for it raises ValueError or OverflowError
_FOLD: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "exp10": lambda x: 10.0**x,
    "expm1": math.expm1,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "log1p": math.log1p,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "erf": math.erf,
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "trunc": lambda x: float(math.trunc(x)),
    "nearbyint": lambda x: float(builtins.round(x)),
    "fabs": math.fabs,
    "pow": math.pow,
    "fmod": math.fmod,
    "atan2": math.atan2,
    "hypot": math.hypot,
}


def _as_float(x: Any) -> e.PrimExpr:
    x = convert(x)
    return x if dt.is_float(x.dtype) else cast("float32", x)


def call(op: str, *args: Any) -> e.PrimExpr:
    """The float intrinsic ``op`` of its arguments, in their common type.

    Raises:
        ArgumentError: an argument is no number.
    """
    given = [convert(a) for a in args]
    for x in given:
        if isinstance(x, e.StringImm) or x.dtype == "handle":
            raise ArgumentError(f"{op} of {x.dtype}", "it is a function of numbers")
    kind = _common(op, args, given)
    parts = tuple(cast(kind, x) for x in given)
    folded = _folded(op, kind, parts)
    return e.Call(kind, op, parts) if folded is None else folded


def _common(op: str, args: tuple[Any, ...], given: list[e.PrimExpr]) -> str:
    """The type of a call; numbers take the type of what they meet, if it is one of floats."""
    typed = [x.dtype for a, x in zip(args, given) if not is_number(a)]
    kind = typed[0] if typed else given[0].dtype
    for other in typed[1:] if typed else [x.dtype for x in given]:
        kind = dt.promote(kind, other)
    if not dt.is_float(kind):
        for number in filter(is_number, args):
            kind = dt.promote(kind, own_type(number))
    return kind if dt.is_float(kind) else dt.vector("float32", dt.lanes(kind))


def _folded(op: str, kind: str, parts: tuple[e.PrimExpr, ...]) -> e.PrimExpr | None:
    if op not in _FOLD or kind not in ("float32", "float64"):
        return None
    numbers = [x.value for x in parts if isinstance(x, e.FloatImm)]
    if len(numbers) != len(parts):
        return None
    try:
        value = _FOLD[op](*numbers)
    except (ArithmeticError, ValueError):
        return None
    # a result that is no ordinary number is left to the target
    ordinary = isinstance(value, float) and 1e-30 < math.fabs(value) < 1e30
    return e.FloatImm(kind, value) if ordinary else None


def _unary(op: str, text: str) -> Callable[[Any], e.PrimExpr]:
    def build(x: Any) -> e.PrimExpr:
        return call(op, x)

    return _named(build, op, text)


def _rounding(op: str, text: str) -> Callable[[Any], e.PrimExpr]:
    def build(x: Any) -> e.PrimExpr:
        x = convert(x)
        return call(op, x) if dt.is_float(x.dtype) else x

    return _named(build, op, text + " Integers stay as they are.")


def _binary(op: str, text: str) -> Callable[[Any, Any], e.PrimExpr]:
    def build(x: Any, y: Any) -> e.PrimExpr:
        return call(op, x, y)

    return _named(build, op, text)


def _named(build: Callable, name: str, text: str) -> Callable:
    build.__name__ = name
    build.__qualname__ = name
    build.__doc__ = text
    return build


exp = _unary("exp", "e to the power of x.")
exp2 = _unary("exp2", "2 to the power of x.")
exp10 = _unary("exp10", "10 to the power of x.")
expm1 = _unary("expm1", "e to the power of x, minus 1.")
log = _unary("log", "Natural logarithm.")
log2 = _unary("log2", "Logarithm to base 2.")
log10 = _unary("log10", "Logarithm to base 10.")
log1p = _unary("log1p", "Natural logarithm of 1 + x.")
sqrt = _unary("sqrt", "Square root.")
rsqrt = _unary("rsqrt", "``1 / sqrt(x)``.")
sin = _unary("sin", "Sine.")
cos = _unary("cos", "Cosine.")
tan = _unary("tan", "Tangent.")
sinh = _unary("sinh", "Hyperbolic sine.")
cosh = _unary("cosh", "Hyperbolic cosine.")
tanh = _unary("tanh", "Hyperbolic tangent.")
asin = _unary("asin", "Inverse sine.")
acos = _unary("acos", "Inverse cosine.")
atan = _unary("atan", "Inverse tangent.")
asinh = _unary("asinh", "Inverse hyperbolic sine.")
acosh = _unary("acosh", "Inverse hyperbolic cosine.")
atanh = _unary("atanh", "Inverse hyperbolic tangent.")
erf = _unary("erf", "The error function.")
sigmoid = _unary("sigmoid", "``1 / (1 + exp(-x))``.")
floor = _rounding("floor", "Rounded down.")
ceil = _rounding("ceil", "Rounded up.")
trunc = _rounding("trunc", "Rounded towards zero.")
round = _rounding("round", "Rounded to the nearest integer, halves away from zero.")
nearbyint = _rounding("nearbyint", "Rounded to the nearest integer, halves to even.")
fmod = _binary("fmod", "The floating-point remainder, with the sign of ``x``.")
atan2 = _binary("atan2", "The angle of the point (y, x): inverse tangent of ``x1 / x2``.")
hypot = _binary("hypot", "``sqrt(x**2 + y**2)``, which does not overflow on the way.")
copysign = _binary("copysign", "``x`` with the sign of ``y``.")
nextafter = _binary("nextafter", "The next number after ``x`` towards ``y``.")


def ldexp(x: Any, n: Any) -> e.PrimExpr:
    """``x * 2**n`` for an integer ``n``."""
    x = _as_float(x)
    return e.Call(x.dtype, "ldexp", (x, cast(dt.vector("int32", dt.lanes(x.dtype)), n)))


def power(x: Any, y: Any) -> e.PrimExpr:
    """``x`` to the power of ``y``; NaN for a negative ``x`` unless ``y`` is a whole number."""
    exponent = y.value if isinstance(y, (e.FloatImm, e.IntImm)) else y
    if isinstance(exponent, (int, float)) and not isinstance(x, (int, float)):
        base = _as_float(x)
        if exponent == 1:
            return base
        if exponent == 2:
            return multiply(base, base)  # what pow gives, too: both round once
    return call("pow", x, y)


def abs(x: Any) -> e.PrimExpr:
    """Absolute value; that of the smallest integer wraps."""
    x = convert(x)
    if dt.is_float(x.dtype):
        return call("fabs", x)
    if dt.is_uint(x.dtype) or dt.is_bool(x.dtype):
        return x
    return maximum(x, negate(x))


def isnan(x: Any) -> e.PrimExpr:
    """True where ``x`` is not a number; false for integers."""
    x = convert(x)
    return compare(e.NE, x, x) if dt.is_float(x.dtype) else _all_lanes(False, x)


def isinf(x: Any) -> e.PrimExpr:
    """True where ``x`` is infinite; false for integers."""
    x = convert(x)
    if not dt.is_float(x.dtype):
        return _all_lanes(False, x)
    return compare(e.EQ, abs(x), const(math.inf, x.dtype))


def logaddexp(x: Any, y: Any) -> e.PrimExpr:
    """``log(exp(x) + exp(y))``, which does not overflow."""
    kind = _common("logaddexp", (x, y), [convert(x), convert(y)])
    x, y = cast(kind, x), cast(kind, y)
    small, large = minimum(x, y), maximum(x, y)
    rest = log1p(exp(subtract(small, large)))  # NaN for two infinities of one sign
    same = compare(e.EQ, small, large)
    return add(large, select(same, const(math.log(2), kind), rest))


def isfinite(x: Any) -> e.PrimExpr:
    """True where ``x`` is neither infinite nor NaN; true for integers."""
    x = convert(x)
    if not dt.is_float(x.dtype):
        return _all_lanes(True, x)
    return compare(e.LT, abs(x), const(math.inf, x.dtype))


def _all_lanes(value: bool, x: e.PrimExpr) -> e.PrimExpr:
    return const(value, dt.vector("bool", dt.lanes(x.dtype)))


def popcount(x: Any) -> e.PrimExpr:
    """How many bits of an integer are 1, in its type.

    Raises:
        ArgumentError: ``x`` is no integer.
    """
    x = _integer("popcount", x)
    return e.Call(x.dtype, "popcount", (x,))


def clz(x: Any) -> e.PrimExpr:
    """How many leading bits of an integer are 0, as int32; all its bits for zero.

    Raises:
        ArgumentError: ``x`` is no integer.
    """
    x = _integer("clz", x)
    return e.Call(dt.vector("int32", dt.lanes(x.dtype)), "clz", (x,))


def _integer(op: str, x: Any) -> e.PrimExpr:
    x = convert(x)
    if not dt.is_int(x.dtype):
        raise ArgumentError(f"{op} of {x.dtype}", "it counts the bits of integers", "cast")
    return x
