"""What a convolution template was asked for: sizes, strides, padding, ...; what cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.topi.nn.epilogue import Epilogue

DTYPES = ("float32", "float64")
_SIZES = 2  # batch and input channels come before the spatial sizes


@dataclass(frozen=True)
class ConvShape:
    """A convolution's sizes; :meth:`of` makes and checks one.

    Attributes:
        asked: the call, for errors.
        layout: of data and result: ``"NCHW"``, ``"NHWC"``, ``"NCHWc"``, ``"NCW"``, ``"NCDHW"``.
        batch, ci, co: images, input channels, output channels.
        image: the data's spatial sizes, outermost first: ``h, w = shape.image``.
        window: the kernel's.
        strides, dilation: one int at least 1 a spatial dimension.
        before, after: zeros in front of and behind each spatial dimension.
        groups: of channels; both ``ci`` and ``co`` are divided among them.
        dtype: of data, weights and sums.
    """

    asked: str
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

    @staticmethod
    def of(
        operator: str,
        layout: str,
        batch: int,
        ci: int,
        image: tuple[int, ...],
        co: int,
        window: tuple[int, ...],
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        dtype: str = "float32",
    ) -> ConvShape:
        """The shape of a convolution as a template's arguments give it.

        Args:
            operator: the template's name, for errors.
            strides, dilation: an int, or one a spatial dimension.
            padding: an int, one a spatial dimension, or two: those in front, then those behind.

        Raises:
            ArgumentError: a size, stride or padding that cannot be; groups that do not divide the
                channels; a window larger than the padded image; another dtype than those here.
        """
        rank = len(image)
        asked = (
            f"{operator}(N={batch}, CI={ci}, image={image}, CO={co}, window={window}, "
            f"strides={strides}, padding={padding}, dilation={dilation}, groups={groups})"
        )
        for name, value in [("N", batch), ("CI", ci), ("CO", co), *(("image", v) for v in image)]:
            _whole(asked, name, value, 0)
        for value in window:
            _whole(asked, "window", value, 1)
        _whole(asked, "groups", groups, 1)
        steps = each(asked, "strides", strides, rank, 1)
        spread = each(asked, "dilation", dilation, rank, 1)
        before, after = _sides(asked, padding, rank)
        if ci % groups or co % groups:
            raise ArgumentError(
                asked,
                f"{groups} groups do not divide {ci} input and {co} output channels",
                "both numbers of channels must be multiples of groups",
            )
        if dtype not in DTYPES:
            raise ArgumentError(
                asked, f"dtype {dtype!r} is not one of {', '.join(DTYPES)}", "cast the data first"
            )
        shape = ConvShape(
            asked, layout, batch, ci, tuple(image), co, tuple(window), steps, before, after,
            spread, groups, dtype,
        )  # fmt: skip
        if any(r > p for r, p in zip(shape.reach, shape.padded)):
            raise ArgumentError(
                asked,
                f"the {_times(shape.reach)} window is larger than the padded image, "
                f"{_times(shape.padded)}",
                "pad the image, or take a smaller window or dilation",
            )
        return shape

    @property
    def reach(self) -> tuple[int, ...]:
        """How many pixels a window spans, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.window, self.dilation))

    @property
    def padded(self) -> tuple[int, ...]:
        """The spatial sizes of the padded image."""
        return tuple(i + b + a for i, b, a in zip(self.image, self.before, self.after))

    @property
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

    @property
    def is_padded(self) -> bool:
        """Whether there is any padding."""
        return any(self.before) or any(self.after)

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements, or each is a sum of none."""
        return 0 in (self.batch, self.ci, self.co)

    @property
    def is_pointwise(self) -> bool:
        """Whether each pixel of the result is a product of one pixel of the data alone."""
        ones = (1,) * len(self.image)
        return self.window == ones and self.strides == ones and not self.is_padded

    @property
    def flop(self) -> int:
        """Arithmetic operations of the direct algorithm."""
        results = self.batch * self.co * math.prod(self.out)
        return 2 * results * self.ci_group * math.prod(self.window)

    @property
    def channels_last(self) -> bool:
        """Whether the channels are the innermost dimension; of NCHWc only a block is."""
        return self.layout.endswith("C")

    @property
    def channel_axis(self) -> int:
        """Which dimension of the result the channels are."""
        return len(self.image) + 1 if self.channels_last else 1

    @property
    def data_shape(self) -> tuple[int, ...]:
        """The shape of the data, channels first or last."""
        return self._laid_out(self.ci, self.image)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result, channels first or last."""
        return self._laid_out(self.co, self.out)

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


def canonical_arguments(rank: int) -> Callable[[tuple], tuple]:
    """What gives the arguments of a convolution's template one form: 1 and (1, 1) are one workload.

    Args:
        rank: spatial dimensions. The arguments are N, CI, the image's, CO, the window's, strides,
            padding, dilation, groups, the dtype, an epilogue, and whatever else.
    """
    first = _SIZES + 2 * rank + 1

    def canonical(args: tuple) -> tuple:
        asked = f"a convolution of {args}"
        strides, padding, dilation = args[first : first + 3]
        before, after = _sides(asked, padding, rank)
        return (
            *args[:first],
            each(asked, "strides", strides, rank, 1),
            before if before == after else (*before, *after),
            each(asked, "dilation", dilation, rank, 1),
            *args[first + 3 : first + 5],
            Epilogue.of(args[first + 5]).steps,
            *args[first + 6 :],
        )

    return canonical


def _times(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def _whole(asked: str, name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ArgumentError(asked, f"{name} is {value!r}; it must be an int, at least {least}")


def pairs_of_arguments(args: tuple) -> tuple:
    """The arguments of a transposed convolution, with strides and paddings as pairs."""
    asked = f"a transposed convolution of {args}"
    strides, padding, more = args[7:10]
    return (
        *args[:7],
        each(asked, "strides", strides, 2, 1),
        each(asked, "padding", padding, 2, 0),
        each(asked, "output_padding", more, 2, 0),
        args[10],
        Epilogue.of(args[11]).steps,
        *args[12:],
    )


def each(asked: str, name: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """An int, or one a spatial dimension, as the latter.

    Raises:
        ArgumentError: another number of them, or one that is no int of at least ``least``.
    """
    items = tuple(value) if isinstance(value, tuple | list) else (value,) * rank
    if len(items) != rank:
        raise ArgumentError(asked, f"{name} has {len(items)} numbers: give one, or {rank}")
    for item in items:
        _whole(asked, name, item, least)
    return items


def _sides(asked: str, padding: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding in front and behind, an int each a spatial dimension."""
    if isinstance(padding, tuple | list) and len(padding) == 2 * rank and rank > 0:
        sides = each(asked, "padding", tuple(padding), 2 * rank, 0)
        return sides[:rank], sides[rank:]
    both = each(asked, "padding", padding, rank, 0)
    return both, both
