"""PyTorch's ways of a convolution: both layouts, mkldnn's own, frozen, compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from whet.bench.references.convs import sides

if TYPE_CHECKING:
    from whet.bench.peers.libraries import Call
    from whet.bench.peers.torch_peers import TorchWays

Tensor = Any

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
            found = work(
                x, self.weight, None, stride=a.strides, padding=padding, groups=groups, **more
            )
            return ways.after(found, 1)

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
        warnings.simplefilter("ignore", DeprecationWarning)
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


def _channels_first(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    _ways(ways, x, w, ways.a.groups)


def _nhwc(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    _ways(ways, x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), ways.a.groups)


def _nchwc(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    n, parts, h, width, c = x.shape
    _ways(ways, x.permute(0, 1, 4, 2, 3).reshape(n, parts * c, h, width), w, ways.a.groups)


def _depthwise(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    channels, multiplier, kh, kw = w.shape
    _ways(ways, x, w.reshape(channels * multiplier, 1, kh, kw), channels)


def _depthwise_nhwc(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    _depthwise(ways, x.permute(0, 3, 1, 2), w.permute(2, 3, 0, 1))


def _transposed(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    _ways(ways, x, w, 1, transposed=True)


CONVS: dict[str, Callable[..., None]] = {
    "conv1d_ncw": _channels_first,
    "conv2d_nchw": _channels_first,
    "conv3d_ncdhw": _channels_first,
    "conv2d_nhwc": _nhwc,
    "conv2d_nchwc": _nchwc,
    "conv2d_transpose_nchw": _transposed,
    "depthwise_conv2d_nchw": _depthwise,
    "depthwise_conv2d_nhwc": _depthwise_nhwc,
}
