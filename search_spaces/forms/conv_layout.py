"""Convolutions of images in both layouts: indices, groups of channels, pixels with padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te import Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.conv_shape import ConvShape


def in_layout(shape: ConvShape, channel: Any, *place: Any) -> tuple:
    """A channel and a place in the order of the layout, without the image."""
    return (*place, channel) if shape.channels_last else (channel, *place)


def channels_first(shape: ConvShape, index: Sequence[Any]) -> tuple:
    """``(image, channel, *place)`` of an index, or of axes, in the layout."""
    image, *rest = index
    channel = rest.pop(shape.channel_axis - 1)
    return (image, channel, *rest)


def weight_index(shape: ConvShape, out: Any, channel: Any, *place: Any) -> tuple:
    """An index of the weights: OIHW, or HWIO where the channels are last."""
    return (*place, channel, out) if shape.channels_last else (out, channel, *place)


def channel_of(shape: ConvShape, group: Any, per: int, own: Any) -> Any:
    """A channel of a group that has ``per`` of them."""
    return group * per + own if shape.groups > 1 else own


def split_channel(shape: ConvShape, out: Any) -> tuple[Any, Any]:
    """The group of an output channel, and its place in it."""
    return (out // shape.co_group, out % shape.co_group) if shape.groups > 1 else (0, out)


def split_groups(shape: ConvShape, stage: Stage, axis: IterVar) -> tuple[list[IterVar], IterVar]:
    """The loop over groups, if there are several, and the loop over a group's output channels."""
    if shape.groups == 1:
        return [], axis
    group, own = stage.split(axis, factor=shape.co_group)
    return [group], own


def pixel(
    shape: ConvShape, data: Tensor, place: Sequence[Any], kind: str, *also: Any, padded: bool = True
) -> Any:
    """An element of the image as another type; 0 outside the image.

    Args:
        shape: of images.
        data: in its layout.
        place: image, channel, row and column.
        kind: the type of the element.
        also: further conditions of an element that is not 0.
        padded: whether the place may be outside the image.
    """
    image, channel, row, column = place
    value = data(image, *in_layout(shape, channel, row, column)).astype(kind)
    if not padded:
        return value
    h, w = shape.image
    inside = te.all(row >= 0, row < h, column >= 0, column < w, *also)
    return te.if_then_else(inside, value, te.const(0, kind))
