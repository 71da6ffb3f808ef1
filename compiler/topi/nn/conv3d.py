"""Convolutions of volumes."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.convolution import convolution


def conv3d_ncdhw(
    data: Tensor,
    weight: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """The convolution of ``data`` (N, CI, D, H, W) with ``weight`` (CO, CI / groups, KD, KH, KW).

    Args:
        stride, dilation: an int, or one for each of D, H and W.
        padding: an int, three, six (those in front, then those behind), ``"VALID"`` or ``"SAME"``.
        groups: of channels, each convolved by itself.
        out_dtype: what is summed up and returned; ``data``'s by default.

    Returns:
        (N, CO, OD, OH, OW).

    Raises:
        ArgumentError: if shapes, strides, padding or groups do not fit.
    """
    if data.ndim != 5 or weight.ndim != 5:
        raise ArgumentError(f"conv3d_ncdhw({data}, {weight})", "both must have five dimensions")
    return convolution(
        data, weight, stride, padding, dilation, groups, out_dtype, False, "conv3d_ncdhw"
    )
