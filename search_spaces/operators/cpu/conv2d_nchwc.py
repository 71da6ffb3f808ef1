"""The conv2d template for CPUs, NCHWc: blocks of channels side by side, in data and result."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.operators.cpu.arguments import (
    canonical_arguments,
    stored_dtype,
    summed_dtype,
)
from whet.search_spaces.operators.cpu.conv import channels_last
from whet.search_spaces.operators.cpu.conv.shape import ConvShape, checked_blocks
from whet.search_spaces.operators.cpu.gemm.plan import define_threads
from whet.search_spaces.template import template

_ARGUMENTS = "N CI H W CO KH KW strides padding dilation groups dtype epilogue packed block"


@template(
    "conv2d_nchwc",
    version=1,
    canonical=canonical_arguments("conv2d_nchwc", _ARGUMENTS, rank=2, dtype=stored_dtype),
)
def conv2d_nchwc(
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
    block: int = 16,
) -> tuple[Schedule, list[Tensor]]:
    """The convolution of data (N, CI / block, H, W, block) with weights (CO, CI / groups, KH, KW).

    The result is (N, CO / block, OH, OW, block).

    Args:
        strides, dilation: an int, or (vertical, horizontal); the workload holds pairs.
        padding: zeros around the image: an int, (vertical, horizontal), or (top, left, bottom,
            right).
        groups: of channels, each convolved by itself.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: what is done to each element before it is stored (``Epilogue.of``).
        packed: pack the weights ahead of the kernel's calls (``Module.pack_weights``).
        block: channels of a block; it divides both channels of a group.

    Raises:
        ArgumentError: as ``conv2d_nchw``; or blocks that do not divide the channels.
    """
    shape = ConvShape.of(
        "conv2d_nchwc", "NCHWc", N, CI, (H, W), CO, (KH, KW), strides, padding, dilation, groups,
        dtype,
    )  # fmt: skip
    checked_blocks(shape, block)
    summed_dtype(shape.asked, dtype)
    cfg = get_config()
    target = Target.current() or Target("llvm")
    cfg.add_flop(shape.flop)
    cfg.define_knob("algorithm", ["direct", "im2col"] if groups == 1 else ["direct"])
    channels_last.define(cfg, shape, target, block)
    define_threads(cfg, target, shape.flop // 2)
    data = te.placeholder((N, CI // block, H, W, block), dtype, name="data")
    weight = te.placeholder(shape.weight_shape, dtype, name="weight")
    return channels_last.schedule(cfg, shape, data, weight, epilogue, packed, block)
