"""The arguments of a convolution: sizes, strides, padding, ...; what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.operators.arguments import each, sides


def conv_shape(
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
    request: str = "",
) -> ConvShape:
    """The shape of a convolution as a template's arguments give it.

    Args:
        operator: the template's name, for errors.
        strides, dilation: an int, or one a spatial dimension.
        padding: an int, one a spatial dimension, or two: those in front, then those behind.
        request: the call, for errors, where the user gave other arguments than these.

    The template's canonical form has checked the arguments one by one.

    Raises:
        ArgumentError: groups that do not divide the channels; a window larger than the padded
            image; strides, dilation or padding that cannot be.
    """
    rank = len(image)
    request = request or (
        f"{operator}(N={batch}, CI={ci}, image={image}, CO={co}, window={window}, "
        f"strides={strides}, padding={padding}, dilation={dilation}, groups={groups})"
    )
    steps = each(request, "strides", strides, rank, 1)
    spread = each(request, "dilation", dilation, rank, 1)
    before, after = sides(request, padding, rank)
    if ci % groups or co % groups:
        raise ArgumentError(
            request,
            f"{groups} groups do not divide {ci} input and {co} output channels",
            "both numbers of channels must be multiples of groups",
        )
    shape = ConvShape(
        layout, batch, ci, tuple(image), co, tuple(window), steps, before, after,
        spread, groups, dtype, request,
    )  # fmt: skip
    if any(r > p for r, p in zip(shape.reach, shape.padded)):
        raise ArgumentError(
            request,
            f"the {_times(shape.reach)} window is larger than the padded image, "
            f"{_times(shape.padded)}",
            "pad the image, or take a smaller window or dilation",
        )
    return shape


def conv_arguments(operator: str, layout: str, args: Sequence[Any]) -> tuple[ConvShape, Any, bool]:
    """The shape, the epilogue and ``packed`` of a template's arguments, all of them given.

    Args:
        operator, layout: as for :func:`conv_shape`.
        args: N, CI, the image, CO, the window, strides, padding, dilation, groups, dtype,
            epilogue, packed.
    """
    rank = len(layout.removesuffix("c")) - 2
    batch, ci, *rest = args
    image, co, window = tuple(rest[:rank]), rest[rank], tuple(rest[rank + 1 : 2 * rank + 1])
    *how, epilogue, packed = rest[2 * rank + 1 :]
    return conv_shape(operator, layout, batch, ci, image, co, window, *how), epilogue, packed


def depthwise_arguments(
    name: str, layout: str, args: Sequence[Any]
) -> tuple[ConvShape, Tensor, Tensor, Epilogue, bool]:
    """The convolution, operands, epilogue and ``packed`` of a template's arguments.

    Every channel is a group with ``multiplier`` results.

    Args:
        name, layout: as for :func:`conv_shape`.
        args: N, C, H, W, KH, KW, strides, padding, dilation, multiplier, dtype, epilogue, packed.

    Raises:
        ArgumentError: as :func:`conv_shape`.
    """
    batch, channels, h, w, kh, kw, strides, padding, dilation, multiplier, dtype, *last = args
    image, window = (h, w), (kh, kw)
    request = (
        f"{name}(N={batch}, C={channels}, image={image}, window={window}, strides={strides}, "
        f"padding={padding}, dilation={dilation}, multiplier={multiplier})"
    )
    shape = conv_shape(
        name, layout, batch, channels, image, channels * multiplier, window,
        strides, padding, dilation, max(channels, 1), dtype, request,
    )  # fmt: skip
    sizes = (*shape.window, channels, multiplier)
    if not shape.channels_last:
        sizes = (channels, multiplier, *shape.window)
    data = te.placeholder(shape.data_shape, dtype, name="data")
    weight = te.placeholder(sizes, dtype, name="weight")
    epilogue, packed = last
    return shape, data, weight, Epilogue.of(epilogue), packed


def checked_blocks(shape: ConvShape, block: int) -> None:
    """Refuse blocks that do not divide both channels of a group.

    Raises:
        ArgumentError: they do not.
    """
    if shape.ci_group % block or shape.co_group % block:
        raise ArgumentError(
            shape.request,
            f"blocks of {block} channels do not divide the {shape.ci_group} input and "
            f"{shape.co_group} output channels of a group",
            "give block a common divisor, or use conv2d_nhwc",
        )


def _times(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))
