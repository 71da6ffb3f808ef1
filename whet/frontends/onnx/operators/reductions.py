"""Operators over whole axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.node import OnnxNode, Translate
from whet.frontends.onnx.operators.shapes import reshaped

Change = Callable[[OnnxNode, Value], Value]


def _square(n: OnnxNode, x: Value) -> Value:
    return n.add("multiply", [x, x])


def _unary(operator: str) -> Change:
    return lambda n, x: n.add(operator, [x])


def _reduce(operator: str, before: Change | None = None, after: Change | None = None) -> Translate:
    def translate(n: OnnxNode) -> Value:
        x = n.input(0)
        rank = len(x.shape)
        axes = sorted({n.axis(a, rank) for a in n.ints(1, "axes", [])})
        if not axes and n.attr("noop_with_empty_axes", 0):
            return n.add("identity", [x]) if before is after is None else _around(n, x)
        axes = axes or list(range(rank))
        value = x if before is None else before(n, x)
        if x.dtype == "bool":
            value = n.add("cast", [value], dtype="uint8")
        made = n.add(operator, [value], axes=axes, keepdims=bool(n.attr("keepdims", 1)))
        made = n.add("cast", [made], dtype="bool") if x.dtype == "bool" else made
        return made if after is None else after(n, made)

    def _around(n: OnnxNode, x: Value) -> Value:
        value = x if before is None else before(n, x)
        return value if after is None else after(n, value)

    return translate


def _log_sum_exp(n: OnnxNode) -> Value:
    x = n.input(0)
    rank = len(x.shape)
    axes = sorted({n.axis(a, rank) for a in n.ints(1, "axes", [])})
    if not axes and n.attr("noop_with_empty_axes", 0):
        return n.add("identity", [x])
    axes = axes or list(range(rank))
    most = n.add("max", [x], axes=axes, keepdims=True)
    # a row of infinities is not shifted: the difference of two has no value
    most = n.add("where", [n.add("isinf", [most]), n.constant(0, x.dtype), most])
    total = n.add("sum", [n.add("exp", [n.add("subtract", [x, most])])], axes=axes, keepdims=True)
    made = n.add("add", [n.add("log", [total]), most])
    if n.attr("keepdims", 1):
        return made
    return reshaped(n, made, [d for k, d in enumerate(x.shape) if k not in axes])


def _position(operator: str) -> Translate:
    def translate(n: OnnxNode) -> Value:
        x = n.input(0)
        axis, keep = n.axis(n.attr("axis", 0), len(x.shape)), bool(n.attr("keepdims", 1))
        last = bool(n.attr("select_last_index", 0))
        return n.add(operator, [x], axis=axis, keepdims=keep, last=last)

    return translate


def _cumulative(operator: str) -> Translate:
    def translate(n: OnnxNode) -> Value:
        x = n.input(0)
        axis = n.axis(int(np.asarray(n.known(1)).reshape(())), len(x.shape))
        exclusive, reverse = (bool(n.attr(name, 0)) for name in ("exclusive", "reverse"))
        return n.add(operator, [x], axis=axis, exclusive=exclusive, reverse=reverse)

    return translate


TABLE: dict[str, Translate] = {
    "ArgMax": _position("argmax"),
    "ArgMin": _position("argmin"),
    "CumProd": _cumulative("cumprod"),
    "CumSum": _cumulative("cumsum"),
    "ReduceL1": _reduce("sum", _unary("abs")),
    "ReduceL2": _reduce("sum", _square, _unary("sqrt")),
    "ReduceLogSum": _reduce("sum", None, _unary("log")),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _reduce("max"),
    "ReduceMean": _reduce("mean"),
    "ReduceMin": _reduce("min"),
    "ReduceProd": _reduce("prod"),
    "ReduceSum": _reduce("sum"),
    "ReduceSumSquare": _reduce("sum", _square),
}
