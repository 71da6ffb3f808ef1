"""Convolutions of images on a GPU, channels first or last: implicit products and the direct way."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.cpu.conv_algorithms import KnobsOf
from whet.search_spaces.cpu.conv_shape import ConvShape
from whet.search_spaces.gpu.conv_direct import define_direct, direct_convolution
from whet.search_spaces.gpu.conv_implicit import (
    define_implicit,
    implicit_product,
    implicit_tiles,
)
from whet.search_spaces.gpu.matmul import refuse_packed
from whet.search_spaces.gpu.unreduced import without_terms

_ALGORITHMS = ("implicit", "direct")
# Fewer output channels than this (a group's) leave most of a product's tile empty.
_FEW = 16


def conv2d_nchw(
    N: int,
    CI: int,
    H: int,
    W: int,
    CO: int,
    KH: int,
    KW: int,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    dtype: str = "float32",
    epilogue: tuple = (),
    packed: bool = False,
) -> tuple[Schedule, list[Tensor]]:
    """A convolution, channels first; arguments as the CPU's template of this name takes them."""
    image, window = (H, W), (KH, KW)
    shape = ConvShape.of(
        "conv2d_nchw", "NCHW", N, CI, image, CO, window, strides, padding, dilation, groups, dtype
    )
    return convolution(shape, epilogue, packed)


def conv2d_nhwc(
    N: int,
    CI: int,
    H: int,
    W: int,
    CO: int,
    KH: int,
    KW: int,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    dtype: str = "float32",
    epilogue: tuple = (),
    packed: bool = False,
) -> tuple[Schedule, list[Tensor]]:
    """A convolution, channels last; arguments as the CPU's template of this name takes them."""
    image, window = (H, W), (KH, KW)
    shape = ConvShape.of(
        "conv2d_nhwc", "NHWC", N, CI, image, CO, window, strides, padding, dilation, groups, dtype
    )
    return convolution(shape, epilogue, packed)


def convolution(shape: ConvShape, epilogue: Any, packed: bool) -> tuple[Schedule, list[Tensor]]:
    """The schedule of a convolution under the config in force.

    Raises:
        ArgumentError: ``packed``: a GPU's kernel reads its weights as they are.
    """
    refuse_packed("weight", packed)
    cfg = get_config()
    cfg.add_flop(shape.flop)
    data = te.placeholder(shape.data_shape, shape.dtype, name="data")
    weight = te.placeholder(shape.weight_shape, shape.dtype, name="weight")
    steps = Epilogue.of(epilogue)
    if shape.is_empty:
        return without_terms(data, weight, shape.result_shape, steps, shape.channel_axis, "conv")
    target = Target.current() or Target("cuda")
    if not implicit_tiles(shape):
        cfg.define_knob("algorithm", ["direct"])
        window = define_direct(cfg, cfg, shape, target)
        return direct_convolution(shape, window, data, weight, steps)
    default = "direct" if shape.co_group < _FEW else "implicit"
    cfg.define_knob("algorithm", list(_ALGORITHMS), default=default)
    implicit, direct = (KnobsOf(cfg, (name,), default) for name in _ALGORITHMS)
    plan, order = define_implicit(cfg, implicit, shape, target)
    window = define_direct(cfg, direct, shape, target)
    if cfg["algorithm"].val == "implicit":
        return implicit_product(plan, order, data, weight, steps)
    return direct_convolution(shape, window, data, weight, steps)
