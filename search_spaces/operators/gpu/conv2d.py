"""Convolutions of images on a GPU: implicit products, Winograd's algorithm, the direct way; of
bytes by the rules of graphs, as products of words."""

from __future__ import annotations

from math import inf
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.operators.cpu.arguments import BYTES
from whet.search_spaces.operators.cpu.conv.algorithms import KnobsOf
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.operators.gpu.conv_direct import direct_convolution
from whet.search_spaces.operators.gpu.conv_graph import convolution_graph
from whet.search_spaces.operators.gpu.conv_implicit import (
    define_steps,
    implicit_of,
    implicit_product,
    implicit_tiles,
)
from whet.search_spaces.operators.gpu.conv_rectangle import cheapest_rectangle, define_direct
from whet.search_spaces.operators.gpu.conv_winograd import Winograd, winograd_product, winograds
from whet.search_spaces.rules.gpu.contraction.gemm_plan import Product, cheapest, plan_of
from whet.search_spaces.rules.gpu.contraction.unreduced import without_terms
from whet.search_spaces.rules.gpu.packing import as_they_are

# Fewer output channels than this (a group's) leave most of a product's tile empty.
_FEW = 16


def conv2d_nchw(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """A convolution, channels first; arguments as the CPU's template of this name takes them."""
    return convolution(*ConvShape.of_arguments("conv2d_nchw", "NCHW", args))


def conv2d_nhwc(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """A convolution, channels last; arguments as the CPU's template of this name takes them."""
    return convolution(*ConvShape.of_arguments("conv2d_nhwc", "NHWC", args))


def convolution(shape: ConvShape, epilogue: Any, packed: bool) -> tuple[Schedule, list[Tensor]]:
    """The schedule of a convolution under the config in force.

    Args:
        shape: of images, in either layout.
        epilogue: what is done to each element before it is stored.
        packed: the kernel takes the weights as ``pack_weights`` returns them: transformed for
            Winograd's algorithm, a copy for the others. Of bytes there is none.
    """
    if shape.dtype in BYTES:
        return convolution_graph(shape, epilogue, packed)
    cfg = get_config()
    cfg.add_flop(shape.flop)
    data = te.placeholder(shape.data_shape, shape.dtype, name="data")
    weight = te.placeholder(shape.weight_shape, shape.dtype, name="weight")
    steps = Epilogue.of(epilogue)
    if shape.is_empty:
        return as_they_are(
            weight, packed,
            lambda w: without_terms(data, w, shape.result_shape, steps, shape.channel_axis, "conv"),
        )  # fmt: skip
    target = Target.current() or Target("cuda")
    if not implicit_tiles(shape):
        cfg.define_knob("algorithm", ["direct"])
        window = define_direct(cfg, cfg, shape, target)
        return as_they_are(
            weight, packed, lambda w: direct_convolution(shape, window, data, w, steps)
        )
    transformed = {w.name: w for w in winograds(shape)}
    products = {"implicit": implicit_of(shape), **{n: w.product for n, w in transformed.items()}}
    names = ["implicit", "direct", *transformed]
    default = _default(shape, products, transformed, target, packed)
    cfg.define_knob("algorithm", names, default=default)
    chosen = cfg["algorithm"].val
    plan = plan_of(
        cfg, target, products["implicit"], KnobsOf(cfg, tuple(products), default),
        implicit_tiles(shape), products.get(default),
    )  # fmt: skip
    order = define_steps(cfg, KnobsOf(cfg, ("implicit",), default), shape)
    window = define_direct(cfg, KnobsOf(cfg, ("direct",), default), shape, target)
    if chosen == "direct":
        return as_they_are(
            weight, packed, lambda w: direct_convolution(shape, window, data, w, steps)
        )
    if chosen == "implicit":
        return as_they_are(weight, packed, lambda w: implicit_product(plan, order, data, w, steps))
    plan = plan.of(products[chosen], target)
    return winograd_product(transformed[chosen], plan, data, weight, steps, packed)


def _default(
    shape: ConvShape,
    products: dict[str, Product],
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
        product = products[name]
        tiles = product.tiles(implicit_tiles(shape))
        found, *_ = cheapest(product, target, tiles, product.parts)
        if name not in transformed:
            return found
        return found + transformed[name].transforms(target, packed)

    return min((*products, "direct"), key=cycles)
