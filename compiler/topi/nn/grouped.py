"""Convolutions of groups of channels and of blocked layouts, by TVM's names."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.topi.layout import layout_transform
from whet.compiler.topi.nn.convolution import convolution, depthwise_convolution
from whet.compiler.topi.nn.transposed import transposed_convolution
from whet.compiler.topi.shapes import static
from whet.compiler.topi.transform import concatenate, reshape, split, transpose


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """:func:`conv1d_ncw` with TVM's order of arguments for groups."""
    return convolution(data, kernel, strides, padding, dilation, groups, out_dtype, "conv1d_ncw")


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """:func:`conv1d_nwc` with TVM's order of arguments for groups."""
    return convolution(data, kernel, strides, padding, dilation, groups, out_dtype, "conv1d_nwc")


def group_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: object,
    padding: Any,
    dilation: object,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """As ``group_conv2d_nchw``, of (N, H, W, CI) with (KH, KW, CI / groups, CO)."""
    return convolution(Input, Filter, stride, padding, dilation, groups, out_dtype, "conv2d_nhwc")


def group_conv1d_transpose_ncw(
    data: Tensor,
    kernel: Tensor,
    stride: object,
    padding: Any,
    out_dtype: str | None,
    output_padding: object,
    groups: int,
) -> Tensor:
    """As ``conv1d_transpose_ncw``, of (N, CI, W) with (CI, CO / groups, KW)."""
    return _by_groups(
        "conv1d_transpose_ncw", data, kernel, stride, padding, out_dtype, output_padding, groups
    )


def group_conv2d_transpose_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: object,
    padding: Any,
    out_dtype: str | None,
    output_padding: object,
    groups: int,
) -> Tensor:
    """As ``conv2d_transpose_nchw``, of (N, CI, H, W) with (CI, CO / groups, KH, KW)."""
    return _by_groups(
        "conv2d_transpose_nchw", data, kernel, stride, padding, out_dtype, output_padding, groups
    )


def _by_groups(
    name: str,
    data: Tensor,
    kernel: Tensor,
    stride: object,
    padding: Any,
    out_dtype: str | None,
    output_padding: object,
    groups: int,
) -> Tensor:
    """Transposed convolutions of each group, one after the other."""
    request = f"group_{name}({data}, {kernel}, groups={groups})"
    channels = static(data.shape[1], request)
    if groups < 1 or channels % groups or channels != static(kernel.shape[0], request):
        raise ArgumentError(
            request,
            f"{channels} channels of data, {kernel.shape[0]} of weights: no {groups} groups",
        )
    parts = zip(split(data, groups, 1), split(kernel, groups, 0), strict=True)
    made = [
        transposed_convolution(x, w, stride, padding, output_padding, out_dtype, name, 1)
        for x, w in parts
    ]
    return concatenate(made, 1) if groups > 1 else made[0]


def depthwise_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
) -> Tensor:
    """Each channel of ``Input`` (N, H, W, C) with its own ``Filter`` (KH, KW, C, M).

    Args:
        kernel_layout: ``"HWOI"``, or ``"HWIO"``: (KH, KW, M, C).

    Returns:
        (N, OH, OW, C * M).

    Raises:
        ArgumentError: another layout, and as ``depthwise_conv2d_nchw``.
    """
    orders = {"HWOI": (2, 3, 0, 1), "HWIO": (3, 2, 0, 1)}
    if kernel_layout not in orders:
        raise ArgumentError(
            f"depthwise_conv2d_nhwc(kernel_layout={kernel_layout!r})",
            "no such layout",
            "HWOI, HWIO",
        )
    images, weights = transpose(Input, (0, 3, 1, 2)), transpose(Filter, orders[kernel_layout])
    made = depthwise_convolution(
        images, weights, stride, padding, dilation, out_dtype, "depthwise_conv2d_nchw"
    )
    return transpose(made, (0, 2, 3, 1))


def depthwise_conv2d_NCHWc(
    Input: Tensor,
    Filter: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    layout: str = "",
    out_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """Each channel with its own window, the channels in blocks.

    Args:
        Input: (N, C / c, H, W, c).
        Filter: (C * M / o, 1, KH, KW, 1, o).
        layout, out_layout: what the shapes say, e.g. ``"NCHW8c"``, or ``""``.

    Returns:
        (N, C * M / o, OH, OW, o).

    Raises:
        ArgumentError: a layout says another block, and as ``depthwise_conv2d_nchw``.
    """
    request = f"depthwise_conv2d_NCHWc({Input}, {Filter}, {layout!r}, {out_layout!r})"
    if Input.ndim != 5 or Filter.ndim != 6:
        raise ArgumentError(request, "data must have five dimensions and weights six")
    inner, outer = static(Input.shape[4], request), static(Filter.shape[5], request)
    for given, block in ((layout, inner), (out_layout, outer)):
        if given not in ("", f"NCHW{block}c"):
            raise ArgumentError(request, f"the blocks are of {block} channels", f"NCHW{block}c")
    images = layout_transform(Input, f"NCHW{inner}c", "NCHW")
    channels, rows = static(images.shape[1], request), static(Filter.shape[0], request) * outer
    if rows % channels:
        raise ArgumentError(request, f"{rows} windows are no multiple of {channels} channels")
    windows = transpose(Filter, (0, 5, 1, 4, 2, 3))
    weights = reshape(windows, (channels, rows // channels, *Filter.shape[2:4]))
    made = depthwise_convolution(
        images, weights, stride, padding, dilation, out_dtype, "depthwise_conv2d_nchw"
    )
    return layout_transform(made, "NCHW", f"NCHW{outer}c")
