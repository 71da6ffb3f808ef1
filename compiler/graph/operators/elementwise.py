"""Operators that compute each element from those at its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te, topi
from whet.compiler.te import Tensor, const
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.bits import reinterpret
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


def _isinf(x: Tensor, negative: bool = True, positive: bool = True) -> Tensor:
    def element(v: Any) -> Any:
        sides = [v > const(0, x.dtype)] * positive + [v < const(0, x.dtype)] * negative
        if not sides:
            return const(False, "bool")
        return te.all(te.isinf(v), te.any(*sides) if len(sides) > 1 else sides[0])

    return each_element(x, element, "T_isinf")


def _bitcast(x: Tensor, dtype: str) -> Tensor:
    """The bits of each element as another type of as many."""
    source = topi.cast(x, "uint8") if x.dtype == "bool" else x
    return each_element(source, lambda v: reinterpret(dtype, v), "T_bitcast")


def _extreme(of: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Tensor]:
    """The larger or the smaller of two; NaN where one of them is."""

    def element(x: Any, y: Any) -> Any:
        # the second is the result where one is NaN: only a first one that is must be looked at
        return te.select(te.isnan(x), x, of(x, y)) if dt.is_float(x.dtype) else of(x, y)

    return lambda a, b: _both(a, b, element, "T_extreme")


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
    "atan2": lambda a, b: _both(a, b, te.atan2, "T_atan2"),
    "bitcast": _bitcast,
    "cast": lambda x, dtype: topi.cast(x, dtype),
    "celu": topi.nn.celu,
    "clip": _clip,
    "divide": _divide,
    "elu": topi.nn.elu,
    "gelu": topi.nn.gelu,
    "gelu_tanh": topi.nn.gelu_tanh,
    "hard_sigmoid": lambda x, alpha=0.2, beta=0.5: topi.nn.hardsigmoid(x, alpha, beta),
    "hard_swish": topi.nn.hardswish,
    "isinf": _isinf,
    "leaky_relu": lambda x, alpha=0.01: topi.nn.leaky_relu(x, alpha),
    "maximum": _tree(_extreme(te.max)),
    "minimum": _tree(_extreme(te.min)),
    "mish": topi.nn.mish,
    "prelu": lambda x, slope: topi.where(
        topi.less(x, const(0, x.dtype)), topi.multiply(x, slope), x
    ),
    "relu": topi.nn.relu,
    "remainder": _remainder,
    "round": _each("round", te.nearbyint),
    "selu": topi.nn.selu,
    "shrink": topi.nn.shrink,
    "softplus": topi.nn.softplus,
    "softsign": topi.nn.softsign,
    "sum_of": _tree(topi.add),
    "swish": topi.nn.swish,
    "thresholded_relu": topi.nn.thresholded_relu,
    "where": topi.where,
}
"""Name -> function."""
