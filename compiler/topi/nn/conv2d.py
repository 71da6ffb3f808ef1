"""Convolutions of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir.ops import ops
from whet.compiler.topi.halves import stored, summed_in
from whet.compiler.topi.nn.convolution import convolution, transposed_convolution
from whet.compiler.topi.nn.padding import get_pad_tuple, pair, windows
from whet.compiler.topi.pad import pad
from whet.compiler.topi.shapes import quotient, remainder, static


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
    return _convolution(Input, Filter, stride, padding, dilation, 1, out_dtype, "conv2d_nchw", name)


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
    return _convolution(
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
    return _convolution(Input, Filter, stride, padding, dilation, groups, out_dtype, "conv2d_nhwc")


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
    asked = f"conv2d_transpose_nchw({Input}, {Filter}, strides={strides}, padding={padding})"
    _four(Input, Filter, asked)
    return transposed_convolution(
        Input, Filter, strides, padding, output_padding, out_dtype, "conv2d_transpose_nchw"
    )


_LAYOUTS: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "NCHW": ("OIHW", conv2d_nchw),
    "NHWC": ("HWIO", conv2d_nhwc),
}
"""Layouts of data -> that of the weights, and the convolution."""


def _convolution(
    data: Tensor,
    weight: Tensor,
    strides: object,
    padding: Any,
    dilation: object,
    groups: int,
    out_dtype: str | None,
    operator: str,
    name: str = "conv",
) -> Tensor:
    _four(data, weight, f"{operator}({data}, {weight}, strides={strides}, padding={padding})")
    last = operator.endswith("nhwc")
    return convolution(
        data, weight, strides, padding, dilation, groups, out_dtype, last, operator, name
    )


def _four(data: Tensor, weight: Tensor, asked: str) -> None:
    if data.ndim != 4 or weight.ndim != 4:
        raise ArgumentError(asked, "data and weight must have four dimensions")


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
    asked = f"depthwise_conv2d_nchw({Input}, {Filter}, stride={stride}, padding={padding})"
    _four(Input, Filter, asked)
    n, c, _, _ = Input.shape
    c2, many, kh, kw = Filter.shape
    if not c == c2:
        raise ArgumentError(asked, "the channels of data and weight differ")
    padded, (oh, ow), (sh, sw), (dh, dw) = _window(
        Input, (kh, kw), stride, padding, dilation, asked
    )
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    result = out_dtype or Input.dtype
    kind = summed_in(result)

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        plane = quotient(o, many)
        one = padded[b, plane, y * sh + ry * dh, x * sw + rx * dw]
        own = Filter[plane, remainder(o, many), ry, rx]
        return te.sum(ops.cast(kind, one) * ops.cast(kind, own), [ry, rx])

    made = te.compute(
        (n, c * many, oh, ow), element, name="DepthwiseConv2d", tag="depthwise_conv2d_nchw"
    )
    return stored(made, result)


def _window(
    data: Tensor,
    kernel: tuple[Any, Any],
    strides: object,
    padding: Any,
    dilation: object,
    asked: str,
) -> tuple[Tensor, tuple[int, int], tuple[int, int], tuple[int, int]]:
    """The padded data, how many windows fit, and the strides and the dilation as pairs."""
    (sh, sw), (dh, dw) = pair(strides, "strides"), pair(dilation, "dilation")
    if min(dh, dw) < 1:
        raise ArgumentError(asked, "dilation must be at least 1")
    kh, kw = ((static(k, asked) - 1) * d + 1 for k, d in zip(kernel, (dh, dw)))
    top, left, bottom, right = get_pad_tuple(padding, (kh, kw))
    oh = windows(data.shape[2], kh, sh, top + bottom, asked)
    ow = windows(data.shape[3], kw, sw, left + right, asked)
    before, after = (0, 0, top, left), (0, 0, bottom, right)
    padded = pad(data, before, after, name="padded") if any(before) or any(after) else data
    return padded, (oh, ow), (sh, sw), (dh, dw)
