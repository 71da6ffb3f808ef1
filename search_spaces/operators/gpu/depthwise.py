"""Depthwise convolutions on a GPU, as graphs for :mod:`whet.search_spaces.rules.gpu.window`."""

from __future__ import annotations

from functools import partial
from typing import Any

from whet.search_spaces.operators.conv_arguments import depthwise_arguments
from whet.search_spaces.operators.conv_graphs import depthwise_sums, taps
from whet.search_spaces.operators.gpu.results import (
    Scheduled,
    empty_contraction,
    refuse_packed,
    scheduled_as_graph,
    versioned,
)
from whet.search_spaces.template.config_scope import get_config


def _depthwise(name: str, layout: str, *args: Any) -> Scheduled:
    """The schedule under the config in force; arguments as the CPU's template takes them."""
    shape, data, weight, steps, packed = depthwise_arguments(name, layout, args)
    refuse_packed("weight", packed)
    get_config().add_flop(shape.flop)
    if shape.is_empty:
        return empty_contraction(
            data, weight, shape.result_shape, steps, shape.channel_axis, "conv"
        )
    conv = depthwise_sums(shape, data, taps(shape, weight))
    return scheduled_as_graph(conv, steps, shape.channel_axis, [data, weight])


depthwise_conv2d_nchw = versioned(1, partial(_depthwise, "depthwise_conv2d_nchw", "NCHW"))
depthwise_conv2d_nhwc = versioned(1, partial(_depthwise, "depthwise_conv2d_nhwc", "NHWC"))
