"""What is right of convolutions: sums over the windows of an image, in numpy and float64."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace as Args
from typing import Any

Array = Any


def sides(padding: Any, rank: int) -> list[tuple[int, int]]:
    """Padding as a template takes it: before and after each dimension."""
    if isinstance(padding, int):
        return [(padding, padding)] * rank
    if len(padding) == rank:
        return [(p, p) for p in padding]
    return list(zip(padding[:rank], padding[rank:]))


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def windows(a: Args, x: Array, window: tuple[int, ...]) -> Array:
    """Windows of an image whose channels come first: (n, c, *out, *window)."""
    import numpy as np

    rank = len(window)
    padded = np.pad(x, [(0, 0), (0, 0), *sides(a.padding, rank)])
    dilation, strides = _each(getattr(a, "dilation", 1), rank), _each(a.strides, rank)
    reach = tuple((k - 1) * d + 1 for k, d in zip(window, dilation))
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    places = tuple(slice(None, None, s) for s in strides)
    inside = tuple(slice(None, None, d) for d in dilation)
    return seen[(slice(None), slice(None), *places, *inside)]


def _conv(a: Args, x: Array, w: Array) -> Array:
    """Channels first, weights (co, ci / groups, *window)."""
    import numpy as np

    rank, groups = w.ndim - 2, getattr(a, "groups", 1)
    seen = windows(a, x, w.shape[2:])
    summed = [1, *range(2 + rank, 2 + 2 * rank)]
    parts = []
    for images, weights in zip(np.split(seen, groups, 1), np.split(w, groups, 0)):
        part = np.tensordot(images, weights, (summed, [1, *range(2, 2 + rank)]))
        parts.append(np.moveaxis(part, -1, 1))
    return np.concatenate(parts, 1)


def _conv2d_nhwc(a: Args, x: Array, w: Array) -> Array:
    found = _conv(a, x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1))
    return found.transpose(0, 2, 3, 1)


def _conv2d_nchwc(a: Args, x: Array, w: Array) -> Array:
    n, parts, h, width, c = x.shape
    plain = x.transpose(0, 1, 4, 2, 3).reshape(n, parts * c, h, width)
    found = _conv(a, plain, w)
    n, co, oh, ow = found.shape
    return found.reshape(n, co // c, c, oh, ow).transpose(0, 1, 3, 4, 2)


def _depthwise(a: Args, x: Array, w: Array) -> Array:
    import numpy as np

    seen = windows(a, x, w.shape[2:])
    found = np.einsum("nchwyx,cmyx->ncmhw", seen, w, optimize=True)
    n, c, m, h, width = found.shape
    return found.reshape(n, c * m, h, width)


def _depthwise_nhwc(a: Args, x: Array, w: Array) -> Array:
    found = _depthwise(a, x.transpose(0, 3, 1, 2), w.transpose(2, 3, 0, 1))
    return found.transpose(0, 2, 3, 1)


def _conv2d_transpose(a: Args, x: Array, w: Array) -> Array:
    import numpy as np

    (sh, sw), (eh, ew) = _each(a.strides, 2), _each(a.output_padding, 2)
    (top, bottom), (left, right) = sides(a.padding, 2)
    n, _, h, width = x.shape
    _, co, kh, kw = w.shape
    whole = np.zeros((n, co, (h - 1) * sh + kh + eh, (width - 1) * sw + kw + ew))
    for y in range(kh):
        for z in range(kw):
            places = whole[:, :, y : y + (h - 1) * sh + 1 : sh, z : z + (width - 1) * sw + 1 : sw]
            places += np.einsum("nihw,io->nohw", x, w[:, :, y, z], optimize=True)
    return whole[:, :, top : whole.shape[2] - bottom, left : whole.shape[3] - right]


CONVS: dict[str, Callable[..., Array]] = {
    "conv1d_ncw": _conv,
    "conv2d_nchw": _conv,
    "conv3d_ncdhw": _conv,
    "conv2d_nhwc": _conv2d_nhwc,
    "conv2d_nchwc": _conv2d_nchwc,
    "conv2d_transpose_nchw": _conv2d_transpose,
    "depthwise_conv2d_nchw": _depthwise,
    "depthwise_conv2d_nhwc": _depthwise_nhwc,
}
CHANNELS = {name: (1, 4) if name == "conv2d_nchwc" else (1,) for name in CONVS}
CHANNELS |= {"conv2d_nhwc": (-1,), "depthwise_conv2d_nhwc": (-1,)}
"""The axes that a bias belongs to, where they are not the last one."""
