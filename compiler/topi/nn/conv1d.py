"""Convolutions of rows."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.convolution import convolution


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    out_dtype: str | None = None,
    groups: int = 1,
) -> Tensor:
    """The convolution of ``data`` (N, CI, W) with ``kernel`` (CO, CI / groups, KW).

    Args:
        strides, dilation: an int.
        padding: an int, (before, after), ``"VALID"`` or ``"SAME"``.
        out_dtype: what is summed up and returned; ``data``'s by default.
        groups: of channels, each convolved by itself.

    Returns:
        (N, CO, OW).

    Raises:
        ArgumentError: if shapes, strides, padding or groups do not fit.
    """
    if data.ndim != 3 or kernel.ndim != 3:
        raise ArgumentError(f"conv1d_ncw({data}, {kernel})", "both must have three dimensions")
    return convolution(
        data, kernel, strides, padding, dilation, groups, out_dtype, False, "conv1d_ncw"
    )
