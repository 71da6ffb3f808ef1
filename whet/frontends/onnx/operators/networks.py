"""Operators of neural networks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.node import OnnxNode, Translate
from whet.frontends.onnx.operators.shapes import reshaped


def window_sides(
    n: OnnxNode, image: Sequence[int], window: Sequence[int], strides: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:  # fmt: skip
    """Padding before each axis, then behind each."""
    rank = len(window)
    auto = n.attr("auto_pad", "NOTSET")
    if auto == "VALID":
        return [0] * 2 * rank
    if auto == "NOTSET":
        return [int(p) for p in n.attr("pads", [0] * 2 * rank)]
    before, after = [], []
    for size, w, s, d in zip(image, window, strides, dilation):
        wanted = max((-(-size // s) - 1) * s + (w - 1) * d + 1 - size, 0)
        small, large = wanted // 2, wanted - wanted // 2
        before.append(small if auto == "SAME_UPPER" else large)
        after.append(large if auto == "SAME_UPPER" else small)
    return [*before, *after]


def _conv(n: OnnxNode) -> Value:
    return convolution(n, n.inputs[:3])


def convolution(n: OnnxNode, operands: Sequence[Value | None]) -> Value:
    """A convolution of data, weights and perhaps a bias, with the node's attributes."""
    x, w = operands[:2]
    assert x is not None and w is not None
    rank = len(w.shape) - 2
    window = w.shape[2:]
    strides, dilation = (n.attr(name, [1] * rank) for name in ("strides", "dilations"))
    padding = window_sides(n, x.shape[2:], window, strides, dilation)
    return n.add(
        "conv", operands, strides=list(strides), padding=padding, dilation=list(dilation),
        groups=n.attr("group", 1),
    )  # fmt: skip


def _conv_transpose(n: OnnxNode) -> Value:
    x, w = n.input(0), n.input(1)
    rank, groups = len(w.shape) - 2, n.attr("group", 1)
    strides, dilation = (n.attr(name, [1] * rank) for name in ("strides", "dilations"))
    extra = list(n.attr("output_padding", [0] * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
    full = [(i - 1) * s + k + e for i, s, k, e in zip(x.shape[2:], strides, reach, extra)]
    wanted = n.attr("output_shape", None)
    auto = n.attr("auto_pad", "NOTSET")
    if wanted is not None or auto.startswith("SAME"):
        wanted = wanted or [i * s for i, s in zip(x.shape[2:], strides)]
        cut = [f - o for f, o in zip(full, wanted)]
        small = [c // 2 for c in cut]
        large = [c - c // 2 for c in cut]
        sides = [*large, *small] if auto != "SAME_UPPER" else [*small, *large]
    else:
        sides = window_sides(n, x.shape[2:], reach, strides, dilation)
    bias = n.input(2) if n.has(2) else None
    return transposed_convolution(n, x, w, bias, strides, groups, sides, extra, dilation)


class Adds(Protocol):
    """A node of any format, which adds nodes to a graph."""

    def add(self, operator: str, inputs: Sequence[Value | None], **attrs: Any) -> Value: ...


def transposed_convolution(
    n: Adds, x: Value, w: Value, bias: Value | None, strides: Sequence[int], groups: int,
    sides: Sequence[int], extra: Sequence[int], dilation: Sequence[int],
) -> Value:  # fmt: skip
    """A transposed convolution: group by group, then cut, or enlarged by ``extra`` behind.

    Args:
        sides: what is cut off before each axis, then behind each.
    """
    rank = len(strides)
    before, after = sides[:rank], sides[rank:]
    parts = [
        n.add(
            "conv_transpose", [_part(n, x, k, groups, 1), _part(n, w, k, groups, 0)],
            strides=list(strides), padding=[0] * rank, output_padding=[0] * rank,
            dilation=list(dilation),
        )
        for k in range(groups)
    ]  # fmt: skip
    made = parts[0] if groups == 1 else n.add("concat", parts, axis=1)
    low = [0, 0, *[-b for b in before]]
    high = [0, 0, *[e - a for e, a in zip(extra, after)]]
    if any(low) or any(high):
        made = n.add("pad", [made], before=low, after=high)
    if bias is None:
        return made
    column = n.add("reshape", [bias], shape=(1, made.shape[1], *[1] * rank))
    return n.add("add", [made, column])


def _part(n: Adds, x: Value, k: int, parts: int, axis: int) -> Value:
    if parts == 1:
        return x
    each = x.shape[axis] // parts
    return n.add("slice", [x], begin=[k * each], end=[(k + 1) * each], step=[1], axes=[axis])


def _gemm(n: OnnxNode) -> Value:
    return n.add(
        "gemm", n.inputs[:3], alpha=n.attr("alpha", 1.0), beta=n.attr("beta", 1.0),
        transpose_a=bool(n.attr("transA", 0)), transpose_b=bool(n.attr("transB", 0)),
    )  # fmt: skip


def _pool(kind: str) -> Translate:
    def translate(n: OnnxNode) -> Value:
        x, window = n.input(0), n.attr("kernel_shape")
        strides, dilation = (n.attr(name, [1] * len(window)) for name in ("strides", "dilations"))
        padding = window_sides(n, x.shape[2:], window, strides, dilation)
        return n.add(
            "pool", [x], kind=kind, window=list(window), strides=list(strides), padding=padding,
            dilation=list(dilation), ceil_mode=bool(n.attr("ceil_mode", 0)),
            count_include_pad=bool(n.attr("count_include_pad", 0)),
        )  # fmt: skip

    return translate


def places_of_maxima(n: OnnxNode, x: Value, windows: dict[str, Any]) -> Value:
    """Where the maximum of each window is, counted in the whole operand."""
    made = n.add("pool_places", [x], **windows)
    image = x.shape[2:]
    if n.attr("storage_order", 0) and len(image) > 1:  # counted in columns, not in rows
        order = np.arange(prod(image)).reshape(image[::-1])
        counted = n.constant(order.transpose().reshape(-1), "int64")
        made = n.add("take", [counted, made], axis=0)
    planes = np.arange(prod(x.shape[:2])) * prod(image)
    begins = n.constant(planes.reshape(*x.shape[:2], *[1] * len(image)), "int64")
    return n.add("add", [made, begins])


def _softmax(operator: str) -> Translate:
    def translate(n: OnnxNode) -> Value:
        x = n.input(0)
        axis = n.axis(n.attr("axis", -1 if n.version >= 13 else 1), len(x.shape))
        if n.version >= 13:
            return n.add(operator, [x], axis=axis)
        flat = reshaped(n, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
        return reshaped(n, n.add(operator, [flat], axis=1), x.shape)

    return translate


def _batch_norm(n: OnnxNode) -> Value:
    if n.attr("training_mode", 0):
        raise n.refused("it is in training mode")
    return n.add("batch_norm", n.inputs[:5], epsilon=n.attr("epsilon", 1e-5))


def _layer_norm(n: OnnxNode) -> list[Value]:
    x = n.input(0)
    first = n.axis(n.attr("axis", -1), len(x.shape))
    axes = tuple(range(first, len(x.shape)))
    scale, bias = (n.input(k) if n.has(k) else None for k in (1, 2))
    epsilon = n.attr("epsilon", 1e-5)
    made = [_scaled_norm(n, x, scale, bias, axes, epsilon)]
    if n.count > 1:  # the statistics
        mean = n.add("mean", [x], axes=axes, keepdims=True)
        off = n.add("subtract", [x, mean])
        variance = n.add("mean", [n.add("multiply", [off, off])], axes=axes, keepdims=True)
        inside = n.add("add", [variance, n.constant(epsilon, x.dtype)])
        made += [mean, n.add("rsqrt", [inside])]
    return made


def _scaled_norm(
    n: OnnxNode, x: Value, scale: Value | None, bias: Value | None, axes: tuple[int, ...],
    epsilon: float,
) -> Value:  # fmt: skip
    """A layer norm; what scales and shifts may be of fewer dimensions than the rows."""
    rows = tuple(x.shape[a] for a in axes)
    if all(v is None or v.shape == rows for v in (scale, bias)):
        return n.add("layer_norm", [x, scale, bias], axes=axes, epsilon=epsilon)
    made = n.add("layer_norm", [x, None, None], axes=axes, epsilon=epsilon)
    made = made if scale is None else n.add("multiply", [made, scale])
    return made if bias is None else n.add("add", [made, bias])


def _instance_norm(n: OnnxNode) -> Value:
    return n.add("instance_norm", n.inputs[:3], epsilon=n.attr("epsilon", 1e-5))


def _group_norm(n: OnnxNode) -> Value:
    """Groups of channels, each normalised; before version 21 scaled by group, not by channel."""
    x, groups = n.input(0), n.attr("num_groups")
    channels, more = x.shape[1], n.inputs[1:3]
    if n.version < 21 and groups != channels:
        columns = (reshaped(n, v, (groups, 1)) for v in (n.input(1), n.input(2)))
        rows = [n.add("expand", [v], shape=(groups, channels // groups)) for v in columns]
        more = [reshaped(n, v, (channels,)) for v in rows]
    return n.add("group_norm", [x, *more], groups=groups, epsilon=n.attr("epsilon", 1e-5))


def _lp_pool(n: OnnxNode) -> Value:
    """The p-norm of each window: averages of powers, padding counted, times the window's size."""
    p, window = n.attr("p", 2), n.attr("kernel_shape")
    x = n.add("abs", [n.input(0)])
    x = n.add("multiply", [x, x]) if p == 2 else _power(n, x, p)
    strides, dilation = (n.attr(name, [1] * len(window)) for name in ("strides", "dilations"))
    padding = window_sides(n, x.shape[2:], window, strides, dilation)
    mean = n.add(
        "pool", [x], kind="avg", window=list(window), strides=list(strides), padding=padding,
        dilation=list(dilation), ceil_mode=bool(n.attr("ceil_mode", 0)), count_include_pad=True,
    )  # fmt: skip
    return _root(n, n.add("multiply", [mean, n.constant(prod(window), x.dtype)]), p)


def _power(n: OnnxNode, x: Value, p: float) -> Value:
    return x if p == 1 else n.add("power", [x, n.constant(p, x.dtype)])


def _root(n: OnnxNode, x: Value, p: float) -> Value:
    return n.add("sqrt", [x]) if p == 2 else _power(n, x, 1 / p)


def _global_lp_pool(n: OnnxNode) -> Value:
    x, p = n.input(0), n.attr("p", 2)
    powers = _power(n, n.add("abs", [x]), p)
    axes = list(range(2, len(x.shape)))
    return _root(n, n.add("sum", [powers], axes=axes, keepdims=True), p)


def _lp_normalization(n: OnnxNode) -> Value:
    x, p = n.input(0), n.attr("p", 2)
    axis = n.axis(n.attr("axis", -1), len(x.shape))
    powers = _power(n, n.add("abs", [x]), p)
    norm = _root(n, n.add("sum", [powers], axes=[axis], keepdims=True), p)
    zero = n.constant(0, x.dtype)
    made = n.add("divide", [x, norm])
    return n.add("where", [n.add("equal", [norm, zero]), zero, made])


def _hardmax(n: OnnxNode) -> Value:
    x = n.input(0)
    axis = n.axis(n.attr("axis", -1 if n.version >= 13 else 1), len(x.shape))
    flat, at = x, axis
    if n.version < 13:
        flat, at = reshaped(n, x, (prod(x.shape[:axis]), prod(x.shape[axis:]))), 1
    places = n.add("argmax", [flat], axis=at, keepdims=False)
    made = n.add(
        "one_hot", [places], depth=flat.shape[at], values=(0.0, 1.0), axis=at, dtype=x.dtype
    )
    return reshaped(n, made, x.shape)


def _top_k(n: OnnxNode) -> Sequence[Value]:
    x = n.input(0)
    axis = n.axis(n.attr("axis", -1), len(x.shape))
    k = n.ints(1, "k")[0]
    return n.add_all("top_k", [x], k=k, axis=axis, largest=bool(n.attr("largest", 1)))


def _lrn(n: OnnxNode) -> Value:
    return n.add(
        "lrn", [n.input(0)], size=n.attr("size"), alpha=n.attr("alpha", 1e-4),
        beta=n.attr("beta", 0.75), bias=n.attr("bias", 1.0),
    )  # fmt: skip


TABLE: dict[str, Translate] = {
    "AveragePool": _pool("avg"),
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda n: n.add("global_pool", [n.input(0)], kind="avg"),
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": lambda n: n.add("global_pool", [n.input(0)], kind="max"),
    "GroupNormalization": _group_norm,
    "Hardmax": _hardmax,
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_normalization,
    "LpPool": _lp_pool,
    "LogSoftmax": _softmax("log_softmax"),
    "MatMul": lambda n: n.add("matmul", n.inputs),
    "Softmax": _softmax("softmax"),
    "TopK": _top_k,
}
