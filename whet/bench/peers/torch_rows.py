"""PyTorch's ways of what memory bounds: as it comes, into an output, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whet.bench.peers.torch_peers import TorchWays

Tensor = Any


def _softmax(ways: TorchWays, x: Tensor) -> None:
    import torch

    ways.plain(lambda x: torch.softmax(x, ways.a.axis), x)
    ways.into(lambda x, **more: torch.softmax(x, ways.a.axis, **more), x)


def _log_softmax(ways: TorchWays, x: Tensor) -> None:
    import torch

    ways.plain(lambda x: torch.log_softmax(x, ways.a.axis), x)


def _layer_norm(ways: TorchWays, x: Tensor, gamma: Tensor, beta: Tensor) -> None:
    from torch.nn import functional as F

    if tuple(ways.a.axes) != tuple(range(x.ndim - gamma.ndim, x.ndim)):
        return  # PyTorch's takes the last axes
    epsilon, shape = ways.a.epsilon, gamma.shape
    ways.plain(lambda x, g, b: F.layer_norm(x, shape, g, b, epsilon), x, gamma, beta)


def _rms_norm(ways: TorchWays, x: Tensor, gamma: Tensor) -> None:
    from torch.nn import functional as F

    if tuple(ways.a.axes) != tuple(range(x.ndim - gamma.ndim, x.ndim)):
        return
    epsilon, shape = ways.a.epsilon, gamma.shape
    ways.plain(lambda x, g: F.rms_norm(x, shape, g, epsilon), x, gamma)


def _batch_norm(ways: TorchWays, x: Tensor, *numbers: Tensor) -> None:
    from torch.nn import functional as F

    if ways.a.axis != 1:
        return
    gamma, beta, mean, variance = numbers
    epsilon = ways.a.epsilon
    ways.plain(lambda x: F.batch_norm(x, mean, variance, gamma, beta, eps=epsilon), x)


def _bias_gelu(ways: TorchWays, x: Tensor, bias: Tensor) -> None:
    from torch.nn import functional as F

    ways.plain(lambda x, b: F.gelu(x + b), x, bias)


def _add(ways: TorchWays, x: Tensor, y: Tensor) -> None:
    import torch

    ways.plain(torch.add, x, y)
    ways.into(torch.add, x, y)


def _transpose(ways: TorchWays, x: Tensor) -> None:
    import torch

    axes = ways.a.axes or tuple(reversed(range(x.ndim)))
    turned = x.permute(axes)
    out = torch.empty(turned.shape, dtype=x.dtype, device=x.device)
    ways.plain(lambda x: x.permute(axes).contiguous(), x)
    ways.add("copy_", lambda: lambda: out.copy_(turned))


def _reduced(name: str) -> Callable[[TorchWays, Tensor], None]:
    def add(ways: TorchWays, x: Tensor) -> None:
        import torch

        work = getattr(torch, name)
        axes = ways.a.axes if hasattr(ways.a, "axes") else ways.a.axis
        axes = tuple(range(x.ndim)) if axes is None else axes
        ways.plain(lambda x: work(x, dim=axes), x)
        if name in ("sum", "mean", "amax", "amin"):
            ways.into(lambda x, **more: work(x, dim=axes, **more), x)

    return add


def _pool(name: str) -> Callable[[TorchWays, Tensor], None]:
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


def _global_pool(ways: TorchWays, x: Tensor) -> None:
    from torch.nn import functional as F

    ways.plain(lambda x: F.adaptive_avg_pool2d(x, 1), x)
    ways.plain(lambda x: x.mean((2, 3), keepdim=True), x, name="mean")


def _adaptive_pool(ways: TorchWays, x: Tensor) -> None:
    from torch.nn import functional as F

    ways.plain(lambda x: F.adaptive_avg_pool2d(x, ways.a.output_size), x)


def _gather(ways: TorchWays, x: Tensor, places: Tensor) -> None:
    import torch

    wide = places.long()
    ways.plain(lambda x, i: torch.gather(x, ways.a.axis, i), x, wide)


def _take(ways: TorchWays, x: Tensor, places: Tensor) -> None:
    import torch

    if places.ndim == 1:
        ways.plain(lambda x, i: torch.index_select(x, ways.a.axis, i), x, places)


def _concatenate(ways: TorchWays, *parts: Tensor) -> None:
    import torch

    ways.plain(lambda *parts: torch.cat(parts, ways.a.axis), *parts)


def _pad(ways: TorchWays, x: Tensor) -> None:
    from torch.nn import functional as F

    a = ways.a
    after = a.before if a.after is None else a.after
    if a.mode == "constant":
        ends = [n for pair in reversed(list(zip(a.before, after))) for n in pair]
        ways.plain(lambda x: F.pad(x, ends, value=a.value), x)


def _resize(ways: TorchWays, x: Tensor) -> None:
    from torch.nn import functional as F

    a = ways.a
    if (a.method, a.coordinates) == ("linear", "half_pixel"):
        ways.plain(lambda x: F.interpolate(x, a.size, mode="bilinear"), x)


ROWS: dict[str, Callable[..., None]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "bias_gelu": _bias_gelu,
    "add": _add,
    "transpose": _transpose,
    "sum": _reduced("sum"),
    "mean": _reduced("mean"),
    "max": _reduced("amax"),
    "min": _reduced("amin"),
    "argmax": _reduced("argmax"),
    "argmin": _reduced("argmin"),
    "cumsum": _reduced("cumsum"),
    "max_pool2d": _pool("max_pool2d"),
    "avg_pool2d": _pool("avg_pool2d"),
    "global_avg_pool2d": _global_pool,
    "adaptive_avg_pool2d": _adaptive_pool,
    "gather": _gather,
    "take": _take,
    "concatenate": _concatenate,
    "pad": _pad,
    "resize2d": _resize,
}
