"""The conv2d_nchw template for CPUs: direct, im2col and Winograd in one space."""

from __future__ import annotations

from typing import Any

from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.cpu.arguments import canonical_arguments, stored_dtype
from whet.search_spaces.operators.cpu.conv.algorithms import convolution
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.template import template

_ARGUMENTS = "N CI H W CO KH KW strides padding dilation groups dtype epilogue packed"


@template(
    "conv2d_nchw",
    version=2,
    canonical=canonical_arguments("conv2d_nchw", _ARGUMENTS, rank=2, dtype=stored_dtype),
)
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
    """The convolution of data (N, CI, H, W) with weights (CO, CI / groups, KH, KW).

    The result is (N, CO, OH, OW).

    Args:
        strides, dilation: an int, or (vertical, horizontal); the workload holds pairs.
        padding: zeros around the image: an int, (vertical, horizontal), or (top, left,
            bottom, right).
        groups: of channels, each convolved by itself.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: what is done to each element before it is stored (``Epilogue.of``).
        packed: pack the weights ahead of the kernel's calls (``Module.pack_weights``).

    Raises:
        ArgumentError: negative padding, groups that do not divide the channels, a window larger
            than the padded image, another dtype, an unknown epilogue.
    """
    image, window = (H, W), (KH, KW)
    shape = ConvShape.of(
        "conv2d_nchw", "NCHW", N, CI, image, CO, window, strides, padding, dilation, groups, dtype
    )
    return convolution(shape, epilogue, packed)
