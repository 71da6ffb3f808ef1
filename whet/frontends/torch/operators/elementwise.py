"""Operators on elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from whet.compiler.graph import Value
from whet.frontends.torch.operators.node import AtenNode, Translate


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _unary(operator: str) -> Translate:
    """Computed in the result's type: functions of integers are floating-point numbers."""
    return lambda n: n.add(operator, [n.value("self", n.dtype)])


def _test(operator: str) -> Translate:
    """A question about a number; no integer is infinite, and each is a number."""

    def translate(n: AtenNode) -> Value:
        x = n.value("self")
        if not _is_float(x.dtype):
            return n.add("not_equal", [x, x])
        return n.add(operator, [x])

    return translate


def _rounding(operator: str) -> Translate:
    """Integers are as they should be."""

    def translate(n: AtenNode) -> Value:
        x = n.value("self")
        return n.add(operator, [x]) if _is_float(x.dtype) else x

    return translate


def _operands(n: AtenNode, dtype: str) -> tuple[Value, Value]:
    return n.value("self", dtype), n.value("other", dtype)


def _arithmetic(operator: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        if n.dtype == "bool":
            return _of_bools(n, operator)
        a, b = _operands(n, n.dtype)
        alpha = n.get("alpha", 1)
        if alpha != 1:
            b = n.add("multiply", [b, n.constant(alpha, n.dtype)])
        return n.add(operator, [a, b])

    return translate


def _of_bools(n: AtenNode, operator: str) -> Value:
    of = {"add": "logical_or", "multiply": "logical_and"}.get(operator)
    if of is None or n.get("alpha", 1) != 1:
        raise n.refused("it computes with booleans")
    return n.add(of, list(_operands(n, "bool")))


def _reversed_subtract(n: AtenNode) -> Value:
    a, b = _operands(n, n.dtype)
    alpha = n.get("alpha", 1)
    if alpha != 1:
        a = n.add("multiply", [a, n.constant(alpha, n.dtype)])
    return n.add("subtract", [b, a])


def _divide(n: AtenNode) -> Value:
    a, b = _operands(n, n.dtype)
    mode = n.get("rounding_mode")
    if mode == "floor":
        return _floor_divide(n, a, b)
    made = n.add("divide", [a, b])
    return n.add("trunc", [made]) if mode == "trunc" and _is_float(n.dtype) else made


def _floor_divide(n: AtenNode, a: Value, b: Value) -> Value:
    """The floor of a quotient: what is left without the remainder, which has the divisor's sign."""
    whole = n.add("subtract", [a, n.add("remainder", [a, b])])
    made = n.add("divide", [whole, b])
    if not _is_float(n.dtype):
        return made
    made = n.add("round", [made])
    other = n["other"]
    if not isinstance(other, Value) and math.isfinite(other) and other != 0:
        return made
    return _of_odd_divisors(n, a, b, made)


def _of_odd_divisors(n: AtenNode, a: Value, b: Value, made: Value) -> Value:
    """The quotient, where a divisor is zero, or infinite and divides a finite element."""
    zero, one, infinite = (n.constant(x, n.dtype) for x in (0, -1, math.inf))
    made = n.add("where", [n.add("equal", [b, zero]), n.add("divide", [a, b]), made])
    signs = n.add("logical_xor", [n.add("less", [a, zero]), n.add("less", [b, zero])])
    apart = n.add("logical_and", [signs, n.add("not_equal", [a, zero])])
    is_finite = n.add("less", [n.add("abs", [a]), infinite])
    below = n.add("logical_and", [n.add("isinf", [b]), is_finite])
    return n.add("where", [below, n.add("where", [apart, one, zero]), made])


def _remainder(truncated: bool) -> Translate:
    return lambda n: n.add("remainder", list(_operands(n, n.dtype)), truncated=truncated)


def _compare(operator: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        kind = n.common("self", "other")
        given = _operands(n, "uint8" if kind == "bool" else kind)
        return n.add(operator, list(given))

    return translate


def _logical(operator: str) -> Translate:
    def truth(n: AtenNode, name: str) -> Value:
        x = n.value(name)
        return x if x.dtype == "bool" else n.add("not_equal", [x, n.constant(0, x.dtype)])

    def translate(n: AtenNode) -> Value:
        names = [name for name in ("self", "other") if name in n.args]
        return n.add(operator, [truth(n, name) for name in names])

    return translate


def _bitwise(operator: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        names = [name for name in ("self", "other") if name in n.args]
        of = f"logical_{operator}" if n.dtype == "bool" else f"bitwise_{operator}"
        return n.add(of, [n.value(name, n.dtype) for name in names])

    return translate


def _shift(way: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        if _is_float(n.dtype) or n.dtype == "bool":
            raise n.refused(f"it shifts {n.dtype}")
        return n.add(f"{way}_shift", list(_operands(n, n.dtype)))

    return translate


def _power(n: AtenNode) -> Value:
    exponent = n["exponent"]
    x = n.value("self", n.dtype)
    if not isinstance(exponent, Value):
        plain = _small_power(n, x, float(exponent))
        if plain is not None:
            return plain
    if not _is_float(n.dtype):
        raise n.refused("a power of integers whose exponent is no small constant")
    return n.add("power", [x, n.value("exponent", n.dtype)])


def _small_power(n: AtenNode, x: Value, exponent: float) -> Value | None:
    """The power by products and roots; None: it takes a logarithm."""
    if exponent in (1.0, 2.0, 3.0, 4.0):
        square = x if exponent == 1.0 else n.add("multiply", [x, x])
        if exponent <= 2.0:
            return square
        return n.add("multiply", [square, x if exponent == 3.0 else square])
    if not _is_float(n.dtype):
        return None
    if exponent == -1.0:
        return n.add("divide", [n.constant(1, n.dtype), x])
    return n.add("sqrt", [x]) if exponent == 0.5 else None


def _reciprocal(n: AtenNode) -> Value:
    return n.add("divide", [n.constant(1, n.dtype), n.value("self", n.dtype)])


def _clamp(n: AtenNode) -> Value:
    x = n.value("self", n.dtype)
    for name, operator in (("min", "maximum"), ("max", "minimum")):
        bound = n.get(name)
        if bound is not None:
            x = n.add(operator, [x, n.as_value(bound, n.dtype)])
    return x


def _clip(low: str, high: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        bounds = {"low": n.get(low), "high": n.get(high)}
        return n.add("clip", [n.value("self", n.dtype)], **bounds)

    return translate


def _gelu(n: AtenNode) -> Value:
    tanh = n.get("approximate", "none") == "tanh"
    return n.add("gelu_tanh" if tanh else "gelu", [n.value("self")])


def _elu(n: AtenNode) -> Value:
    x = n.value("self")
    alpha, scale, inner = (float(n.get(k, 1)) for k in ("alpha", "scale", "input_scale"))
    if scale == inner == 1.0:
        return n.add("elu", [x], alpha=alpha)
    if inner == 1.0:
        return n.add("selu", [x], alpha=alpha, gamma=scale)
    scaled = n.add("multiply", [x, n.constant(inner, x.dtype)])
    low = n.add("multiply", [n.add("expm1", [scaled]), n.constant(alpha * scale, x.dtype)])
    high = n.add("multiply", [x, n.constant(scale, x.dtype)])
    return n.add("where", [n.add("greater", [x, n.constant(0, x.dtype)]), high, low])


def _softplus(n: AtenNode) -> Value:
    """From its threshold on PyTorch takes the element itself; 20 changes no digit of float32."""
    x, beta = n.value("self"), float(n.get("beta", 1))
    threshold = float(n.get("threshold", 20))
    scaled = x if beta == 1.0 else n.add("multiply", [x, n.constant(beta, x.dtype)])
    made = n.add("softplus", [scaled])
    if beta != 1.0:
        made = n.add("multiply", [made, n.constant(1 / beta, x.dtype)])
    if threshold >= 20 and x.dtype != "float64":
        return made
    return n.add("where", [n.add("greater", [scaled, n.constant(threshold, x.dtype)]), x, made])


def _logarithm(base: float) -> Translate:
    def translate(n: AtenNode) -> Value:
        made = n.add("log", [n.value("self", n.dtype)])
        return n.add("multiply", [made, n.constant(1 / math.log(base), n.dtype)])

    return translate


def _where(n: AtenNode) -> Value:
    condition = n.value("condition", "bool")
    return n.add("where", [condition, n.value("self", n.dtype), n.value("other", n.dtype)])


def _masked_fill(n: AtenNode) -> Value:
    return n.add(
        "where", [n.value("mask", "bool"), n.value("value", n.dtype), n.value("self", n.dtype)]
    )


def _cast(n: AtenNode) -> Value:
    device = n.get("device")
    if device is not None and getattr(device, "type", device) != "cpu":
        raise n.refused(f"it copies to {device}")
    return n.value("self", n.dtype)


def _filled(value: Callable[[AtenNode], Any]) -> Translate:
    """An array of one number, of the result's shape and type."""

    def translate(n: AtenNode) -> Value:
        one = n.constant(value(n), n.dtype)
        return n.add("expand", [one], shape=n.shape) if n.shape else one

    return translate


def _each_overload(name: str, of: Translate, *overloads: str) -> dict[str, Translate]:
    return {f"aten.{name}.{overload}": of for overload in overloads}


_DEFAULT = {
    **{name: _unary(name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "expm1",
        "log", "log1p", "relu", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "mish",
        "abs", "sign",
    )},
    **{name: _rounding(name) for name in ("ceil", "floor", "round", "trunc")},
    "atan2": lambda n: n.add("atan2", list(_operands(n, n.dtype))),
    "bitwise_not": _bitwise("not"),
    "elu": _elu,
    "exp2": lambda n: n.add("power", [n.constant(2, n.dtype), n.value("self", n.dtype)]),
    "full": _filled(lambda n: n["fill_value"]),
    "full_like": _filled(lambda n: n["fill_value"]),
    "gelu": _gelu,
    "hardsigmoid": lambda n: n.add("hard_sigmoid", [n.value("self")], alpha=1 / 6, beta=0.5),
    "hardswish": lambda n: n.add("hard_swish", [n.value("self")]),
    "hardtanh": _clip("min_val", "max_val"),
    "isinf": _test("isinf"),
    "isnan": _test("isnan"),
    "leaky_relu": lambda n: n.add(
        "leaky_relu", [n.value("self")], alpha=float(n["negative_slope"])
    ),
    "log10": _logarithm(10),
    "log2": _logarithm(2),
    "logical_and": _logical("logical_and"),
    "logical_not": _logical("logical_not"),
    "logical_or": _logical("logical_or"),
    "logical_xor": _logical("logical_xor"),
    "maximum": lambda n: n.add("maximum", list(_operands(n, n.dtype))),
    "minimum": lambda n: n.add("minimum", list(_operands(n, n.dtype))),
    "neg": _unary("negative"),
    "ones_like": _filled(lambda n: 1),
    "reciprocal": _reciprocal,
    "relu6": lambda n: n.add("clip", [n.value("self")], low=0, high=6),
    "silu": lambda n: n.add("swish", [n.value("self")]),
    "softplus": _softplus,
    "zeros_like": _filled(lambda n: 0),
}  # fmt: skip
_BOTH = {  # operators with another tensor, or with a number
    "add": _arithmetic("add"), "sub": _arithmetic("subtract"), "mul": _arithmetic("multiply"),
    "rsub": _reversed_subtract, "div": _divide, "remainder": _remainder(False),
    "fmod": _remainder(True), "eq": _compare("equal"), "ne": _compare("not_equal"),
    "lt": _compare("less"), "le": _compare("less_equal"), "gt": _compare("greater"),
    "ge": _compare("greater_equal"), "bitwise_and": _bitwise("and"), "bitwise_or": _bitwise("or"),
    "bitwise_xor": _bitwise("xor"),
}  # fmt: skip

TABLE: dict[str, Translate] = {
    **{f"aten.{name}.default": of for name, of in _DEFAULT.items()},
    **{f"aten.{name}.{o}": of for name, of in _BOTH.items() for o in ("Tensor", "Scalar")},
    **_each_overload("_to_copy", _cast, "default"),
    **_each_overload("clamp", _clamp, "default", "Tensor"),
    **_each_overload("clamp_min", _clamp, "default"),
    **_each_overload("clamp_max", _clamp, "default"),
    **_each_overload("div", _divide, "Tensor_mode", "Scalar_mode"),
    **_each_overload("fill", _filled(lambda n: n["value"]), "Scalar"),
    **_each_overload("masked_fill", _masked_fill, "Scalar", "Tensor"),
    **_each_overload("pow", _power, "Tensor_Scalar", "Tensor_Tensor", "Scalar"),
    **_each_overload("where", _where, "self"),
    **_each_overload("__lshift__", _shift("left"), "Tensor", "Scalar"),
    **_each_overload("__rshift__", _shift("right"), "Tensor", "Scalar"),
    **_each_overload("bitwise_left_shift", _shift("left"), "Tensor", "Tensor_Scalar"),
    **_each_overload("bitwise_right_shift", _shift("right"), "Tensor", "Tensor_Scalar"),
}
