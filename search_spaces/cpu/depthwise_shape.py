"""What a depthwise convolution was asked for, and its weights as both templates read them."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.cpu.conv_shape import ConvShape, canonical_arguments

_SIZES = 4  # N, C, H, W come before the window
_of_convolutions = canonical_arguments(2)


def depthwise_shape(
    operator: str,
    layout: str,
    batch: int,
    channels: int,
    image: tuple[int, int],
    window: tuple[int, int],
    strides: Any,
    padding: Any,
    dilation: Any,
    multiplier: int,
    dtype: str,
) -> ConvShape:
    """The convolution, whose every channel is a group with ``multiplier`` results.

    Raises:
        ArgumentError: a multiplier below 1, and as :meth:`ConvShape.of`.
    """
    if not isinstance(multiplier, int) or isinstance(multiplier, bool) or multiplier < 1:
        raise ArgumentError(
            f"{operator}(..., multiplier={multiplier!r})",
            "each channel has a number of results, at least 1",
            "give 1 for as many results as channels",
        )
    whole = isinstance(channels, int)  # what else is wrong with it, the shape finds
    return ConvShape.of(
        operator, layout, batch, channels, image, channels * multiplier if whole else 1, window,
        strides, padding, dilation, max(channels, 1) if whole else 1, dtype,
    )  # fmt: skip


def canonical(args: tuple) -> tuple:
    """The arguments of a depthwise template in one form: 1 and (1, 1) are one workload."""
    wide = _of_convolutions((*args[:_SIZES], args[1], *args[_SIZES:]))
    return (*wide[:_SIZES], *wide[_SIZES + 1 :])


def taps(shape: ConvShape, weight: Tensor) -> Tensor:
    """The weights with a channel's number in the result as one index.

    Returns:
        (KH, KW, C * multiplier), or channels first: (C * multiplier, KH, KW).
    """
    each = int(weight.shape[3 if shape.channels_last else 1])
    if shape.channels_last:
        return te.compute(
            (*shape.window, shape.co),
            lambda ry, rx, o: weight[ry, rx, o // each, o % each],
            name="taps",
        )
    return te.compute(
        (shape.co, *shape.window),
        lambda o, ry, rx: weight[o // each, o % each, ry, rx],
        name="taps",
    )


def place_taps(s: Schedule, stage: Tensor, packed: bool) -> None:
    """Read weights as they come, which is in order already, or as they are packed ahead."""
    if packed:
        s[stage].compute_ahead()
    else:
        s[stage].compute_inline()
