"""The words of a graph in PyTorch, as a model there is written (`in_numpy`). It needs PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from whet.bench.operators.operator import Tensor

add, subtract, multiply, divide = torch.add, torch.subtract, torch.multiply, torch.divide
exp, tanh, sqrt, erf, sigmoid = torch.exp, torch.tanh, torch.sqrt, torch.erf, torch.sigmoid
relu, gelu, silu, dense, clip = F.relu, F.gelu, F.silu, F.linear, torch.clamp
reshape, transpose, matmul = torch.reshape, torch.permute, torch.matmul
concatenate, cumsum, argmax = torch.cat, torch.cumsum, torch.argmax


def maximum(x: Tensor, y: Tensor | float) -> Tensor:
    """The larger one of both."""
    return torch.clamp(x, min=y) if isinstance(y, float | int) else torch.maximum(x, y)


def cut(x: Tensor, axis: int, begin: int, end: int) -> Tensor:
    """The elements from ``begin`` to ``end`` of an axis."""
    return x.narrow(axis, begin, end - begin)


def pad(x: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """Zeros around."""
    return F.pad(x, [n for pair in reversed(list(zip(before, after))) for n in pair])


def sum(x: Tensor, axes: tuple[int, ...], keepdims: bool = False) -> Tensor:
    """Sums over axes."""
    return torch.sum(x, axes, keepdims)


def mean(x: Tensor, axes: tuple[int, ...], keepdims: bool = False) -> Tensor:
    """Means over axes."""
    return torch.mean(x, axes, keepdims)


def max(x: Tensor, axes: tuple[int, ...], keepdims: bool = False) -> Tensor:
    """The largest ones over axes."""
    return torch.amax(x, axes, keepdims)


def conv2d(
    x: Tensor, w: Tensor, strides: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Tensor:
    """A convolution."""
    return F.conv2d(x, w, None, strides, padding, dilation, groups)


def conv_transpose2d(x: Tensor, w: Tensor, strides: int = 1, padding: int = 0) -> Tensor:
    """A transposed convolution; weights (ci, co, kh, kw)."""
    return F.conv_transpose2d(x, w, None, strides, padding)


def max_pool(
    x: Tensor, kernel: int, strides: int, padding: int = 0, channels_last: bool = False
) -> Tensor:
    """The largest one of each window; (n, h, w, c) is PyTorch's channels_last, seen otherwise."""
    if channels_last:
        return F.max_pool2d(x.permute(0, 3, 1, 2), kernel, strides, padding).permute(0, 2, 3, 1)
    return F.max_pool2d(x, kernel, strides, padding)


def avg_pool(
    x: Tensor, kernel: int, strides: int, padding: int = 0, channels_last: bool = False
) -> Tensor:
    """The mean of each window, zeros of the padding included."""
    if channels_last:
        return F.avg_pool2d(x.permute(0, 3, 1, 2), kernel, strides, padding).permute(0, 2, 3, 1)
    return F.avg_pool2d(x, kernel, strides, padding)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Shares of the exponentials."""
    return torch.softmax(x, axis)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Rows of the last axis with mean 0 and variance 1, scaled and shifted."""
    return F.layer_norm(x, gamma.shape, gamma, beta, epsilon)


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Rows of the last axis over their root mean square, scaled."""
    return F.rms_norm(x, gamma.shape, gamma, epsilon)


def group_norm(
    x: Tensor, groups: int, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5
) -> Tensor:
    """Groups of channels with mean 0 and variance 1, scaled and shifted channel by channel."""
    return F.group_norm(x, groups, gamma, beta, epsilon)


def attention(q: Tensor, k: Tensor, v: Tensor, depth: int) -> Tensor:
    """``softmax(q @ k.T / sqrt(depth)) @ v`` of each head; all (b, h, n, depth)."""
    return F.scaled_dot_product_attention(q, k, v)


def upsample(x: Tensor, factor: int) -> Tensor:
    """Each pixel as often along both dimensions of the image."""
    return F.interpolate(x, scale_factor=factor, mode="nearest")


def per_channel(x: Tensor, vector: Tensor) -> Tensor:
    """A number for each channel, with the rank of the image ``x``."""
    return vector.view(1, -1, *[1] * (x.ndim - 2))
