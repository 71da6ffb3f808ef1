"""Constants, and values made into expressions: const, convert, cast, the limits of types."""

from __future__ import annotations

import math
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.late_numpy import is_array, is_scalar
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    Broadcast,
    Cast,
    ExprOp,
    FloatImm,
    IntImm,
    IterVar,
    PrimExpr,
    StringImm,
)
from whet.compiler.tir.tracing.traced import TracedInt, whole

_FIRST, _LAST = -(2**31), 2**31 - 1


def const(value: int | float | bool, dtype: str | None = None) -> PrimExpr:
    """A constant; without ``dtype`` an int is int32 (int64 when it needs it), a float float32.

    A number of numpy's keeps its type: ``const(np.float64(0.1))`` is float64.

    Raises:
        ArgumentError: for a value that the type does not hold.
    """
    kind = type(value)
    if (kind is int or kind is TracedInt) and dtype in (None, "int32") and _FIRST <= value <= _LAST:
        return IntImm("int32", value)  # type: ignore[arg-type]  # nearly all there are
    if kind not in (int, float, bool):
        value, own = _python_number(value)
        dtype = own if dtype is None else dtype
    if dtype is None:
        if isinstance(value, bool):
            dtype = "bool"
        elif isinstance(value, int):
            dtype = "int32" if -(2**31) <= value < 2**31 else "int64"
        else:
            dtype = "float32"
    dtype = dt.check(dtype)
    name, lanes = dt.split(dtype)
    if dt.is_float(name):
        imm: PrimExpr = FloatImm(name, _float_value(value, name))
    elif name == "bool":
        imm = IntImm(name, int(bool(value)))
    else:
        imm = IntImm(name, _int_value(value, name))
    return imm if lanes == 1 else Broadcast(imm, lanes, dtype)


def is_numpy_number(value: Any) -> bool:
    """True if a value is a scalar of numpy's, or an array of its without dimensions."""
    return is_scalar(value) or (is_array(value) and value.ndim == 0)


def is_number(x: Any) -> bool:
    """True for a number of Python's or numpy's."""
    return isinstance(x, (int, float)) or is_numpy_number(x)


def _python_number(value: Any) -> tuple[int | float | bool, str | None]:
    """A constant of the IR or a number of numpy's as Python's, and the type that numpy gave it."""
    if isinstance(value, (IntImm, FloatImm)):
        return (bool(value.value) if value.dtype == "bool" else value.value), None
    own = None
    if is_numpy_number(value):
        value, own = value.item(), dt.check(value.dtype)
    elif not isinstance(value, ExprOp) and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, (int, float)):
        return value, own
    raise ArgumentError(
        f"const({value!r})", f"a {type(value).__name__} is no number", "an int, a float or a bool"
    )


def _int_value(value: int | float, name: str) -> int:
    low, high = dt.int_range(name)
    if isinstance(value, float):
        if not value.is_integer():
            raise ArgumentError(
                f"const({value}, {name!r})",
                f"{name} holds integers",
                "round it, or compute in float32: x.astype('float32')",
            )
        value = int(value)
    if not low <= value <= high:
        raise ArgumentError(
            f"const({value}, {name!r})",
            f"{name} holds {low} to {high}",
            "a wider type: const(value, 'int64'), x.astype('int32')",
        )
    return whole(value)


def _float_value(value: int | float, name: str) -> float:
    try:
        out = float(value)
    except OverflowError:
        out = math.inf
    if math.isinf(saturated(out, name)) and not (isinstance(value, float) and math.isinf(value)):
        raise ArgumentError(
            f"const({value}, {name!r})",
            f"{name} holds up to {_FLOAT_MAX[name]}",
            "float('inf'), te.max_value(dtype), or a wider type",
        )
    return out


def saturated(value: float, name: str) -> float:
    """A number that rounds to infinity in a type is infinity."""
    if abs(value) >= _FLOAT_LIMIT[name]:
        return math.copysign(math.inf, value)
    return value


def convert(value: Any) -> PrimExpr:
    """``value`` as an expression: numbers become constants, an axis its variable.

    Raises:
        ArgumentError: for anything else.
    """
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, (bool, int, float)) or is_scalar(value):
        return const(value)
    as_expr = getattr(value, "__whet_expr__", None)
    if as_expr is not None:
        return as_expr()
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return const(value.item(), str(value.dtype))  # an array of one number
    if isinstance(value, str):
        return StringImm(value)
    raise ArgumentError(
        f"use {value!r} in an expression",
        f"a {type(value).__name__} is neither a number, an expression nor an axis",
        "index a tensor, e.g. A[i, j], to use its elements",
    )


def cast(dtype: str, value: Any) -> PrimExpr:
    """``value`` converted to ``dtype``; constants are converted at once."""
    value = convert(value)
    dtype = dt.check(dtype)
    name, lanes = dt.split(dtype)
    if lanes == 1 and dt.lanes(value.dtype) > 1:
        dtype = dt.vector(name, dt.lanes(value.dtype))
    if value.dtype == dtype:
        return value
    if dt.lanes(dtype) > 1 and dt.lanes(value.dtype) == 1:
        return Broadcast(cast(name, value), dt.lanes(dtype), dtype)
    if isinstance(value, IntImm):
        return const(wrapped(value.value, dtype), dtype)
    if isinstance(value, FloatImm):
        if dt.is_float(dtype):
            return FloatImm(name, saturated(value.value, name))
        low, high = dt.int_range(name) if dt.is_int(name) else (0, -1)
        if math.isfinite(value.value) and low <= int(value.value) <= high:
            return IntImm(name, int(value.value))
    if value.dtype == "handle" or name == "handle":
        raise ArgumentError(
            f"cast a {value.dtype} to {dtype}", "a string or an address is no number"
        )
    return Cast(dtype, value)


def wrapped(value: int, dtype: str) -> int:
    """An integer as a type holds it, the bits that do not fit left out."""
    if not dt.is_int(dtype):
        return value
    bits = dt.bits(dtype)
    if 0 <= value < 1 << (bits - 1):
        return value
    value &= (1 << bits) - 1
    return value if dt.is_uint(dtype) or value < 1 << (bits - 1) else value - (1 << bits)


def _limits(dtype: str) -> tuple[int | float, int | float]:
    """The least and the greatest finite value of a type."""
    name = dt.element(dt.check(dtype))
    if dt.is_float(name):
        return -_FLOAT_MAX[name], _FLOAT_MAX[name]
    return (False, True) if dt.is_bool(name) else dt.int_range(name)


def min_value(dtype: str) -> PrimExpr:
    """The least value of a type: ``-inf`` is not it, the most negative finite number is."""
    return const(_limits(dtype)[0], dtype)


def max_value(dtype: str) -> PrimExpr:
    """The greatest finite value of a type."""
    return const(_limits(dtype)[1], dtype)


_FLOAT_MAX = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
#: from here on a number rounds to infinity
_FLOAT_LIMIT = {
    "float16": 65520.0,
    "bfloat16": (2 - 2**-8) * 2.0**127,
    "float32": (2 - 2**-24) * 2.0**127,
    "float64": math.inf,
}
