"""Depthwise convolutions on a GPU, as graphs for :mod:`whet.search_spaces.rules.gpu.window`."""

from __future__ import annotations

from functools import partial
from typing import Any

from whet.compiler import te
from whet.search_spaces.operators.cpu.conv.depthwise_shape import depthwise_arguments, taps
from whet.search_spaces.operators.gpu.layout import channels_first, in_layout, pixel
from whet.search_spaces.operators.gpu.results import (
    Scheduled,
    accumulated,
    empty_contraction,
    refuse_packed,
    scheduled_as_graph,
)
from whet.search_spaces.template.config_scope import get_config


def _depthwise(name: str, layout: str, *args: Any) -> Scheduled:
    """The schedule under the config in force; arguments as the CPU's template takes them."""
    shape, each, data, weight, steps, packed = depthwise_arguments(name, layout, args)
    refuse_packed("weight", packed)
    get_config().add_flop(shape.flop)
    if shape.is_empty:
        return empty_contraction(
            data, weight, shape.result_shape, steps, shape.channel_axis, "conv"
        )
    (top, left), (sh, sw), (dh, dw) = shape.before, shape.strides, shape.dilation
    own, (ry, rx), (kind, _) = taps(shape, weight), shape.window_axes(), accumulated(shape.dtype)

    def pixels(*index: Any) -> Any:
        """The image with zeros around it, in the type of the sums."""
        n, c, y, x = channels_first(shape, index)
        return pixel(shape, data, (n, c, y - top, x - left), kind, padded=shape.is_padded)

    dims = (shape.batch, *in_layout(shape, shape.ci, *shape.padded))
    padded = te.compute(dims, pixels, name="padded")

    def element(*index: Any) -> Any:
        n, o, y, x = channels_first(shape, index)
        channel = o // each if each > 1 else o
        value = padded(n, *in_layout(shape, channel, y * sh + ry * dh, x * sw + rx * dw))
        return te.sum(value * own(*in_layout(shape, o, ry, rx)).astype(kind), [ry, rx])

    conv = te.compute(shape.result_shape, element, name="conv")
    return scheduled_as_graph(conv, steps, shape.channel_axis, [data, weight])


depthwise_conv2d_nchw = partial(_depthwise, "depthwise_conv2d_nchw", "NCHW")
depthwise_conv2d_nhwc = partial(_depthwise, "depthwise_conv2d_nhwc", "NHWC")
