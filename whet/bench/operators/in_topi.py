"""The words of a graph in our own `te` and `topi`: what a task is made of (`in_numpy`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whet.compiler import te, topi
from whet.compiler.te import Tensor

add, subtract, multiply, divide = topi.add, topi.subtract, topi.multiply, topi.divide
maximum, exp, tanh, sqrt, erf, sigmoid = (
    topi.maximum,
    topi.exp,
    topi.tanh,
    topi.sqrt,
    topi.erf,
    topi.sigmoid,
)
transpose, reshape, pad, clip = topi.transpose, topi.reshape, topi.pad, topi.clip
concatenate, cumsum, argmax, sum, max = (
    topi.concatenate,
    topi.cumsum,
    topi.argmax,
    topi.sum,
    topi.max,
)
relu, gelu, silu, softmax, dense = (
    topi.nn.relu,
    topi.nn.gelu,
    topi.nn.silu,
    topi.nn.softmax,
    topi.nn.dense,
)


def cut(x: Tensor, axis: int, begin: int, end: int) -> Tensor:
    """The elements from ``begin`` to ``end`` of an axis."""
    return topi.strided_slice(x, [begin], [end], axes=[axis % len(x.shape)])


def mean(x: Tensor, axes: tuple[int, ...], keepdims: bool = False) -> Tensor:
    """Means over axes."""
    many = math.prod(int(x.shape[axis]) for axis in axes)
    return topi.multiply(topi.sum(x, axes, keepdims), 1.0 / many)


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y``; ``y`` is a matrix, or has the batch of ``x``."""
    *batch, n, k = x.shape
    r = te.reduce_axis((0, k), name="k")
    own = len(y.shape) > 2

    def element(*i: Any) -> Any:
        there = (*i[:-2], r, i[-1]) if own else (r, i[-1])
        return te.sum(x(*i[:-1], r) * y(*there), axis=r)

    return te.compute((*batch, n, y.shape[-1]), element, name="T_matmul")


def conv2d(
    x: Tensor, w: Tensor, strides: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Tensor:
    """A convolution."""
    if groups == 1:
        return topi.nn.conv2d_nchw(x, w, strides, padding, dilation)
    if groups == int(x.shape[1]) == int(w.shape[0]):
        return topi.nn.depthwise_conv2d_nchw(x, w, strides, padding, dilation)
    return topi.nn.group_conv2d_nchw(x, w, strides, padding, dilation, groups)


def conv_transpose2d(x: Tensor, w: Tensor, strides: int = 1, padding: int = 0) -> Tensor:
    """A transposed convolution; weights (ci, co, kh, kw)."""
    return topi.nn.conv2d_transpose_nchw(x, w, strides, padding)


def _pool(kind: str, x: Tensor, *sizes: int, channels_last: bool) -> Tensor:
    kernel, strides, padding = sizes
    layout = "NHWC" if channels_last else "NCHW"
    return topi.nn.pool2d(x, kernel, strides, 1, padding, kind, layout=layout)


def max_pool(
    x: Tensor, kernel: int, strides: int, padding: int = 0, channels_last: bool = False
) -> Tensor:
    """The largest one of each window."""
    return _pool("max", x, kernel, strides, padding, channels_last=channels_last)


def avg_pool(
    x: Tensor, kernel: int, strides: int, padding: int = 0, channels_last: bool = False
) -> Tensor:
    """The mean of each window, zeros of the padding included."""
    return _pool("avg", x, kernel, strides, padding, channels_last=channels_last)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Rows of the last axis with mean 0 and variance 1, scaled and shifted."""
    return topi.nn.layer_norm(x, gamma, beta, [len(x.shape) - 1], epsilon)


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Rows of the last axis over their root mean square, scaled."""
    return topi.nn.rms_norm(x, gamma, [len(x.shape) - 1], epsilon)


def group_norm(
    x: Tensor, groups: int, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5
) -> Tensor:
    """Groups of channels with mean 0 and variance 1, scaled and shifted channel by channel."""
    n, c, *image = map(int, x.shape)
    parts = topi.reshape(x, (n, groups, c // groups, math.prod(image)))
    away = topi.subtract(parts, mean(parts, (2, 3), True))
    spread = topi.rsqrt(topi.add(mean(topi.multiply(away, away), (2, 3), True), epsilon))
    normal = topi.reshape(topi.multiply(away, spread), tuple(map(int, x.shape)))
    return topi.add(topi.multiply(normal, per_channel(x, gamma)), per_channel(x, beta))


def attention(q: Tensor, k: Tensor, v: Tensor, depth: int) -> Tensor:
    """``softmax(q @ k.T / sqrt(depth)) @ v`` of each head; all (b, h, n, depth)."""
    r = te.reduce_axis((0, depth), name="d")
    scores = te.compute(
        (*q.shape[:3], k.shape[2]),
        lambda b, h, i, j: te.sum(q[b, h, i, r] * k[b, h, j, r], axis=r),
        name="T_scores",
    )
    return matmul(softmax(topi.multiply(scores, 1 / math.sqrt(depth))), v)


def upsample(x: Tensor, factor: int) -> Tensor:
    """Each pixel as often along both dimensions of the image."""
    n, c, h, w = x.shape
    return te.compute(
        (n, c, h * factor, w * factor),
        lambda b, k, i, j: x[b, k, i // factor, j // factor],
        name="T_upsample",
    )


def per_channel(x: Tensor, vector: Tensor) -> Tensor:
    """A number for each channel, with the rank of the image ``x``."""
    extent: Sequence[Any] = vector.shape
    return topi.reshape(vector, (1, int(extent[0]), *[1] * (len(x.shape) - 2)))
