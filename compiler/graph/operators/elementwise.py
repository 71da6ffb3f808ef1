"""Operators that compute each element from those at its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te, topi
from whet.compiler.te import Tensor, const
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.elementwise import each_element


def _each(name: str, change: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    return lambda x: each_element(x, change, f"T_{name}")


def _divide(a: Any, b: Any) -> Tensor:
    """The quotient; of integers the truncated one."""
    if dt.is_float(_dtype(a, b)):
        return topi.divide(a, b)
    return _both(a, b, te.truncdiv, "T_divide")


def _remainder(a: Any, b: Any, truncated: bool = False) -> Tensor:
    """The remainder of a division: of the divisor's sign, or of the dividend's if truncated."""
    if not truncated:
        return topi.floor_mod(a, b)
    of = te.fmod if dt.is_float(_dtype(a, b)) else te.truncmod
    return _both(a, b, of, "T_remainder")


def _both(a: Any, b: Any, combine: Callable[[Any, Any], Any], name: str) -> Tensor:
    """``combine`` of two operands' elements, broadcast."""
    given = [x for x in (a, b) if isinstance(x, Tensor)]
    shape: tuple[Any, ...] = ()
    for x in given:
        shape = topi.elementwise.broadcast_shape(shape, x.shape, name)
    at = topi.elementwise.at
    kind = _dtype(a, b)

    def element(*i: Any) -> Any:
        x, y = (at(t, i) if isinstance(t, Tensor) else const(t, kind) for t in (a, b))
        return combine(x, y)

    return te.compute(shape, element, name, topi.tag.BROADCAST)


def _dtype(*operands: Any) -> str:
    return next(str(x.dtype) for x in operands if hasattr(x, "dtype"))


def _clip(x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    """Each element within bounds; None: there is none on that side."""

    def within(one: Any) -> Any:
        one = one if low is None else te.max(one, const(low, x.dtype))
        return one if high is None else te.min(one, const(high, x.dtype))

    return each_element(x, within, "T_clip")


def _positive(change: Callable[[Any], Any], name: str) -> Callable[[Tensor], Tensor]:
    """Elements as they are where they are at least 0, else ``change`` of them."""
    return _each(name, lambda x: te.select(x >= 0, x, change(x)))


def _elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return _positive(lambda one: te.expm1(one) * const(alpha, x.dtype), "elu")(x)


def _celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    a = const(alpha, x.dtype)
    return _positive(lambda one: te.expm1(one / a) * a, "celu")(x)


def _selu(x: Tensor, alpha: float, gamma: float) -> Tensor:
    a, g = const(alpha, x.dtype), const(gamma, x.dtype)
    return each_element(x, lambda v: te.select(v > 0, v, a * te.expm1(v)) * g, "T_selu")


def softplus_of(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    return te.max(x, const(0, x.dtype)) + te.log1p(te.exp(-te.abs(x)))


def _hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return each_element(x, lambda v: _hard(v, alpha, beta), "T_hard_sigmoid")


def _hard(v: Any, alpha: float, beta: float) -> Any:
    line = v * const(alpha, v.dtype) + const(beta, v.dtype)
    return te.max(te.min(line, const(1, v.dtype)), const(0, v.dtype))


def _hard_swish(x: Tensor) -> Tensor:
    return each_element(x, lambda v: v * _hard(v, 1 / 6, 0.5), "T_hard_swish")


def _swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    return each_element(x, lambda v: v * te.sigmoid(v * const(alpha, v.dtype)), "T_swish")


def _threshold(x: Tensor, alpha: float = 1.0) -> Tensor:
    zero = const(0, x.dtype)
    return each_element(
        x, lambda v: te.select(v > const(alpha, v.dtype), v, zero), "T_thresholded_relu"
    )


def _shrink(x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    low, zero, by = const(lambd, x.dtype), const(0, x.dtype), const(bias, x.dtype)

    def element(v: Any) -> Any:
        return te.select(v < -low, v + by, te.select(v > low, v - by, zero))

    return each_element(x, element, "T_shrink")


def _isinf(x: Tensor, negative: bool = True, positive: bool = True) -> Tensor:
    def element(v: Any) -> Any:
        sides = [v > const(0, x.dtype)] * positive + [v < const(0, x.dtype)] * negative
        if not sides:
            return const(False, "bool")
        return te.all(te.isinf(v), te.any(*sides) if len(sides) > 1 else sides[0])

    return each_element(x, element, "T_isinf")


def _tree(combine: Callable[[Any, Any], Any]) -> Callable[..., Tensor]:
    """An operator of any number of operands."""

    def operator(*operands: Any) -> Tensor:
        total = operands[0]
        for x in operands[1:]:
            total = combine(total, x)
        return topi.identity(total) if len(operands) == 1 else total

    return operator


_MATH = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "expm1", "log1p", "sinh",
)  # fmt: skip
_UNARY = (
    "abs", "bitwise_not", "ceil", "cos", "erf", "exp", "floor", "identity", "isnan", "log",
    "logical_not", "negative", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_BINARY = (
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "greater", "greater_equal",
    "left_shift", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "multiply",
    "not_equal", "power", "right_shift", "subtract",
)  # fmt: skip

OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(topi, name) for name in (*_UNARY, *_BINARY)},
    **{name: _each(name, getattr(te, name)) for name in _MATH},
    "cast": lambda x, dtype: topi.cast(x, dtype),
    "celu": _celu,
    "clip": _clip,
    "divide": _divide,
    "elu": _elu,
    "gelu": topi.nn.gelu,
    "gelu_tanh": topi.nn.gelu_tanh,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "isinf": _isinf,
    "leaky_relu": lambda x, alpha=0.01: topi.nn.leaky_relu(x, alpha),
    "maximum": _tree(topi.maximum),
    "minimum": _tree(topi.minimum),
    "mish": _each("mish", lambda x: x * te.tanh(softplus_of(x))),
    "prelu": lambda x, slope: topi.where(
        topi.less(x, const(0, x.dtype)), topi.multiply(x, slope), x
    ),
    "relu": topi.nn.relu,
    "remainder": _remainder,
    "round": _each("round", te.nearbyint),
    "selu": _selu,
    "shrink": _shrink,
    "softplus": _each("softplus", softplus_of),
    "softsign": _each("softsign", lambda x: x / (const(1, x.dtype) + te.abs(x))),
    "sum_of": _tree(topi.add),
    "swish": _swish,
    "thresholded_relu": _threshold,
    "where": topi.where,
}
"""Name -> function."""
