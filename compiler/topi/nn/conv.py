"""Convolutions of rows, images and volumes, by TVM's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.convolution import convolution, depthwise_convolution
from whet.compiler.topi.nn.transposed import transposed_convolution


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
    return convolution(data, kernel, strides, padding, dilation, groups, out_dtype, "conv1d_ncw")


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: object = 1,
    padding: object = 0,
    dilation: object = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution, by the layout of its data: NCHW with OIHW weights, or NHWC with HWIO.

    Raises:
        ArgumentError: for other layouts, and as :func:`conv2d_nchw`.
    """
    if data_layout not in _LAYOUTS:
        raise ArgumentError(
            f"conv2d(..., data_layout={data_layout!r})",
            "there is a convolution for NCHW and for NHWC only",
            "transpose the data: topi.transpose(data, (0, 3, 1, 2))",
        )
    weights, way = _LAYOUTS[data_layout]
    if kernel_layout not in ("", weights):
        raise ArgumentError(
            f"conv2d(..., data_layout={data_layout!r}, kernel_layout={kernel_layout!r})",
            f"weights of {data_layout} data are {weights}",
            "leave kernel_layout out, and transpose the weights: topi.transpose(weight, axes)",
        )
    return way(input, filter, strides, padding, dilation, out_dtype)


def conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    out_dtype: str | None = None,
    name: str = "conv",
) -> Tensor:
    """The convolution of ``Input`` (N, CI, H, W) with ``Filter`` (CO, CI, KH, KW).

    Args:
        stride: step of the window, an int or (vertical, horizontal), at least 1.
        padding: zeros on each side, an int, (vertical, horizontal), (top, left, bottom, right),
            ``"VALID"`` or ``"SAME"``.
        dilation: the distance between two elements of the window, at least 1.
        out_dtype: what is summed up and returned; ``Input``'s by default.
        name: of the result.

    Returns:
        (N, CO, OH, OW).

    Raises:
        ArgumentError: if shapes, strides or padding do not fit.
    """
    return convolution(Input, Filter, stride, padding, dilation, 1, out_dtype, "conv2d_nchw", name)


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """As :func:`conv2d_nchw`, the channels in groups that are convolved each by itself.

    Args:
        Filter: (CO, CI / groups, KH, KW).
        groups: divides CI and CO.
    """
    return convolution(
        Input, Filter, stride, padding, dilation, groups, out_dtype, "group_conv2d_nchw"
    )


def conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    out_dtype: str | None = None,
    groups: int = 1,
) -> Tensor:
    """The convolution of ``Input`` (N, H, W, CI) with ``Filter`` (KH, KW, CI / groups, CO).

    Arguments as of :func:`conv2d_nchw` and :func:`group_conv2d_nchw`.

    Returns:
        (N, OH, OW, CO).
    """
    return convolution(Input, Filter, stride, padding, dilation, groups, out_dtype, "conv2d_nhwc")


def conv2d_transpose_nchw(
    Input: Tensor,
    Filter: Tensor,
    strides: object = 1,
    padding: Any = 0,
    out_dtype: str | None = None,
    output_padding: object = 0,
) -> Tensor:
    """The transposed convolution of ``Input`` (N, CI, H, W) with ``Filter`` (CI, CO, KH, KW).

    Args:
        strides: how far the windows of two neighbouring pixels are apart.
        padding: what is cut off on each side.
        out_dtype: what is summed up and returned; ``Input``'s by default.
        output_padding: what is added at the bottom and the right, fewer than the strides.

    Returns:
        (N, CO, OH, OW), OH = (H - 1) * stride - 2 * padding + KH + output_padding.

    Raises:
        ArgumentError: if shapes, strides or paddings do not fit.
    """
    return transposed_convolution(
        Input, Filter, strides, padding, output_padding, out_dtype, "conv2d_transpose_nchw"
    )


def depthwise_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Each channel of ``Input`` (N, C, H, W) with its own ``Filter`` (C, M, KH, KW).

    Returns:
        (N, C * M, OH, OW): channel ``c * M + m`` is channel ``c`` with window ``m``.

    Raises:
        ArgumentError: if shapes, strides or padding do not fit.
    """
    return depthwise_convolution(
        Input, Filter, stride, padding, dilation, out_dtype, "depthwise_conv2d_nchw"
    )


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
    return convolution(Input, Filter, stride, padding, dilation, groups, out_dtype, "conv3d_ncdhw")


_LAYOUTS: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "NCHW": ("OIHW", conv2d_nchw),
    "NHWC": ("HWIO", conv2d_nhwc),
}
"""Layouts of data -> that of the weights, and the convolution."""
