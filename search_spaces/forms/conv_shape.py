"""The sizes of a convolution: channels, image, window, strides, padding, ..."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from whet.compiler import te
from whet.compiler.tir import IterVar


@dataclass(frozen=True)
class ConvShape:
    """A convolution's sizes.

    Attributes:
        layout: of data and result: ``"NCHW"``, ``"NHWC"``, ``"NCHWc"``, ``"NCW"``, ``"NCDHW"``.
        batch, ci, co: images, input channels, output channels.
        image: the data's spatial sizes, outermost first: ``h, w = shape.image``.
        window: the kernel's.
        strides, dilation: one int at least 1 a spatial dimension.
        before, after: zeros in front of and behind each spatial dimension.
        groups: of channels; both ``ci`` and ``co`` are divided among them.
        dtype: of data, weights and sums.
        request: what was asked for, for errors.
    """

    layout: str
    batch: int
    ci: int
    image: tuple[int, ...]
    co: int
    window: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    dtype: str
    request: str = field(default="", compare=False)

    @cached_property
    def reach(self) -> tuple[int, ...]:
        """How many pixels a window spans, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.window, self.dilation))

    @cached_property
    def padded(self) -> tuple[int, ...]:
        """The spatial sizes of the padded image."""
        return tuple(i + b + a for i, b, a in zip(self.image, self.before, self.after))

    @cached_property
    def out(self) -> tuple[int, ...]:
        """The result's spatial sizes: ``oh, ow = shape.out``."""
        return tuple((p - r) // s + 1 for p, r, s in zip(self.padded, self.reach, self.strides))

    @property
    def ci_group(self) -> int:
        """Input channels that one output channel reads."""
        return self.ci // self.groups

    @property
    def co_group(self) -> int:
        """Output channels of a group."""
        return self.co // self.groups

    def group_of(self, o: Any) -> Any:
        """The group of output channel ``o``; without output channels, nothing asks for it."""
        return o // max(1, self.co_group)

    @property
    def is_padded(self) -> bool:
        """True if there is any padding."""
        return any(self.before) or any(self.after)

    def is_padded_along(self, axis: int) -> bool:
        """True if there is padding in a spatial dimension."""
        return self.before[axis] > 0 or self.after[axis] > 0

    @property
    def is_empty(self) -> bool:
        """True if the result has no elements, or each is a sum of none."""
        return 0 in (self.batch, self.ci, self.co)

    @property
    def is_pointwise(self) -> bool:
        """True if each pixel of the result is a product of one pixel of the data alone."""
        ones = (1,) * len(self.image)
        return self.window == ones and self.strides == ones and not self.is_padded

    @property
    def picked(self) -> ConvShape:
        """The convolution of the pixels that a strided 1x1 window meets; of others the same one."""
        ones, none = (1,) * len(self.image), (0,) * len(self.image)
        if self.window != ones or self.strides == ones:
            return self
        return replace(self, image=self.out, strides=ones, before=none, after=none)

    @property
    def flop(self) -> int:
        """Arithmetic operations of the direct algorithm."""
        results = self.batch * self.co * math.prod(self.out)
        return 2 * results * self.ci_group * math.prod(self.window)

    @property
    def channels_last(self) -> bool:
        """True if the channels are the innermost dimension; of NCHWc only a block is."""
        return self.layout.endswith("C")

    @property
    def channel_axis(self) -> int:
        """The dimension of the result that the channels are."""
        return len(self.image) + 1 if self.channels_last else 1

    @property
    def data_shape(self) -> tuple[int, ...]:
        """The shape of the data, channels first or last."""
        return self._laid_out(self.ci, self.image)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result, channels first or last."""
        return self._laid_out(self.co, self.out)

    def window_axes(self) -> list[IterVar]:
        """New reduction axes over a window: ``rz``, ``ry``, ``rx``."""
        names = ("rz", "ry", "rx")[3 - len(self.window) :]
        return [te.reduce_axis((0, n), name=name) for n, name in zip(self.window, names)]

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of the weights: OIHW, or HWIO where the channels are last."""
        if self.channels_last:
            return (*self.window, self.ci_group, self.co)
        return (self.co, self.ci_group, *self.window)

    def _laid_out(self, channels: int, spatial: tuple[int, ...]) -> tuple[int, ...]:
        if self.channels_last:
            return (self.batch, *spatial, channels)
        return (self.batch, channels, *spatial)
