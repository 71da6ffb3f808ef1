"""Convolutions of images on a GPU: implicit GEMM, Winograd's algorithm, direct; of int8 by the
rules of graphs, as GEMM of packed int8x4."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.operators.arguments import BYTES
from whet.search_spaces.operators.conv_arguments import conv_arguments
from whet.search_spaces.operators.gpu.conv_direct import direct_convolution
from whet.search_spaces.operators.gpu.conv_graph import convolution_graph
from whet.search_spaces.operators.gpu.conv_implicit import (
    define_steps,
    implicit_gemm,
    implicit_gemm_shape,
    implicit_tiles,
)
from whet.search_spaces.operators.gpu.conv_rectangle import (
    Rectangle,
    cheapest_rectangle,
    define_direct,
)
from whet.search_spaces.operators.gpu.conv_winograd import Winograd, winograd_convolution, winograds
from whet.search_spaces.operators.gpu.results import (
    Scheduled,
    empty_contraction,
    versioned,
    with_copied_weights,
)
from whet.search_spaces.rules.cpu.conv.algorithms import KnobsOf
from whet.search_spaces.rules.gpu.contraction.gemm_plan import GemmShape, cheapest, plan_of
from whet.search_spaces.template.config_scope import get_config

# Fewer output channels than this (a group's) leave most of a GEMM's tile empty.
_FEW = 16


def _convolution(name: str, layout: str, *args: Any) -> Scheduled:
    """The schedule of a convolution under the config in force.

    Args:
        name, layout: as for :func:`conv_arguments`; of images, in either layout.
        args: as the CPU's template of this name takes them. ``packed``: the kernel takes the
            weights as ``pack_weights`` returns them: transformed for Winograd's algorithm, a copy
            for the others. Of int8 there is none.
    """
    shape, epilogue, packed = conv_arguments(name, layout, args)
    if shape.dtype in BYTES:
        return convolution_graph(shape, epilogue, packed)
    cfg = get_config()
    cfg.add_flop(shape.flop)
    data = te.placeholder(shape.data_shape, shape.dtype, name="data")
    weight = te.placeholder(shape.weight_shape, shape.dtype, name="weight")
    steps = Epilogue.of(epilogue)
    if shape.is_empty:
        empty = shape.result_shape, steps, shape.channel_axis, "conv"
        return with_copied_weights(weight, packed, lambda w: empty_contraction(data, w, *empty))
    target = Target.current() or Target("cuda")

    def direct(rectangle: Rectangle) -> Scheduled:
        return with_copied_weights(
            weight, packed, lambda w: direct_convolution(shape, rectangle, data, w, steps)
        )

    if not implicit_tiles(shape):
        cfg.define_knob("algorithm", ["direct"])
        return direct(define_direct(Prefixed(cfg), shape, target))
    transformed = {w.name: w for w in winograds(shape)}
    gemms = {
        "implicit": implicit_gemm_shape(shape),
        **{n: w.gemm_shape for n, w in transformed.items()},
    }
    names = ["implicit", "direct", *transformed]
    default = _default(shape, gemms, transformed, target, packed)
    chosen = Prefixed(cfg).choose("algorithm", names, default)

    def knobs_of(*readers: str) -> Prefixed:
        return Prefixed(KnobsOf(cfg, readers, default))

    plan = plan_of(
        knobs_of(*gemms), target, gemms["implicit"], implicit_tiles(shape), gemms.get(default)
    )
    order = define_steps(knobs_of("implicit"), shape)
    rectangle = define_direct(knobs_of("direct"), shape, target)
    if chosen == "direct":
        return direct(rectangle)
    if chosen == "implicit":
        return with_copied_weights(
            weight, packed, lambda w: implicit_gemm(plan, order, data, w, steps)
        )
    plan = plan.of(gemms[chosen], target)
    return winograd_convolution(transformed[chosen], plan, data, weight, steps, packed)


conv2d_nchw = versioned(2, partial(_convolution, "conv2d_nchw", "NCHW"))
conv2d_nhwc = versioned(1, partial(_convolution, "conv2d_nhwc", "NHWC"))


def _default(
    shape: ConvShape,
    gemms: dict[str, GemmShape],
    transformed: dict[str, Winograd],
    target: Target,
    packed: bool,
) -> str:
    """The algorithm that takes the least time, roughly."""
    direct = cheapest_rectangle(shape, target)[0]
    if shape.co_group < _FEW and direct < inf:
        return "direct"

    def cycles(name: str) -> float:
        if name == "direct":
            return direct
        gemm = gemms[name]
        tiles = gemm.tiles(implicit_tiles(shape))
        found, *_ = cheapest(gemm, target, tiles, gemm.parts)
        if name not in transformed:
            return found
        return found + transformed[name].transforms(target, packed)

    return min((*gemms, "direct"), key=cycles)
