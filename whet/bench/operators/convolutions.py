"""Convolutions; PyTorch's in both layouts, mkldnn's own, frozen, compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace as Args
from typing import Any

import numpy as np

from whet.bench.operators.operator import Array, Call, Operator, Tensor
from whet.bench.operators.torch_ways import TorchWays


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
    rank = len(window)
    padded = np.pad(x, [(0, 0), (0, 0), *sides(a.padding, rank)])
    dilation, strides = _each(getattr(a, "dilation", 1), rank), _each(a.strides, rank)
    reach = tuple((k - 1) * d + 1 for k, d in zip(window, dilation))
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    places = tuple(slice(None, None, s) for s in strides)
    inside = tuple(slice(None, None, d) for d in dilation)
    return seen[(slice(None), slice(None), *places, *inside)]


def conv(a: Args, x: Array, w: Array, groups: int) -> Array:
    """Channels first, weights (co, ci / groups, *window)."""
    rank = w.ndim - 2
    seen = windows(a, x, w.shape[2:])
    summed = [1, *range(2 + rank, 2 + 2 * rank)]
    parts = []
    for images, weights in zip(np.split(seen, groups, 1), np.split(w, groups, 0)):
        part = np.tensordot(images, weights, (summed, [1, *range(2, 2 + rank)]))
        parts.append(np.moveaxis(part, -1, 1))
    return np.concatenate(parts, 1)


def conv2d_transpose(a: Args, x: Array, w: Array) -> Array:
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


LAST = {1: None, 2: "channels_last", 3: "channels_last_3d"}
"""PyTorch's name of the layout with the channels last, by spatial dimensions."""


def _layer(ways: TorchWays, w: Tensor, groups: int, transposed: bool = False) -> Tensor:
    """A module that does the convolution, padding and epilogue included; weights as PyTorch's."""
    import torch
    from torch.nn import functional as F

    rank, a = w.ndim - 2, ways.a
    both = sides(a.padding, rank)
    equal = all(before == after for before, after in both)
    padding = [before for before, _ in both] if equal else [0] * rank
    ends = [n for pair in reversed(both) for n in pair]
    work = getattr(F, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")
    more = {"output_padding": a.output_padding} if transposed else {"dilation": a.dilation}

    class Layer(torch.nn.Module):
        def __init__(self, weight: Tensor) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight)

        def forward(self, x: Tensor) -> Tensor:
            x = x if equal else F.pad(x, ends)
            result = work(
                x, self.weight, None, stride=a.strides, padding=padding, groups=groups, **more
            )
            return ways.after(result, 1)

    return Layer(w).eval()


def _ways(ways: TorchWays, x: Tensor, w: Tensor, groups: int, transposed: bool = False) -> None:
    """All ways of images (n, c, ...): whatever their strides, the numbers are the same."""
    import torch

    last, on_cpu = LAST[w.ndim - 2], x.device.type == "cpu"
    layouts = {"NCHW": (x.contiguous(), w.contiguous())}
    if last is not None:
        form = {"memory_format": getattr(torch, last)}
        layouts[last] = (x.contiguous(**form), w.contiguous(**form))
    for name, (image, weight) in layouts.items():
        layer = _layer(ways, weight, groups, transposed)
        ways.add(name, partial(_plain, layer, image))
        if on_cpu:
            ways.add(f"frozen {name}", partial(_frozen, layer, image), packed=True)
            ways.compiled(layer, image, name=f"frozen {name}", packed=True)
        else:  # a GPU's libraries pack no weights ahead
            ways.compiled(layer, image, name=name)
    if on_cpu and not transposed and not ways.a.epilogue and w.ndim == 4:
        ways.add("mkldnn", lambda: _mkldnn(ways, x, w, groups), packed=True)


def _plain(layer: Tensor, image: Tensor) -> Call:
    return lambda: layer(image)


def _frozen(layer: Tensor, image: Tensor) -> Call:
    import torch

    with warnings.catch_warnings():  # deprecated, and on some processors still the fastest
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        run = torch.jit.optimize_for_inference(torch.jit.trace(layer, image))
    for _ in range(3):
        run(image)
    return lambda: run(image)


def _mkldnn(ways: TorchWays, x: Tensor, w: Tensor, groups: int) -> Call:
    """In mkldnn's own layouts: the image comes in blocks of channels, and so does the result."""
    import torch
    from torch.utils.mkldnn import to_mkldnn

    (top, bottom), (left, right) = sides(ways.a.padding, 2)
    if top != bottom or left != right:
        raise ValueError("padding differs from side to side")
    layer = torch.nn.Conv2d(
        w.shape[1] * groups, w.shape[0], tuple(w.shape[2:]), ways.a.strides, (top, left),
        ways.a.dilation, groups, bias=False,
    )  # fmt: skip
    layer.weight.copy_(w)
    packed, image = to_mkldnn(layer.eval()), x.to_mkldnn()
    return lambda: packed(image)


Convolution = tuple[Array, Array, int]
"""Data and weights with the channels first, numpy's or PyTorch's, and the groups."""


def _operator(
    channels_first: Callable[[Args, Array, Array], Convolution],
    back: Callable[[Array, int], Array] = lambda result, block: result,
    channels: tuple[int, ...] = (1,),
) -> Operator:
    """A convolution.

    Args:
        channels_first: of the operator's data and weights.
        back: as of :class:`Operator`.
        channels: the axes that a bias belongs to.
    """
    return Operator(
        lambda a, x, w: back(conv(a, *channels_first(a, x, w)), x.shape[-1]),
        torch=lambda ways, x, w: _ways(ways, *channels_first(ways.a, x, w)),
        channels=channels,
        back=back,
        front=lambda a, x, w, *brought: (*channels_first(a, x, w)[:2], *brought),
        weights=(1,),
    )


def _permuted(x: Array, *axes: int) -> Array:
    """An array of numpy's, or a tensor of PyTorch's, with its dimensions in another order."""
    return x.transpose(axes) if isinstance(x, np.ndarray) else x.permute(axes)


def _from_nchwc(a: Args, x: Array, w: Array) -> Convolution:
    n, parts, h, width, c = x.shape
    return _permuted(x, 0, 1, 4, 2, 3).reshape(n, parts * c, h, width), w, a.groups


def _to_nchwc(result: Array, block: int) -> Array:
    n, co, oh, ow = result.shape
    return _permuted(result.reshape(n, co // block, block, oh, ow), 0, 1, 3, 4, 2)


def _to_nhwc(result: Array, block: int) -> Array:
    return _permuted(result, 0, 2, 3, 1)


def _depthwise(a: Args, x: Array, w: Array) -> Convolution:
    channels, multiplier, kh, kw = w.shape
    return x, w.reshape(channels * multiplier, 1, kh, kw), channels


_CHANNELS_FIRST = _operator(lambda a, x, w: (x, w, a.groups))
CONVOLUTIONS: dict[str, Operator] = {
    "conv1d_ncw": _CHANNELS_FIRST,
    "conv2d_nchw": _CHANNELS_FIRST,
    "conv3d_ncdhw": _CHANNELS_FIRST,
    "conv2d_nhwc": _operator(
        lambda a, x, w: (_permuted(x, 0, 3, 1, 2), _permuted(w, 3, 2, 0, 1), a.groups),
        _to_nhwc,
        (-1,),
    ),
    "conv2d_nchwc": _operator(_from_nchwc, _to_nchwc, (1, 4)),
    "conv2d_transpose_nchw": Operator(
        conv2d_transpose,
        torch=lambda ways, x, w: _ways(ways, x, w, 1, transposed=True),
        channels=(1,),
        weights=(1,),
    ),
    "depthwise_conv2d_nchw": _operator(_depthwise),
    "depthwise_conv2d_nhwc": _operator(
        lambda a, x, w: _depthwise(a, _permuted(x, 0, 3, 1, 2), _permuted(w, 2, 3, 0, 1)),
        _to_nhwc,
        (-1,),
    ),
}
