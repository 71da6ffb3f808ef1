"""Convolutions in any number of dimensions on a GPU, as graphs that the rules schedule.

Signals, volumes, blocks of channels, transposed convolutions, and images of int8: the sums are a
GEMM by :mod:`whet.search_spaces.rules.gpu.contraction.tiled`, or an element a thread where there
are few channels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from whet.compiler import te
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.operators.conv_arguments import checked_blocks, conv_arguments
from whet.search_spaces.operators.conv_graphs import blocked, sums
from whet.search_spaces.operators.gpu.results import (
    Scheduled,
    empty_contraction,
    refuse_packed,
    scheduled_as_graph,
    versioned,
)
from whet.search_spaces.operators.transposed_phases import Phases
from whet.search_spaces.template.config_scope import get_config


def _convolution(name: str, layout: str, *args: Any) -> Scheduled:
    """Channels first; arguments as the CPU's template of this name takes them."""
    return convolution_graph(*conv_arguments(name, layout, args))


conv1d_ncw = versioned(1, partial(_convolution, "conv1d_ncw", "NCW"))
conv3d_ncdhw = versioned(1, partial(_convolution, "conv3d_ncdhw", "NCDHW"))


def conv2d_nchwc(*args: Any) -> Scheduled:
    """Blocks of channels; arguments as the CPU's template of this name takes them."""
    *plain, block = args
    shape, epilogue, packed = conv_arguments("conv2d_nchwc", "NCHWc", plain)
    checked_blocks(shape, block)
    return convolution_graph(shape, epilogue, packed, block)


versioned(1, conv2d_nchwc)


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


versioned(1, conv2d_transpose_nchw)


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
