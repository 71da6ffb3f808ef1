"""What a depthwise convolution was asked for, and its weights as both templates read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.cpu.conv.shape import ConvShape

ARGUMENTS = "N C H W KH KW strides padding dilation multiplier dtype epilogue packed"
"""Of both templates."""


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
        ArgumentError: as :meth:`ConvShape.of`.
    """
    asked = (
        f"{operator}(N={batch}, C={channels}, image={image}, window={window}, strides={strides}, "
        f"padding={padding}, dilation={dilation}, multiplier={multiplier})"
    )
    return ConvShape.of(
        operator, layout, batch, channels, image, channels * multiplier, window,
        strides, padding, dilation, max(channels, 1), dtype, asked,
    )  # fmt: skip


def depthwise_arguments(
    operator: str, layout: str, args: Sequence[Any]
) -> tuple[ConvShape, int, Any, bool]:
    """The convolution, the multiplier, the epilogue and ``packed`` of a template's arguments.

    Args:
        operator, layout: as for :func:`depthwise_shape`.
        args: :data:`ARGUMENTS`, all of them given.
    """
    N, C, H, W, KH, KW, strides, padding, dilation, multiplier, dtype, epilogue, packed = args
    shape = depthwise_shape(
        operator, layout, N, C, (H, W), (KH, KW), strides, padding, dilation, multiplier, dtype
    )
    return shape, multiplier, epilogue, packed


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
