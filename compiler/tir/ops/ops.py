"""Making expressions: operators, with type promotion and constant folding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops.constants import (  # noqa: F401  (the limits are offered here, too)
    cast,
    const,
    convert,
    is_numpy_number,
    max_value,
    min_value,
    saturated,
    wrapped,
)


def _match(a: Any, b: Any) -> tuple[e.PrimExpr, e.PrimExpr]:
    """Both operands as expressions of one type; a number takes the other's type."""
    a_number, b_number = is_number(a), is_number(b)
    if a_number and not b_number:
        b = convert(b)
        return _same_type(_literal(a, b.dtype), b)
    if b_number and not a_number:
        a = convert(a)
        return _same_type(a, _literal(b, a.dtype))
    return _same_type(convert(a), convert(b))


def is_number(x: Any) -> bool:
    """Whether a value is Python's number or numpy's."""
    return isinstance(x, (int, float)) or is_numpy_number(x)


def own_type(number: Any) -> str:
    """The type of a number that meets what cannot hold it: numpy's, where it is the wider one."""
    if not is_numpy_number(number):
        return const(number).dtype
    return dt.promote(const(number).dtype, const(number.item()).dtype)


def _same_type(a: e.PrimExpr, b: e.PrimExpr) -> tuple[e.PrimExpr, e.PrimExpr]:
    if a.dtype == b.dtype and a.dtype != "handle":
        return a, b
    common = dt.promote(a.dtype, b.dtype)
    return cast(common, a), cast(common, b)


def _literal(given: Any, dtype: str) -> e.PrimExpr:
    """A number in the type of what it meets; one that this cannot hold keeps a type of its own."""
    value = given.item() if is_numpy_number(given) else given
    if isinstance(value, float) and not dt.is_float(dtype):
        return const(value, own_type(given))
    if isinstance(value, int) and dt.is_bool(dtype) and not isinstance(value, bool):
        return const(value, own_type(given))
    if dtype == "int32" and isinstance(value, int) and not -(2**31) <= value < 2**31:
        return const(value)  # int64: an index that needs it
    return const(value, dtype)


def _binary(node: type[e.BinaryOp], fold: Callable[[Any, Any], Any], a: Any, b: Any) -> e.PrimExpr:
    a, b = _match(a, b)
    if isinstance(a, e.IntImm) and isinstance(b, e.IntImm):
        return e.IntImm(a.dtype, wrapped(fold(a.value, b.value), a.dtype))
    if isinstance(a, e.FloatImm) and isinstance(b, e.FloatImm):
        return e.FloatImm(a.dtype, saturated(fold(a.value, b.value), a.dtype))
    if a.dtype == "bool" and node in _NUMBERS_ONLY:
        raise ArgumentError(
            f"bool {node.symbol} bool",
            "one bit does not hold the result",
            "convert one: x.astype('int32'); te.any and te.all combine conditions",
        )
    return node(a, b, a.dtype)


_NUMBERS_ONLY = (e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod)


def _is_int(x: e.PrimExpr, value: int) -> bool:
    return isinstance(x, e.IntImm) and x.value == value


def add(a: Any, b: Any) -> e.PrimExpr:
    """``a + b``."""
    out = _binary(e.Add, lambda x, y: x + y, a, b)
    if isinstance(out, e.Add):
        if _is_int(out.a, 0):
            return out.b
        if _is_int(out.b, 0):
            return out.a
    return out


def subtract(a: Any, b: Any) -> e.PrimExpr:
    """``a - b``."""
    out = _binary(e.Sub, lambda x, y: x - y, a, b)
    return out.a if isinstance(out, e.Sub) and _is_int(out.b, 0) else out


def multiply(a: Any, b: Any) -> e.PrimExpr:
    """``a * b``."""
    out = _binary(e.Mul, lambda x, y: x * y, a, b)
    if isinstance(out, e.Mul):
        for this, other in ((out.a, out.b), (out.b, out.a)):
            if _is_int(this, 1):
                return other
            if _is_int(this, 0):
                return this
    return out


def _check_divisor(name: str, b: Any) -> None:
    b = convert(b)
    if isinstance(b, e.IntImm) and b.value == 0:
        raise ArgumentError(
            f"{name}(..., 0)", "the divisor is zero", "divide by something else, or by 0.0"
        )


def divide(a: Any, b: Any) -> e.PrimExpr:
    """``a / b`` of floats; integers must say which division they mean.

    Raises:
        ArgumentError: for two integers.
    """
    x, y = _match(a, b)
    if not dt.is_float(x.dtype) and not dt.is_float(y.dtype):
        raise ArgumentError(
            f"{x.dtype} / {y.dtype}",
            "the division of two integers does not say how it rounds",
            "use // (rounds down), te.truncdiv, or convert one to a float",
        )
    return truncdiv(a, b)


def _truncated(x: int, y: int) -> int:
    q = x // y
    return q + 1 if q < 0 and q * y != x else q


def truncdiv(a: Any, b: Any) -> e.PrimExpr:
    """``a / b``, of integers rounded towards zero."""
    _check_divisor("truncdiv", b)

    def fold(x: Any, y: Any) -> Any:
        if isinstance(x, int):
            return _truncated(x, y)
        return x / y if y else math.copysign(math.inf, x) * math.copysign(1, y) if x else math.nan

    return _binary(e.Div, fold, a, b)


def div(a: Any, b: Any) -> e.PrimExpr:
    """``a / b`` as in C: of floats exact, of integers rounded towards zero."""
    return truncdiv(a, b)


def truncmod(a: Any, b: Any) -> e.PrimExpr:
    """The remainder of :func:`truncdiv`."""
    _check_divisor("truncmod", b)

    def fold(x: Any, y: Any) -> Any:
        if isinstance(x, int):
            return x - y * _truncated(x, y)
        return math.fmod(x, y) if y else math.nan

    return _binary(e.Mod, fold, a, b)


def floordiv(a: Any, b: Any) -> e.PrimExpr:
    """``a // b``, rounded down."""
    _check_divisor("floordiv", b)
    x, y = _match(a, b)
    if dt.is_float(x.dtype):
        from whet.compiler.tir.ops.mathematics import floor

        return floor(divide(x, y))
    out = _binary(e.FloorDiv, lambda p, q: p // q, x, y)
    return out.a if isinstance(out, e.FloorDiv) and _is_int(out.b, 1) else out


def floormod(a: Any, b: Any) -> e.PrimExpr:
    """``a % b``, with the sign of ``b``."""
    _check_divisor("floormod", b)
    x, y = _match(a, b)
    if dt.is_float(x.dtype):
        from whet.compiler.tir.ops.mathematics import floor

        return subtract(x, multiply(floor(divide(x, y)), y))
    out = _binary(e.FloorMod, lambda p, q: p % q, x, y)
    if isinstance(out, e.FloorMod) and _is_int(out.b, 1):
        return const(0, out.dtype)
    return out


def ceildiv(a: Any, b: Any) -> e.PrimExpr:
    """``a // b``, rounded up."""
    if isinstance(a, int) and isinstance(b, int):
        return const(-(-a // b))
    return floordiv(subtract(add(a, b), 1), b)


indexdiv, indexmod = floordiv, floormod


def negate(a: Any) -> e.PrimExpr:
    """``-a``."""
    a = convert(a)
    if isinstance(a, e.FloatImm):
        return e.FloatImm(a.dtype, -a.value)
    if dt.is_float(a.dtype):
        return multiply(a, const(-1.0, dt.element(a.dtype)))
    return subtract(const(0, a.dtype), a)


def minimum(a: Any, b: Any) -> e.PrimExpr:
    """The smaller of two."""
    return _binary(e.Min, min, a, b)


def maximum(a: Any, b: Any) -> e.PrimExpr:
    """The larger of two."""
    return _binary(e.Max, max, a, b)


_COMPARE: dict[type[e.CmpOp], Callable[[Any, Any], bool]] = {
    e.EQ: lambda x, y: x == y,
    e.NE: lambda x, y: x != y,
    e.LT: lambda x, y: x < y,
    e.LE: lambda x, y: x <= y,
    e.GT: lambda x, y: x > y,
    e.GE: lambda x, y: x >= y,
}


def compare(node: type[e.CmpOp], a: Any, b: Any) -> e.PrimExpr:
    """A comparison, e.g. ``compare(LT, a, b)``; bool."""
    x, y = _match(a, b)
    constants = (e.IntImm, e.FloatImm)
    if isinstance(x, constants) and isinstance(y, constants):
        return const(_COMPARE[node](x.value, y.value))
    return node(x, y, dt.vector("bool", dt.lanes(x.dtype)))


def logical_and(a: Any, b: Any) -> e.PrimExpr:
    """True where both are."""
    a, b = _condition(a, "all"), _condition(b, "all")
    for this, other in ((a, b), (b, a)):
        if isinstance(this, e.IntImm):
            return other if this.value else this
    return e.And(a, b, dt.vector("bool", max(dt.lanes(a.dtype), dt.lanes(b.dtype))))


def logical_or(a: Any, b: Any) -> e.PrimExpr:
    """True where either is."""
    a, b = _condition(a, "any"), _condition(b, "any")
    for this, other in ((a, b), (b, a)):
        if isinstance(this, e.IntImm):
            return this if this.value else other
    return e.Or(a, b, dt.vector("bool", max(dt.lanes(a.dtype), dt.lanes(b.dtype))))


def logical_not(a: Any) -> e.PrimExpr:
    """True where ``a`` is not."""
    a = _condition(a, "not")
    return const(not a.value) if isinstance(a, e.IntImm) else e.Not(a, a.dtype)


def _condition(c: Any, asked: str) -> e.PrimExpr:
    """``c`` as an expression, which must be a bool."""
    x = convert(c)
    if not dt.is_bool(x.dtype):
        raise ArgumentError(
            f"{asked}(...)",
            f"a condition is a {x.dtype}, not a bool",
            "compare it with something: x != 0",
        )
    return x


def all_of(*conditions: Any) -> e.PrimExpr:
    """True where all are; true for none."""
    out: e.PrimExpr = const(True)
    for c in conditions:
        out = logical_and(out, c)
    return out


def any_of(*conditions: Any) -> e.PrimExpr:
    """True where any is; false for none."""
    out: e.PrimExpr = const(False)
    for c in conditions:
        out = logical_or(out, c)
    return out


def select(condition: Any, true_value: Any, false_value: Any) -> e.PrimExpr:
    """One of two values, both evaluated; unsafe for reads that ``condition`` must guard.

    Raises:
        ArgumentError: for a condition that is no bool.
    """
    condition = _condition(condition, "select")
    t, f = _match(true_value, false_value)
    if isinstance(condition, e.IntImm):
        return t if condition.value else f
    return e.Select(condition, t, f, t.dtype)


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> e.PrimExpr:
    """One of two values, only that one evaluated: guards reads that would be out of range.

    Raises:
        ArgumentError: for a condition that is no bool.
    """
    condition = _condition(condition, "if_then_else")
    t, f = _match(true_value, false_value)
    if isinstance(condition, e.IntImm):
        return t if condition.value else f
    return e.Call(t.dtype, "if_then_else", (condition, t, f))


def bitwise(op: str, a: Any, b: Any) -> e.PrimExpr:
    """``bitwise_and``, ``bitwise_or``, ``bitwise_xor``, ``shift_left`` or ``shift_right``.

    Raises:
        ArgumentError: for floats.
    """
    x, y = _match(a, b)
    for z in (x, y):
        if dt.is_float(z.dtype):
            raise ArgumentError(
                f"{op} of {z.dtype}",
                "bits are those of integers or bools",
                "convert it: x.astype('int32')",
            )
    if op.startswith("shift") and isinstance(y, e.IntImm) and not 0 <= y.value < dt.bits(x.dtype):
        raise ArgumentError(
            f"{op} of a {x.dtype} by {y.value}", f"it has {dt.bits(x.dtype)} bits", "0 or more"
        )
    if dt.is_bool(x.dtype) and op in ("bitwise_and", "bitwise_or"):
        return logical_and(x, y) if op == "bitwise_and" else logical_or(x, y)
    return e.Call(x.dtype, op, (x, y))


def bitwise_not(a: Any) -> e.PrimExpr:
    """All bits flipped; the opposite of a bool."""
    a = convert(a)
    if dt.is_bool(a.dtype):
        return logical_not(a)
    ones = 2 ** dt.bits(a.dtype) - 1 if dt.is_uint(a.dtype) else -1
    return bitwise("bitwise_xor", a, const(ones, a.dtype))
