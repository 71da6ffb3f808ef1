"""The conv3d_ncdhw template for CPUs: direct and im2col in one space."""

from __future__ import annotations

from typing import Any

from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.cpu.arguments import canonical_arguments, stored_dtype
from whet.search_spaces.operators.cpu.conv.algorithms import convolution
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.template import template

_ARGUMENTS = "N CI D H W CO KD KH KW strides padding dilation groups dtype epilogue packed"


@template(
    "conv3d_ncdhw",
    version=1,
    canonical=canonical_arguments("conv3d_ncdhw", _ARGUMENTS, rank=3, dtype=stored_dtype),
)
def conv3d_ncdhw(
    N: int,
    CI: int,
    D: int,
    H: int,
    W: int,
    CO: int,
    KD: int,
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
    """The convolution of data (N, CI, D, H, W) with weights (CO, CI / groups, KD, KH, KW).

    The result is (N, CO, OD, OH, OW).

    Args:
        strides, dilation: an int, or one for each of D, H and W.
        padding: zeros around the image: an int, one for each of D, H and W, or six: those in
            front, then those behind.
        groups: of channels, each convolved by itself.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: what is done to each element before it is stored (``Epilogue.of``).
        packed: pack the weights ahead of the kernel's calls (``Module.pack_weights``).

    Raises:
        ArgumentError: negative padding, groups that do not divide the channels, a window larger
            than the padded image, another dtype, an unknown epilogue.
    """
    image, window = (D, H, W), (KD, KH, KW)
    shape = ConvShape.of(
        "conv3d_ncdhw", "NCDHW", N, CI, image, CO, window, strides, padding, dilation, groups, dtype
    )
    return convolution(shape, epilogue, packed)
