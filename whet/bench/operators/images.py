"""Images' pooling and resizing, and layouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import SimpleNamespace as Args
from typing import Any

import numpy as np

from whet.bench.operators.convolutions import sides, windows
from whet.bench.operators.operator import Array, Operator, Tensor
from whet.bench.operators.torch_ways import TorchWays, plain
from whet.compiler.topi.layout import Layout


def _pooled(a: Args, x: Array, empty: float) -> Array:
    """The windows of an image, flat: (n, c, h, w, elements); ``empty`` stands outside."""
    padded = np.pad(x, [(0, 0), (0, 0), *sides(a.padding, 2)], constant_values=empty)
    inside = Args(strides=a.strides, padding=0, dilation=getattr(a, "dilation", 1))
    seen = windows(inside, padded, tuple(a.kernel))
    return seen.reshape(*seen.shape[:4], math.prod(seen.shape[4:]))


def _avg_pool(a: Args, x: Array) -> Array:
    if a.count_include_pad:
        return _pooled(a, x, 0.0).mean(axis=-1)
    return np.nanmean(_pooled(a, x, math.nan), axis=-1)


def _adaptive_pool(a: Args, x: Array) -> Array:
    """Averages from ``math.floor(i * size / many)`` to ``ceil((i + 1) * size / many)`` each way."""
    for axis, many in zip((2, 3), a.output_size):
        size = x.shape[axis]
        pieces = [
            x.take(range(i * size // many, -(-(i + 1) * size // many)), axis) for i in range(many)
        ]
        x = np.stack([piece.mean(axis=axis) for piece in pieces], axis)
    return x


def _layout_transform(a: Args, x: Array) -> Array:
    """Blocks of the source are joined, then those of the result are cut."""
    src, dst = (Layout.of(text, text).parts for text in (a.src, a.dst))
    letters = sorted(letter for letter, block in src if not block)
    order = [src.index(part) for d in letters for part in _parts(src, d)]
    whole = x.transpose(order)
    extents = [
        math.prod(x.shape[src.index(part)] for part in _parts(src, letter)) for letter in letters
    ]
    cut = [part for letter in letters for part in _parts(dst, letter)]
    shape = []
    for letter, extent in zip(letters, extents):
        blocks = [block for _, block in _parts(dst, letter)[1:]]
        shape += [extent // math.prod(blocks), *blocks]
    return whole.reshape(shape).transpose([cut.index(part) for part in dst])


def _parts(layout: Sequence[tuple[str, int]], letter: str) -> list[tuple[str, int]]:
    """A dimension's parts, its block last."""
    return sorted(part for part in layout if part[0] == letter)


def _resize(a: Args, x: Array) -> Array:
    for axis, want in zip((2, 3), a.size):
        x = _resized(a, x, axis, want)
    return x


def _resized(a: Args, x: Array, axis: int, want: int) -> Array:
    """One dimension of images of another length."""
    have = x.shape[axis]
    at = _sources(a.coordinates, have, want)
    if a.method == "nearest_neighbor":
        whole = [math.floor(p) if a.coordinates == "asymmetric" else _nearest(p) for p in at]
        return x.take(np.clip(np.array(whole, np.int64), 0, have - 1), axis)
    low = np.array([math.floor(p) for p in at], np.int64)
    part = np.array([float(p - math.floor(p)) for p in at])
    shape = [1] * x.ndim
    shape[axis] = want
    first, second = (x.take(np.clip(low + k, 0, have - 1), axis) for k in (0, 1))
    return first + (second - first) * part.reshape(shape)


def _sources(mode: str, have: int, want: int) -> list[Fraction]:
    """Where each pixel of the result lies in the image, exactly."""
    if mode == "align_corners":
        return [
            Fraction(y * (have - 1), want - 1) if want > 1 else Fraction(0) for y in range(want)
        ]
    if mode == "asymmetric":
        return [Fraction(y * have, want) for y in range(want)]
    if mode == "pytorch_half_pixel" and want == 1:
        return [Fraction(0)]
    return [Fraction(2 * y + 1, 2) * Fraction(have, want) - Fraction(1, 2) for y in range(want)]


def _nearest(p: Fraction) -> int:
    """The nearest integer; of two the lower one."""
    return math.ceil(p - Fraction(1, 2))


def _torch_pool(name: str) -> Callable[[TorchWays, Tensor], None]:
    def add(ways: TorchWays, x: Tensor) -> None:
        import torch
        from torch.nn import functional as F

        a = ways.a
        more: dict[str, Any] = {"stride": a.strides, "padding": a.padding}
        if name == "max_pool2d":
            more["dilation"] = a.dilation
        else:
            more["count_include_pad"] = a.count_include_pad
        work = getattr(F, name)
        last = x.contiguous(memory_format=torch.channels_last)
        ways.plain(lambda x: work(x, a.kernel, **more), x, name="NCHW")
        ways.plain(lambda x: work(x, a.kernel, **more), last, name="channels_last")

    return add


def _torch_global_pool(ways: TorchWays, x: Tensor) -> None:
    from torch.nn import functional as F

    ways.plain(lambda x: F.adaptive_avg_pool2d(x, 1), x)
    ways.plain(lambda x: x.mean((2, 3), keepdim=True), x, name="mean")


IMAGES: dict[str, Operator] = {
    "max_pool2d": Operator(
        lambda a, x: _pooled(a, x, -math.inf).max(axis=-1), torch=_torch_pool("max_pool2d")
    ),
    "avg_pool2d": Operator(_avg_pool, torch=_torch_pool("avg_pool2d")),
    "global_avg_pool2d": Operator(
        lambda a, x: x.mean(axis=(2, 3), keepdims=True), torch=_torch_global_pool
    ),
    "adaptive_avg_pool2d": Operator(
        _adaptive_pool,
        torch=plain(lambda t, a, x: t.nn.functional.adaptive_avg_pool2d(x, a.output_size)),
    ),
    "resize2d": Operator(
        _resize,
        torch=plain(
            lambda t, a, x: t.nn.functional.interpolate(x, a.size, mode="bilinear"),
            fits=lambda a, x: (a.method, a.coordinates) == ("linear", "half_pixel"),
        ),
    ),
    "layout_transform": Operator(_layout_transform),
}
