"""The conv1d_ncw template for CPUs: direct and im2col in one space."""

from __future__ import annotations

from typing import Any

from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.cpu.arguments import canonical_arguments, stored_dtype
from whet.search_spaces.operators.cpu.conv.algorithms import convolution
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.template import template

_ARGUMENTS = "N CI W CO KW strides padding dilation groups dtype epilogue packed"


@template(
    "conv1d_ncw",
    version=1,
    canonical=canonical_arguments("conv1d_ncw", _ARGUMENTS, rank=1, dtype=stored_dtype),
)
def conv1d_ncw(
    N: int,
    CI: int,
    W: int,
    CO: int,
    KW: int,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    dtype: str = "float32",
    epilogue: tuple = (),
    packed: bool = False,
) -> tuple[Schedule, list[Tensor]]:
    """The convolution of data (N, CI, W) with weights (CO, CI / groups, KW).

    The result is (N, CO, OW).

    Args:
        strides, dilation: an int.
        padding: zeros around the image: an int, or (before, after).
        groups: of channels, each convolved by itself.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: what is done to each element before it is stored (``Epilogue.of``).
        packed: pack the weights ahead of the kernel's calls (``Module.pack_weights``).

    Raises:
        ArgumentError: negative padding, groups that do not divide the channels, a window larger
            than the padded image, another dtype, an unknown epilogue.
    """
    image, window = (W,), (KW,)
    shape = ConvShape.of(
        "conv1d_ncw", "NCW", N, CI, image, CO, window, strides, padding, dilation, groups, dtype
    )
    return convolution(shape, epilogue, packed)
