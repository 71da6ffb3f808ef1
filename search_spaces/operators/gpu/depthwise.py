"""Depthwise convolutions on a GPU, as graphs for :mod:`whet.search_spaces.rules.gpu.window`."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.cpu.conv.depthwise_shape import depthwise_arguments, taps
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.operators.gpu.empty_contraction import empty_contraction
from whet.search_spaces.operators.gpu.layout import channels_first, in_layout, pixel
from whet.search_spaces.operators.gpu.results import (
    Scheduled,
    accumulated,
    refuse_packed,
    scheduled_as_graph,
)
from whet.search_spaces.template.config_scope import get_config


def depthwise_conv2d_nchw(*args: Any) -> Scheduled:
    """Channels first; arguments as the CPU's template of this name takes them."""
    shape, multiplier, epilogue, packed = depthwise_arguments("depthwise_conv2d_nchw", "NCHW", args)
    weight = te.placeholder((shape.ci, multiplier, *shape.window), shape.dtype, name="weight")
    return _depthwise(shape, weight, multiplier, epilogue, packed)


def depthwise_conv2d_nhwc(*args: Any) -> Scheduled:
    """Channels last; arguments as the CPU's template of this name takes them."""
    shape, multiplier, epilogue, packed = depthwise_arguments("depthwise_conv2d_nhwc", "NHWC", args)
    weight = te.placeholder((*shape.window, shape.ci, multiplier), shape.dtype, name="weight")
    return _depthwise(shape, weight, multiplier, epilogue, packed)


def _depthwise(
    shape: ConvShape, weight: Tensor, each: int, epilogue: Any, packed: bool
) -> Scheduled:
    """The schedule under the config in force."""
    refuse_packed("weight", packed)
    get_config().add_flop(shape.flop)
    steps = Epilogue.of(epilogue)
    data = te.placeholder(shape.data_shape, shape.dtype, name="data")
    if shape.is_empty:
        return empty_contraction(
            data, weight, shape.result_shape, steps, shape.channel_axis, "conv"
        )
    conv = _sums(shape, _padded(shape, data), taps(shape, weight), each)
    return scheduled_as_graph(conv, steps, shape.channel_axis, [data, weight])


def _padded(shape: ConvShape, data: Tensor) -> Tensor:
    """The image with zeros around it, in the type of the sums."""
    (top, left), (kind, _) = shape.before, accumulated(shape.dtype)

    def element(*index: Any) -> Any:
        n, c, y, x = channels_first(shape, index)
        return pixel(shape, data, (n, c, y - top, x - left), kind, padded=shape.is_padded)

    dims = (shape.batch, *in_layout(shape, shape.ci, *shape.padded))
    return te.compute(dims, element, name="padded")


def _sums(shape: ConvShape, padded: Tensor, own: Tensor, each: int) -> Tensor:
    (sh, sw), (dh, dw) = shape.strides, shape.dilation
    ry, rx = (te.reduce_axis((0, k), name=n) for k, n in zip(shape.window, ("ry", "rx")))
    kind, _ = accumulated(shape.dtype)

    def element(*index: Any) -> Any:
        n, o, y, x = channels_first(shape, index)
        channel = o // each if each > 1 else o
        value = padded(n, *in_layout(shape, channel, y * sh + ry * dh, x * sw + rx * dw))
        return te.sum(value * own(*in_layout(shape, o, ry, rx)).astype(kind), [ry, rx])

    return te.compute(shape.result_shape, element, name="conv")
