"""Depthwise convolutions on a GPU, as graphs for :mod:`whet.search_spaces.rules.gpu.window`."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.template import schedule_graph
from whet.search_spaces.operators.cpu.conv.depthwise_shape import depthwise_arguments, taps
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.operators.gpu.matmul import refuse_packed
from whet.search_spaces.rules.gpu.contraction.unreduced import without_terms
from whet.search_spaces.rules.gpu.lanes import of_products


def depthwise_conv2d_nchw(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """Channels first; arguments as the CPU's template of this name takes them."""
    shape, multiplier, epilogue, packed = depthwise_arguments("depthwise_conv2d_nchw", "NCHW", args)
    weight = te.placeholder((shape.ci, multiplier, *shape.window), shape.dtype, name="weight")
    return _depthwise(shape, weight, multiplier, epilogue, packed)


def depthwise_conv2d_nhwc(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """Channels last; arguments as the CPU's template of this name takes them."""
    shape, multiplier, epilogue, packed = depthwise_arguments("depthwise_conv2d_nhwc", "NHWC", args)
    weight = te.placeholder((*shape.window, shape.ci, multiplier), shape.dtype, name="weight")
    return _depthwise(shape, weight, multiplier, epilogue, packed)


def _depthwise(
    shape: ConvShape, weight: Tensor, each: int, epilogue: Any, packed: bool
) -> tuple[Schedule, list[Tensor]]:
    """The schedule under the config in force."""
    refuse_packed("weight", packed)
    get_config().add_flop(shape.flop)
    steps = Epilogue.of(epilogue)
    data = te.placeholder(shape.data_shape, shape.dtype, name="data")
    if shape.is_empty:
        return without_terms(data, weight, shape.result_shape, steps, shape.channel_axis, "conv")
    conv = _sums(shape, _padded(shape, data), taps(shape, weight), each)
    out, extras = steps.apply(conv, shape.channel_axis, stored=of_products(shape.dtype)[1])
    return schedule_graph(ComputeGraph([out], [data, weight, *extras, out]))


def _padded(shape: ConvShape, data: Tensor) -> Tensor:
    """The image with zeros around it, in the type of the sums."""
    (top, left), (h, w) = shape.before, shape.image
    kind, _ = of_products(shape.dtype)

    def element(*index: Any) -> Any:
        y, x = (index[1], index[2]) if shape.channels_last else (index[2], index[3])
        row, column = y - top, x - left
        if shape.channels_last:
            pixel = data(index[0], row, column, index[3])
        else:
            pixel = data(index[0], index[1], row, column)
        value = pixel.astype(kind)
        if not shape.is_padded:
            return value
        inside = te.all(row >= 0, row < h, column >= 0, column < w)
        return te.if_then_else(inside, value, te.const(0, kind))

    rows, columns = shape.padded
    if shape.channels_last:
        return te.compute((shape.batch, rows, columns, shape.ci), element, name="padded")
    return te.compute((shape.batch, shape.ci, rows, columns), element, name="padded")


def _sums(shape: ConvShape, padded: Tensor, own: Tensor, each: int) -> Tensor:
    (sh, sw), (dh, dw) = shape.strides, shape.dilation
    ry, rx = (te.reduce_axis((0, k), name=n) for k, n in zip(shape.window, ("ry", "rx")))
    kind, _ = of_products(shape.dtype)

    def element(*index: Any) -> Any:
        if shape.channels_last:
            n, y, x, o = index
            pixel = padded(n, y * sh + ry * dh, x * sw + rx * dw, o // each if each > 1 else o)
            return te.sum(pixel * own(ry, rx, o).astype(kind), [ry, rx])
        n, o, y, x = index
        pixel = padded(n, o // each if each > 1 else o, y * sh + ry * dh, x * sw + rx * dw)
        return te.sum(pixel * own(o, ry, rx).astype(kind), [ry, rx])

    return te.compute(shape.result_shape, element, name="conv")
