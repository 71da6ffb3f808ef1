"""Convolutions in any number of dimensions on a GPU, as graphs that the rules schedule.

Signals, volumes, blocks of channels, transposed convolutions, and images of int8: the sums are a
GEMM by :mod:`whet.search_spaces.rules.gpu.contraction.tiled`, or an element a thread where there
are few channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.cpu.conv.shape import ConvShape, checked_blocks
from whet.search_spaces.operators.cpu.conv.transposed_phases import Phases
from whet.search_spaces.operators.gpu.layout import channel_of, channels_first, in_layout
from whet.search_spaces.operators.gpu.results import (
    Scheduled,
    accumulated,
    empty_contraction,
    refuse_packed,
    scheduled_as_graph,
)
from whet.search_spaces.template.config_scope import get_config

Weight = Callable[..., Any]


def _convolution(name: str, layout: str, *args: Any) -> Scheduled:
    """Channels first; arguments as the CPU's template of this name takes them."""
    return convolution_graph(*ConvShape.of_arguments(name, layout, args))


conv1d_ncw = partial(_convolution, "conv1d_ncw", "NCW")
conv3d_ncdhw = partial(_convolution, "conv3d_ncdhw", "NCDHW")


def conv2d_nchwc(*args: Any) -> Scheduled:
    """Blocks of channels; arguments as the CPU's template of this name takes them."""
    *plain, block = args
    shape, epilogue, packed = ConvShape.of_arguments("conv2d_nchwc", "NCHWc", plain)
    checked_blocks(shape, block)
    return convolution_graph(shape, epilogue, packed, block)


def conv2d_transpose_nchw(*args: Any) -> Scheduled:
    """Transposed, channels first; arguments as the CPU's template of this name takes them."""
    *plain, epilogue, packed = args
    phases = Phases.of(*plain)
    shape, steps = phases.shape, Epilogue.of(epilogue)
    refuse_packed("weight", packed)
    get_config().add_flop(phases.flop)
    n, ci, h, w, co, kh, kw = plain[:7]
    data = te.placeholder((n, ci, h, w), shape.dtype, name="data")
    weight = te.placeholder((ci, co, kh, kw), shape.dtype, name="weight")
    if shape.is_empty:
        return empty_contraction(data, weight, phases.result_shape, steps, 1, "result")
    result = phases.result(sums(shape, phases.seen(data), phases.weight(weight)))
    return scheduled_as_graph(result, steps, 1, [data, weight])


def convolution_graph(shape: ConvShape, epilogue: Any, packed: bool, block: int = 0) -> Scheduled:
    """The schedule of a convolution under the config in force.

    Args:
        shape: in any layout.
        epilogue: what is done to each element before it is stored.
        packed: must be false.
        block: channels that lie side by side behind the pixels; 0: the channels are one dimension.

    Raises:
        ArgumentError: ``packed``: a GPU's kernel reads its weights as they are.
    """
    refuse_packed("weight", packed)
    get_config().add_flop(shape.flop)
    steps = Epilogue.of(epilogue)
    data = te.placeholder(blocked(shape.data_shape, block), shape.dtype, name="data")
    weight = te.placeholder(shape.weight_shape, shape.dtype, name="weight")
    channels = (1, len(shape.image) + 2) if block else shape.channel_axis
    if shape.is_empty:
        return empty_contraction(
            data, weight, blocked(shape.result_shape, block), steps, channels, "conv"
        )

    def from_hwio(o: Any, c: Any, *place: Any) -> Any:
        return weight(*place, c, o)

    conv = sums(shape, data, from_hwio if shape.channels_last else weight, block)
    return scheduled_as_graph(conv, steps, channels, [data, weight])


def blocked(sizes: Sequence[int], block: int) -> tuple[int, ...]:
    """A shape with the channels first, or with blocks of them last."""
    if not block:
        return tuple(sizes)
    return (sizes[0], sizes[1] // block, *sizes[2:], block)


def sums(shape: ConvShape, data: Tensor, weight: Weight, block: int = 0) -> Tensor:
    """The sums of a convolution: the layout of the data, the type that sums are kept in.

    Args:
        data: in the layout of the shape.
        weight: (output channel, input channel of the group, place in the window...) -> a weight.
    """
    kind, _ = accumulated(shape.dtype)
    many = block or shape.ci_group
    outer = te.reduce_axis((0, shape.ci_group // many), name="co") if block else 0
    inner = te.reduce_axis((0, many), name="c")
    window = shape.window_axes()

    def element(n: Any, *rest: Any) -> Any:
        _, o, *place = channels_first(shape, (n, *rest))
        at = [
            p * s + r * d - b
            for p, s, r, d, b in zip(place, shape.strides, window, shape.dilation, shape.before)
        ]
        if block:
            channel, group = o * block + place[-1], o // (shape.co_group // block)
            own = channel_of(shape, group, shape.ci_group // block, outer)
            read: Any = data(n, own, *at, inner)
        else:
            channel, group = o, o // shape.co_group
            own = channel_of(shape, group, shape.ci_group, inner)
            read = data(n, *in_layout(shape, own, *at))
        tests = [i >= 0 for i, b in zip(at, shape.before) if b]
        tests += [i < size for i, size, a in zip(at, shape.image, shape.after) if a]
        if tests:
            read = te.if_then_else(te.all(*tests), read, te.const(0, shape.dtype))
        factor = weight(channel, outer * block + inner, *window)
        return te.sum(
            read.astype(kind) * factor.astype(kind),
            axis=[*([outer] if block else []), inner, *window],
        )

    return te.compute(blocked(shape.result_shape, block), element, name="conv")
