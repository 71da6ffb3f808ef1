"""Convolutional networks: ResNet, MobileNet, EfficientNet, UNet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Made = tuple[nn.Module, dict[str, Tensor]]


def _image(batch: int, size: int) -> dict[str, Tensor]:
    return {"image": torch.randn(batch, 3, size, size)}


def _conv(ci: int, co: int, window: int = 1, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(ci, co, window, stride, window // 2, groups=groups, bias=False)


def _unit(ci: int, co: int, window: int, stride: int, act: Any, groups: int = 1) -> nn.Sequential:
    """A convolution, its batch norm, and a nonlinearity if there is one."""
    parts = [_conv(ci, co, window, stride, groups), nn.BatchNorm2d(co)]
    return nn.Sequential(*parts, *([] if act is None else [act()]))


def _even(x: float) -> int:
    """Channels: the multiple of 8 nearest to ``x``, at least 0.9 of it."""
    near = max(8, int(x + 4) // 8 * 8)
    return near + 8 if near < 0.9 * x else near


class _Bottleneck(nn.Module):
    def __init__(self, ci: int, width: int, stride: int) -> None:
        super().__init__()
        co = 4 * width
        self.body = nn.Sequential(
            _unit(ci, width, 1, 1, nn.ReLU), _unit(width, width, 3, stride, nn.ReLU),
            _unit(width, co, 1, 1, None),
        )  # fmt: skip
        same = ci == co and stride == 1
        self.skip = nn.Identity() if same else _unit(ci, co, 1, stride, None)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def resnet50(
    batch: int, size: int = 224, width: int = 64, depths: tuple[int, ...] = (3, 4, 6, 3),
    classes: int = 1000,
) -> Made:  # fmt: skip
    """ResNet-50 of He and others, the stride in the windows of 3 x 3."""
    parts: list[nn.Module] = [_unit(3, width, 7, 2, nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    ci = width
    for k, depth in enumerate(depths):
        for i in range(depth):
            parts.append(_Bottleneck(ci, width << k, 2 if k and not i else 1))
            ci = 4 * (width << k)
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ci, classes)]
    return nn.Sequential(*parts), _image(batch, size)


class _Squeeze(nn.Module):
    """Channels weighted by what a small network makes of their means."""

    def __init__(self, channels: int, inner: int, act: Any, gate: Any) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), act(),
            nn.Conv2d(inner, channels, 1), gate(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.body(x)


class _Inverted(nn.Module):
    """A wide depthwise convolution between two pointwise ones."""

    def __init__(
        self, ci: int, wide: int, co: int, window: int, stride: int, act: Any,
        squeeze: Callable[[int], nn.Module] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        parts: list[nn.Module] = [] if wide == ci else [_unit(ci, wide, 1, 1, act)]
        parts.append(_unit(wide, wide, window, stride, act, groups=wide))
        if squeeze is not None:
            parts.append(squeeze(wide))
        self.body = nn.Sequential(*parts, _unit(wide, co, 1, 1, None))
        self.adds = stride == 1 and ci == co

    def forward(self, x: Tensor) -> Tensor:
        made = self.body(x)
        return x + made if self.adds else made


def _head(ci: int, inner: list[nn.Module], co: int, classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *inner, nn.Linear(co if inner else ci, classes)]


def mobilenet_v2(
    batch: int, size: int = 224, width: float = 1.0, rows: int = 7, classes: int = 1000
) -> Made:
    """MobileNet-v2: so many rows, which are expansion, channels, blocks, stride."""
    table = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip
    ci = _even(32 * width)
    parts: list[nn.Module] = [_unit(3, ci, 3, 2, nn.ReLU6)]
    for expansion, channels, blocks, stride in table[:rows]:
        co = _even(channels * width)
        for i in range(blocks):
            s = 1 if i else stride
            parts.append(_Inverted(ci, expansion * ci, co, 3, s, nn.ReLU6))
            ci = co
    last = _even(1280 * width)
    parts += [_unit(ci, last, 1, 1, nn.ReLU6), *_head(last, [], last, classes)]
    return nn.Sequential(*parts), _image(batch, size)


def mobilenet_v3_large(
    batch: int, size: int = 224, width: float = 1.0, rows: int = 15, classes: int = 1000
) -> Made:
    """MobileNet-v3-large: rows are window, wide, channels, squeeze, h-swish, stride."""
    table = (
        (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2),
        (5, 120, 40, 1, 0, 1), (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1),
        (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1),
        (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1),
        (5, 960, 160, 1, 1, 1),
    )  # fmt: skip

    def squeeze(channels: int) -> nn.Module:
        return _Squeeze(channels, _even(channels / 4), nn.ReLU, nn.Hardsigmoid)

    ci = _even(16 * width)
    parts: list[nn.Module] = [_unit(3, ci, 3, 2, nn.Hardswish)]
    for window, wide, channels, squeezed, swish, stride in table[:rows]:
        co, act = _even(channels * width), nn.Hardswish if swish else nn.ReLU
        expanded = _even(wide * width)
        more = squeeze if squeezed else None
        parts.append(_Inverted(ci, expanded, co, window, stride, act, more))
        ci = co
    wide, last = _even(960 * width), _even(1280 * width)
    inner = [nn.Linear(wide, last), nn.Hardswish(), nn.Dropout(0.2)]
    parts += [_unit(ci, wide, 1, 1, nn.Hardswish), *_head(wide, inner, last, classes)]
    return nn.Sequential(*parts), _image(batch, size)


def efficientnet_b0(
    batch: int, size: int = 224, width: float = 1.0, rows: int = 7, classes: int = 1000
) -> Made:
    """EfficientNet-B0: rows are expansion, window, channels, blocks, stride."""
    table = (
        (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1),
        (6, 5, 192, 4, 2), (6, 3, 320, 1, 1),
    )  # fmt: skip
    ci = _even(32 * width)
    parts: list[nn.Module] = [_unit(3, ci, 3, 2, nn.SiLU)]
    for expansion, window, channels, blocks, stride in table[:rows]:
        co = _even(channels * width)
        for i in range(blocks):
            inner = max(1, ci // 4)

            def squeeze(wide: int, inner: int = inner) -> nn.Module:
                return _Squeeze(wide, inner, nn.SiLU, nn.Sigmoid)

            s = 1 if i else stride
            parts.append(_Inverted(ci, expansion * ci, co, window, s, nn.SiLU, squeeze))
            ci = co
    last = _even(1280 * width)
    parts += [_unit(ci, last, 1, 1, nn.SiLU), *_head(last, [nn.Dropout(0.2)], last, classes)]
    return nn.Sequential(*parts), _image(batch, size)


class _UNet(nn.Module):
    def __init__(self, width: int, depth: int, classes: int) -> None:
        super().__init__()
        channels = [width << k for k in range(depth + 1)]
        self.down = nn.ModuleList(self._pair(ci, co) for ci, co in zip([3, *channels], channels))
        pairs = list(zip(channels[::-1], channels[-2::-1]))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(ci, co, 2, 2) for ci, co in pairs)
        self.up = nn.ModuleList(self._pair(2 * co, co) for _, co in pairs)
        self.last = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _pair(ci: int, co: int) -> nn.Module:
        return nn.Sequential(_unit(ci, co, 3, 1, nn.ReLU), _unit(co, co, 3, 1, nn.ReLU))

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for k, part in enumerate(self.down):
            x = part(nn.functional.max_pool2d(x, 2) if k else x)
            kept.append(x)
        kept.pop()
        for grow, part in zip(self.grow, self.up):
            x = part(torch.cat([kept.pop(), grow(x)], 1))
        out: Tensor = self.last(x)
        return out


def unet(batch: int, size: int = 128, width: int = 32, depth: int = 4, classes: int = 2) -> Made:
    """A UNet: so many halvings, channels doubled by each, transposed convolutions back up."""
    return _UNet(width, depth, classes), _image(batch, size)
