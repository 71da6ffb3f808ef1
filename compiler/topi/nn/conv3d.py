"""Convolutions of volumes."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.convolution import convolution


def conv3d_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """The convolution of ``Input`` (N, CI, D, H, W) with ``Filter`` (CO, CI / groups, KD, KH, KW).

    Args:
        stride, dilation: an int, or one for each of D, H and W.
        padding: an int, three, six (those in front, then those behind), ``"VALID"`` or ``"SAME"``.
        groups: of channels, each convolved by itself.
        out_dtype: what is summed up and returned; ``Input``'s by default.

    Returns:
        (N, CO, OD, OH, OW).

    Raises:
        ArgumentError: if shapes, strides, padding or groups do not fit.
    """
    if Input.ndim != 5 or Filter.ndim != 5:
        raise ArgumentError(f"conv3d_ncdhw({Input}, {Filter})", "both must have five dimensions")
    return convolution(
        Input, Filter, stride, padding, dilation, groups, out_dtype, False, "conv3d_ncdhw"
    )
