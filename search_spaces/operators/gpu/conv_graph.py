"""Convolutions in any number of dimensions on a GPU, as graphs that the rules schedule.

Signals, volumes, blocks of channels, transposed convolutions, and images of bytes: the sums are a
GEMM by :mod:`whet.search_spaces.rules.gpu.contraction.tiled`, or an element a thread where there
are few channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.template import schedule_graph
from whet.search_spaces.operators.cpu.conv.shape import ConvShape, checked_blocks
from whet.search_spaces.operators.cpu.conv.transposed_phases import Phases
from whet.search_spaces.operators.gpu.matmul import refuse_packed
from whet.search_spaces.rules.gpu.contraction.unreduced import without_terms
from whet.search_spaces.rules.gpu.lanes import of_products

Weight = Callable[..., Any]


def conv1d_ncw(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """Signals, channels first; arguments as the CPU's template of this name takes them."""
    return convolution_graph(*ConvShape.of_arguments("conv1d_ncw", "NCW", args))


def conv3d_ncdhw(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """Volumes, channels first; arguments as the CPU's template of this name takes them."""
    return convolution_graph(*ConvShape.of_arguments("conv3d_ncdhw", "NCDHW", args))


def conv2d_nchwc(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """Blocks of channels; arguments as the CPU's template of this name takes them."""
    *plain, block = args
    shape, epilogue, packed = ConvShape.of_arguments("conv2d_nchwc", "NCHWc", plain)
    checked_blocks(shape, block)
    return convolution_graph(shape, epilogue, packed, block)


def conv2d_transpose_nchw(*args: Any) -> tuple[Schedule, list[Tensor]]:
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
        return without_terms(data, weight, phases.result_shape, steps, 1, "result")
    made = phases.result(sums(shape, phases.seen(data), phases.weight(weight)))
    out, extras = steps.apply(made, 1, stored=of_products(shape.dtype)[1])
    return schedule_graph(ComputeGraph([out], [data, weight, *extras, out]))


def convolution_graph(
    shape: ConvShape, epilogue: Any, packed: bool, block: int = 0
) -> tuple[Schedule, list[Tensor]]:
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
        return without_terms(
            data, weight, blocked(shape.result_shape, block), steps, channels, "conv"
        )

    def from_hwio(o: Any, c: Any, *place: Any) -> Any:
        return weight(*place, c, o)

    conv = sums(shape, data, from_hwio if shape.channels_last else weight, block)
    out, extras = steps.apply(conv, channels, stored=of_products(shape.dtype)[1])
    return schedule_graph(ComputeGraph([out], [data, weight, *extras, out]))


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
    kind, _ = of_products(shape.dtype)
    many = block or shape.ci_group
    outer = te.reduce_axis((0, shape.ci_group // many), name="co") if block else 0
    inner = te.reduce_axis((0, many), name="c")
    window = [
        te.reduce_axis((0, k), name=f"r{name}")
        for k, name in zip(shape.window, "zyx"[3 - len(shape.window) :])
    ]

    def element(n: Any, *rest: Any) -> Any:
        o, place = (rest[-1], rest[:-1]) if shape.channels_last else (rest[0], rest[1:])
        at = [
            p * s + r * d - b
            for p, s, r, d, b in zip(place, shape.strides, window, shape.dilation, shape.before)
        ]
        if block:
            channel, group = o * block + place[-1], o // (shape.co_group // block)
            place = (_of_group(shape, group, shape.ci_group // block) + outer, *at, inner)
        else:
            channel, group = o, o // shape.co_group
            own = _of_group(shape, group, shape.ci_group) + inner
            place = (*at, own) if shape.channels_last else (own, *at)
        read: Any = data(n, *place)
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


def _of_group(shape: ConvShape, group: Any, per: int) -> Any:
    """The first channel (or block of them) of a group."""
    return group * per if shape.groups > 1 else 0
