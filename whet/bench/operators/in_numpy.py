"""The words of a graph in numpy: its right results, in float64.

Images are (n, c, h, w), weights of convolutions (co, ci / groups, kh, kw); an axis may count from
the end. `in_topi`, `in_torch` and `in_onnx` have the same words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace as Args
from typing import Any

import numpy as np

from whet.bench.operators.convolutions import conv, conv2d_transpose, windows
from whet.bench.operators.operator import Array
from whet.bench.operators.rows import erf, gelu, sigmoid

__all__ = ["erf", "gelu", "sigmoid"]

add, subtract, multiply, divide, maximum = np.add, np.subtract, np.multiply, np.divide, np.maximum
exp, tanh, sqrt, transpose, reshape = np.exp, np.tanh, np.sqrt, np.transpose, np.reshape
concatenate, matmul, cumsum, argmax, clip = (
    np.concatenate,
    np.matmul,
    np.cumsum,
    np.argmax,
    np.clip,
)


def relu(x: Array) -> Array:
    """The positive part."""
    return np.maximum(x, 0)


def silu(x: Array) -> Array:
    """``x`` times its sigmoid."""
    return x * sigmoid(x)


def cut(x: Array, axis: int, begin: int, end: int) -> Array:
    """The elements from ``begin`` to ``end`` of an axis."""
    return x.take(range(begin, end), axis)


def pad(x: Array, before: Sequence[int], after: Sequence[int]) -> Array:
    """Zeros around."""
    return np.pad(x, list(zip(before, after)))


def sum(x: Array, axes: tuple[int, ...], keepdims: bool = False) -> Array:
    """Sums over axes."""
    return x.sum(axis=axes, keepdims=keepdims)


def mean(x: Array, axes: tuple[int, ...], keepdims: bool = False) -> Array:
    """Means over axes."""
    return x.mean(axis=axes, keepdims=keepdims)


def max(x: Array, axes: tuple[int, ...], keepdims: bool = False) -> Array:
    """The largest ones over axes."""
    return x.max(axis=axes, keepdims=keepdims)


def dense(x: Array, w: Array) -> Array:
    """``x @ w.T``."""
    return x @ w.T


def conv2d(
    x: Array, w: Array, strides: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Array:
    """A convolution."""
    return conv(Args(strides=strides, padding=padding, dilation=dilation), x, w, groups)


def conv_transpose2d(x: Array, w: Array, strides: int = 1, padding: int = 0) -> Array:
    """A transposed convolution; weights (ci, co, kh, kw)."""
    return conv2d_transpose(Args(strides=strides, padding=padding, output_padding=0), x, w)


def _pooled(x: Array, kernel: int, strides: int, padding: int, last: bool, empty: float) -> Array:
    """Windows, flat along a last axis; what is in the padding is ``empty``."""
    x = x.transpose(0, 3, 1, 2) if last else x
    padded = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * 2], constant_values=empty)
    seen = windows(Args(strides=strides, padding=0), padded, (kernel, kernel))
    seen = seen.reshape(*seen.shape[:4], -1)
    return seen.transpose(0, 2, 3, 1, 4) if last else seen


def max_pool(
    x: Array, kernel: int, strides: int, padding: int = 0, channels_last: bool = False
) -> Array:
    """The largest one of each window."""
    return _pooled(x, kernel, strides, padding, channels_last, -math.inf).max(axis=-1)


def avg_pool(
    x: Array, kernel: int, strides: int, padding: int = 0, channels_last: bool = False
) -> Array:
    """The mean of each window, zeros of the padding included."""
    return _pooled(x, kernel, strides, padding, channels_last, 0.0).mean(axis=-1)


def softmax(x: Array, axis: int = -1) -> Array:
    """Shares of the exponentials."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x: Array, gamma: Array, beta: Array, epsilon: float = 1e-5) -> Array:
    """Rows of the last axis with mean 0 and variance 1, scaled and shifted."""
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


def rms_norm(x: Array, gamma: Array, epsilon: float = 1e-5) -> Array:
    """Rows of the last axis over their root mean square, scaled."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * gamma


def group_norm(x: Array, groups: int, gamma: Array, beta: Array, epsilon: float = 1e-5) -> Array:
    """Groups of channels with mean 0 and variance 1, scaled and shifted channel by channel."""
    parts = x.reshape(x.shape[0], groups, -1)
    mean, variance = parts.mean(axis=-1, keepdims=True), parts.var(axis=-1, keepdims=True)
    each = (-1, *[1] * (x.ndim - 2))
    normal = ((parts - mean) / np.sqrt(variance + epsilon)).reshape(x.shape)
    return normal * gamma.reshape(each) + beta.reshape(each)


def attention(q: Array, k: Array, v: Array, depth: int) -> Array:
    """``softmax(q @ k.T / sqrt(depth)) @ v`` of each head; all (b, h, n, depth)."""
    return softmax(q @ k.swapaxes(-1, -2) / math.sqrt(depth)) @ v


def upsample(x: Array, factor: int) -> Array:
    """Each pixel as often along both dimensions of the image."""
    return x.repeat(factor, axis=2).repeat(factor, axis=3)


def per_channel(x: Array, vector: Array) -> Any:
    """A number for each channel, with the rank of the image ``x``."""
    return vector.reshape(-1, *[1] * (x.ndim - 2))
