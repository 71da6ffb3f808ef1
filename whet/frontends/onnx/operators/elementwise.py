"""Operators on elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from whet.compiler.graph import Value
from whet.compiler.tir import dtype as dt
from whet.frontends.onnx.operators.node import OnnxNode, Translate


def _plain(operator: str, **attrs: tuple[str, Any]) -> Translate:
    """An operator with the same operands; attributes: ours -> (ONNX's name, default)."""

    def translate(n: OnnxNode) -> Value:
        more = {ours: n.attr(name, default) for ours, (name, default) in attrs.items()}
        return n.add(operator, n.inputs, **more)

    return translate


def _chain(operator: str) -> Translate:
    return lambda n: n.add(operator, [n.input(k) for k in range(len(n.inputs))])


def _clip(n: OnnxNode) -> Value:
    low, high = (_bound(n, k, name) for k, name in ((1, "min"), (2, "max")))
    if isinstance(low, Value) or isinstance(high, Value):
        made = n.input(0)
        made = n.add("maximum", [made, low]) if isinstance(low, Value) else made
        return n.add("minimum", [made, high]) if isinstance(high, Value) else made
    return n.add("clip", [n.input(0)], low=low, high=high)


def _bound(n: OnnxNode, k: int, name: str) -> float | int | Value | None:
    if name in n.attrs:
        return float(n.attr(name))
    if not n.has(k):
        return None
    array = n.builder.known(n.input(k))
    return n.input(k) if array is None else np.asarray(array).reshape(()).item()


def _cast(n: OnnxNode) -> Value:
    return n.add("cast", [n.input(0)], dtype=dtype_of(n, n.attr("to")))


def dtype_of(n: OnnxNode, code: int) -> str:
    """The name of an element type.

    Raises:
        ArgumentError: there is no such type here.
    """
    from onnx.helper import tensor_dtype_to_np_dtype

    try:
        name = str(np.dtype(tensor_dtype_to_np_dtype(code)))
    except (KeyError, TypeError):
        raise n.refused(f"type {code} is unknown") from None
    if name not in TYPES:
        raise n.refused(f"the element type {name} is not supported")
    return name


TYPES = {
    "bool", "bfloat16", "float16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip


def _bitcast(n: OnnxNode) -> Value:
    x, dtype = n.input(0), dtype_of(n, n.attr("to"))
    if dtype == "bool" or dt.itemsize(dtype) != dt.itemsize(x.dtype):
        raise n.refused(f"{x.dtype} and {dtype} are not of as many bits")
    return n.add("bitcast", [x], dtype=dtype)


def _cast_like(n: OnnxNode) -> Value:
    known = n.builder.known(n.input(0))
    if known is not None:
        return n.constant(known.astype(n.input(1).dtype))
    return n.add("cast", [n.input(0)], dtype=n.input(1).dtype)


def _mod(n: OnnxNode) -> Value:
    return n.add("remainder", n.inputs, truncated=bool(n.attr("fmod", 0)))


def _power(n: OnnxNode) -> Value:
    base, exponent = n.input(0), n.input(1)
    array = n.builder.known(exponent)
    if array is not None and array.size == 1 and float(array.reshape(())) == 2.0:
        return n.add("multiply", [base, base])
    wide = "float32" if base.dtype.startswith("float16") else base.dtype
    if not base.dtype.startswith(("float", "bfloat")):
        wide = "float64"
    given = [v if v.dtype == wide else n.add("cast", [v], dtype=wide) for v in (base, exponent)]
    made = n.add("power", given)
    return made if wide == base.dtype else n.add("cast", [made], dtype=base.dtype)


def _mean(n: OnnxNode) -> Value:
    total = n.add("sum_of", [n.input(k) for k in range(len(n.inputs))])
    return n.add("multiply", [total, n.constant(1 / len(n.inputs), total.dtype)])


def _gelu(n: OnnxNode) -> Value:
    tanh = n.attr("approximate", "none") == "tanh"
    return n.add("gelu_tanh" if tanh else "gelu", [n.input(0)])


def _reciprocal(n: OnnxNode) -> Value:
    return n.add("divide", [n.constant(1, n.input(0).dtype), n.input(0)])


def _shift(n: OnnxNode) -> Value:
    return n.add("left_shift" if n.attr("direction") == "LEFT" else "right_shift", n.inputs)


def _not(of: str) -> Translate:
    return lambda n: n.add("logical_not", [n.add(of, n.inputs)])


def _isinf(n: OnnxNode) -> Value:
    negative, positive = (bool(n.attr(f"detect_{x}", 1)) for x in ("negative", "positive"))
    return n.add("isinf", [n.input(0)], negative=negative, positive=positive)


def _prelu(n: OnnxNode) -> Value:
    return n.add("prelu", n.inputs)


TABLE: dict[str, Translate] = {
    **{
        name: _plain(ours)
        for name, ours in {
            "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "logical_and",
            "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
            "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_not", "BitwiseOr": "bitwise_or",
            "BitwiseXor": "bitwise_xor", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh",
            "Div": "divide", "Equal": "equal", "Erf": "erf", "Exp": "exp", "Floor": "floor",
            "Greater": "greater", "GreaterOrEqual": "greater_equal", "HardSwish": "hard_swish",
            "IsNaN": "isnan", "Less": "less", "LessOrEqual": "less_equal", "Log": "log",
            "Mish": "mish", "Mul": "multiply", "Neg": "negative", "Not": "logical_not",
            "Or": "logical_or", "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid",
            "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus",
            "Softsign": "softsign", "Sqrt": "sqrt", "Sub": "subtract", "Tan": "tan",
            "Tanh": "tanh", "Where": "where", "Xor": "logical_xor",
        }.items()
    },
    "BitCast": _bitcast,
    "BitShift": _shift,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Celu": _plain("celu", alpha=("alpha", 1.0)),
    "Clip": _clip,
    "Elu": _plain("elu", alpha=("alpha", 1.0)),
    "Gelu": _gelu,
    "HardSigmoid": _plain("hard_sigmoid", alpha=("alpha", 0.2), beta=("beta", 0.5)),
    "IsInf": _isinf,
    "LeakyRelu": _plain("leaky_relu", alpha=("alpha", 0.01)),
    "Max": _chain("maximum"),
    "Mean": _mean,
    "Min": _chain("minimum"),
    "Mod": _mod,
    "PRelu": _prelu,
    "Pow": _power,
    "Reciprocal": _reciprocal,
    "Selu": _plain(
        "selu",
        alpha=("alpha", 1.67326319217681884765625),
        gamma=("gamma", 1.05070102214813232421875),
    ),
    "Shrink": _plain("shrink", bias=("bias", 0.0), lambd=("lambd", 0.5)),
    "Sum": _chain("sum_of"),
    "Swish": _plain("swish", alpha=("alpha", 1.0)),
    "ThresholdedRelu": _plain("thresholded_relu", alpha=("alpha", 1.0)),
}  # fmt: skip
