"""Making expressions: operators and calls of functions, with promotion of types and folding."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from functools import reduce
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.constants import (
    cast,
    const,
    convert,
    is_number,
    is_numpy_number,
    max_value,
    min_value,
    saturated,
    wrapped,
)
from whet.compiler.tir.ops.table import operation

__all__ = [
    "add", "all_of", "any_of", "cast", "ceildiv", "const", "div", "floordiv", "floormod",
    "if_then_else", "indexdiv", "indexmod", "max_value", "min_value", "multiply", "subtract",
    "truncdiv", "truncmod",
]  # fmt: skip
"""The names that ``te`` and ``tir`` offer."""


def same_type(a: Any, b: Any) -> tuple[e.PrimExpr, e.PrimExpr]:
    """Both operands as expressions of one type; a number takes the other's type."""
    a_number, b_number = is_number(a), is_number(b)
    if a_number and not b_number:
        b = convert(b)
        a = _literal(a, b.dtype)
    elif b_number and not a_number:
        a = convert(a)
        b = _literal(b, a.dtype)
    else:
        a, b = convert(a), convert(b)
    if a.dtype == b.dtype and a.dtype != "handle":
        return a, b
    kind = dt.promote(a.dtype, b.dtype)
    return cast(kind, a), cast(kind, b)


def own_type(number: Any) -> str:
    """The type of a number that meets what cannot hold it: numpy's, where it is the wider one."""
    if not is_numpy_number(number):
        return const(number).dtype
    return dt.promote(const(number).dtype, const(number.item()).dtype)


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


def _truncated(x: int, y: int) -> int:
    q = x // y
    return q + 1 if q < 0 and q * y != x else q


def _quotient(x: Any, y: Any) -> Any:
    if isinstance(x, int):
        return _truncated(x, y)
    return x / y if y else math.copysign(math.inf, x) * math.copysign(1, y) if x else math.nan


def _remainder(x: Any, y: Any) -> Any:
    if isinstance(x, int):
        return x - y * _truncated(x, y)
    return math.fmod(x, y) if y else math.nan


#: the value of a binary node of constants
FOLD: dict[type[e.BinaryOp], Callable[[Any, Any], Any]] = {
    e.Add: operator.add,
    e.Sub: operator.sub,
    e.Mul: operator.mul,
    e.Div: _quotient,
    e.Mod: _remainder,
    e.FloorDiv: operator.floordiv,
    e.FloorMod: operator.mod,
    e.Min: min,
    e.Max: max,
    e.EQ: operator.eq,
    e.NE: operator.ne,
    e.LT: operator.lt,
    e.LE: operator.le,
    e.GT: operator.gt,
    e.GE: operator.ge,
}
_NUMBERS_ONLY = (e.Add, e.Sub, e.Mul, *e.DIVISIONS)


def _binary(node: type[e.BinaryOp], a: Any, b: Any) -> e.PrimExpr:
    a, b = same_type(a, b)
    if type(a) is e.IntImm and type(b) is e.IntImm:
        return e.IntImm(a.dtype, wrapped(FOLD[node](a.value, b.value), a.dtype))
    if type(a) is e.FloatImm and type(b) is e.FloatImm:
        return e.FloatImm(a.dtype, saturated(FOLD[node](a.value, b.value), a.dtype))
    if a.dtype == "bool" and node in _NUMBERS_ONLY:
        raise ArgumentError(
            f"bool {node.symbol} bool",
            "one bit does not hold the result",
            "convert one: x.astype('int32'); te.any and te.all combine conditions",
        )
    return node(a, b, a.dtype)


def call(op: str, *args: Any) -> e.PrimExpr:
    """The float intrinsic ``op`` of its arguments, in their common type.

    Raises:
        ArgumentError: an argument is no number.
    """
    given = [convert(a) for a in args]
    for x in given:
        if isinstance(x, e.StringImm) or x.dtype == "handle":
            raise ArgumentError(f"{op} of {x.dtype}", "it is a function of numbers")
    kind = common_float(*args)
    parts = tuple(cast(kind, x) for x in given)
    folded = _folded(op, kind, parts)
    return e.Call(kind, op, parts) if folded is None else folded


def common_float(*args: Any) -> str:
    """The type of a function of floats; numbers take the type that they meet, if it is one."""
    given = [convert(a) for a in args]
    typed = [x.dtype for a, x in zip(args, given) if not is_number(a)]
    kind = typed[0] if typed else given[0].dtype
    for other in typed[1:] if typed else [x.dtype for x in given]:
        kind = dt.promote(kind, other)
    if not dt.is_float(kind):
        for number in filter(is_number, args):
            kind = dt.promote(kind, own_type(number))
    return kind if dt.is_float(kind) else dt.vector("float32", dt.lanes(kind))


_FORMATS = {"float16": "e", "float32": "f", "float64": "d"}


def _folded(op: str, kind: str, parts: tuple[e.PrimExpr, ...]) -> e.PrimExpr | None:
    fold = operation(op).fold
    if fold is None or (kind not in ("float32", "float64") and not operation(op).exact):
        return None
    numbers = [x.value for x in parts if isinstance(x, e.FloatImm)]
    if len(numbers) != len(parts):
        return None
    if operation(op).exact:  # of the number that the type holds: 0.99999999 is 1 in float32
        if kind not in _FORMATS or not all(map(math.isfinite, numbers)):
            return None
        numbers = [
            struct.unpack(_FORMATS[kind], struct.pack(_FORMATS[kind], x))[0] for x in numbers
        ]
    try:
        value = fold(*numbers)
    except (ArithmeticError, ValueError):
        return None
    # a result that is no ordinary number is left to the target
    ordinary = isinstance(value, float) and 1e-30 < math.fabs(value) < 1e30
    exact = operation(op).exact and math.isfinite(value)
    return e.FloatImm(kind, value) if ordinary or exact else None


def add(a: Any, b: Any) -> e.PrimExpr:
    """``a + b``."""
    out = _binary(e.Add, a, b)
    if isinstance(out, e.Add):
        if e.is_int(out.a, 0):
            return out.b
        if e.is_int(out.b, 0):
            return out.a
    return out


def subtract(a: Any, b: Any) -> e.PrimExpr:
    """``a - b``."""
    out = _binary(e.Sub, a, b)
    return out.a if isinstance(out, e.Sub) and e.is_int(out.b, 0) else out


def multiply(a: Any, b: Any) -> e.PrimExpr:
    """``a * b``."""
    out = _binary(e.Mul, a, b)
    if isinstance(out, e.Mul):
        for this, other in ((out.a, out.b), (out.b, out.a)):
            if e.is_int(this, 1):
                return other
            if e.is_int(this, 0):
                return this
    return out


def _check_divisor(name: str, b: Any) -> None:
    b = convert(b)
    if e.is_int(b, 0):
        raise ArgumentError(
            f"{name}(..., 0)", "the divisor is zero", "divide by something else, or by 0.0"
        )


def divide(a: Any, b: Any) -> e.PrimExpr:
    """``a / b`` of floats; integers must say which division they mean.

    Raises:
        ArgumentError: for two integers.
    """
    x, y = same_type(a, b)
    if not dt.is_float(x.dtype) and not dt.is_float(y.dtype):
        raise ArgumentError(
            f"{x.dtype} / {y.dtype}",
            "the division of two integers does not say how it rounds",
            "use // (rounds down), te.truncdiv, or convert one to a float",
        )
    return truncdiv(a, b)


def truncdiv(a: Any, b: Any) -> e.PrimExpr:
    """``a / b`` as in C: of floats exact, of integers rounded towards zero."""
    _check_divisor("truncdiv", b)
    out = _binary(e.Div, a, b)
    return out.a if isinstance(out, e.Div) and e.is_int(out.b, 1) else out


div = truncdiv


def truncmod(a: Any, b: Any) -> e.PrimExpr:
    """The remainder of :func:`truncdiv`."""
    _check_divisor("truncmod", b)
    out = _binary(e.Mod, a, b)
    by_one = isinstance(out, e.Mod) and e.is_int(out.b, 1)
    return const(0, out.dtype) if by_one else out


def floordiv(a: Any, b: Any) -> e.PrimExpr:
    """``a // b``, rounded down."""
    _check_divisor("floordiv", b)
    x, y = same_type(a, b)
    if dt.is_float(x.dtype):
        return call("floor", divide(x, y))
    out = _binary(e.FloorDiv, x, y)
    return out.a if isinstance(out, e.FloorDiv) and e.is_int(out.b, 1) else out


def floormod(a: Any, b: Any) -> e.PrimExpr:
    """``a % b``, with the sign of ``b``."""
    _check_divisor("floormod", b)
    x, y = same_type(a, b)
    if dt.is_float(x.dtype):
        return subtract(x, multiply(call("floor", divide(x, y)), y))
    out = _binary(e.FloorMod, x, y)
    by_one = isinstance(out, e.FloorMod) and e.is_int(out.b, 1)
    return const(0, out.dtype) if by_one else out


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
    return a if a is b and isinstance(a, e.PrimExpr) else _binary(e.Min, a, b)


def maximum(a: Any, b: Any) -> e.PrimExpr:
    """The larger of two."""
    return a if a is b and isinstance(a, e.PrimExpr) else _binary(e.Max, a, b)


def compare(node: type[e.CmpOp], a: Any, b: Any) -> e.PrimExpr:
    """A comparison, e.g. ``compare(LT, a, b)``; bool."""
    x, y = same_type(a, b)
    if isinstance(x, (e.IntImm, e.FloatImm)) and isinstance(y, (e.IntImm, e.FloatImm)):
        return const(FOLD[node](x.value, y.value))
    return node(x, y, dt.vector("bool", dt.lanes(x.dtype)))


def logical_and(a: Any, b: Any) -> e.PrimExpr:
    """True where both are."""
    return _logical(e.And, "all", a, b)


def logical_or(a: Any, b: Any) -> e.PrimExpr:
    """True where either is."""
    return _logical(e.Or, "any", a, b)


def _logical(node: type[e.BinaryOp], request: str, a: Any, b: Any) -> e.PrimExpr:
    a, b = condition_of(a, request), condition_of(b, request)
    for this, other in ((a, b), (b, a)):
        if isinstance(this, e.IntImm):  # true leaves the other of `and`, false that of `or`
            return other if bool(this.value) is (node is e.And) else this
    return node(a, b, dt.vector("bool", max(dt.lanes(a.dtype), dt.lanes(b.dtype))))


def logical_not(a: Any) -> e.PrimExpr:
    """True where ``a`` is not."""
    a = condition_of(a, "not")
    return const(not a.value) if isinstance(a, e.IntImm) else e.Not(a, a.dtype)


def condition_of(c: Any, request: str) -> e.PrimExpr:
    """``c`` as an expression, which must be a bool."""
    x = convert(c)
    if not dt.is_bool(x.dtype):
        raise ArgumentError(
            f"{request}(...)",
            f"a condition is a {x.dtype}, not a bool",
            "compare it with something: x != 0",
        )
    return x


def all_of(*conditions: Any) -> e.PrimExpr:
    """True where all are; true for none."""
    return reduce(logical_and, conditions, const(True))


def any_of(*conditions: Any) -> e.PrimExpr:
    """True where any is; false for none."""
    return reduce(logical_or, conditions, const(False))


def select(condition: Any, true_value: Any, false_value: Any) -> e.PrimExpr:
    """One of two values, both evaluated; unsafe for reads that ``condition`` must guard.

    Raises:
        ArgumentError: for a condition that is no bool.
    """
    c, t, f = _choice("select", condition, true_value, false_value)
    known = e.int_value(c)
    return e.Select(c, t, f, t.dtype) if known is None else t if known else f


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> e.PrimExpr:
    """One of two values, only that one evaluated: guards reads that would be out of range.

    Raises:
        ArgumentError: for a condition that is no bool.
    """
    c, t, f = args = _choice("if_then_else", condition, true_value, false_value)
    known = e.int_value(c)
    return e.Call(t.dtype, "if_then_else", args) if known is None else t if known else f


def _choice(op: str, c: Any, t: Any, f: Any) -> tuple[e.PrimExpr, e.PrimExpr, e.PrimExpr]:
    return condition_of(c, op), *same_type(t, f)
