"""Convolutions of images."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import ops
from whet.compiler.topi.nn.padding import get_pad_tuple, pair, windows
from whet.compiler.topi.pad import pad
from whet.compiler.topi.shapes import static


def conv2d(
    data: Tensor,
    weight: Tensor,
    strides: object = 1,
    padding: object = 0,
    dilation: object = 1,
    data_layout: str = "NCHW",
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution, by the layout of its data.

    Raises:
        ArgumentError: for another layout than NCHW, and as :func:`conv2d_nchw`.
    """
    if data_layout != "NCHW":
        raise ArgumentError(
            f"conv2d(..., data_layout={data_layout!r})",
            "there is a convolution for NCHW only",
            "transpose the data: topi.transpose(data, (0, 3, 1, 2))",
        )
    return conv2d_nchw(data, weight, strides, padding, dilation, out_dtype)


def conv2d_nchw(
    data: Tensor,
    weight: Tensor,
    strides: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    out_dtype: str | None = None,
    name: str = "conv",
) -> Tensor:
    """The convolution of ``data`` (N, CI, H, W) with ``weight`` (CO, CI, KH, KW).

    Args:
        strides: step of the window, an int or (vertical, horizontal), at least 1.
        padding: zeros on each side, an int, (vertical, horizontal), (top, left, bottom, right),
            ``"VALID"`` or ``"SAME"``.
        dilation: the distance between two elements of the window, at least 1.
        out_dtype: what is summed up and returned; ``data``'s by default.
        name: of the result.

    Returns:
        (N, CO, OH, OW).

    Raises:
        ArgumentError: if shapes, strides or padding do not fit.
    """
    asked = f"conv2d_nchw({data}, {weight}, strides={strides}, padding={padding})"
    if data.ndim != 4 or weight.ndim != 4:
        raise ArgumentError(asked, "data and weight must have four dimensions")
    n, ci, _, _ = data.shape
    co, ci2, kh, kw = weight.shape
    if not ci == ci2:
        raise ArgumentError(asked, "the input channels of data and weight differ")
    padded, (oh, ow), (sh, sw), (dh, dw) = _window(
        data, (kh, kw), strides, padding, dilation, asked
    )
    rc = te.reduce_axis((0, ci), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    kind = out_dtype or data.dtype

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        one = padded[b, rc, y * sh + ry * dh, x * sw + rx * dw]
        return te.sum(ops.cast(kind, one) * ops.cast(kind, weight[o, rc, ry, rx]), [rc, ry, rx])

    return te.compute((n, co, oh, ow), element, name=name, tag="conv2d_nchw")


def depthwise_conv2d_nchw(
    data: Tensor,
    weight: Tensor,
    stride: object = 1,
    padding: Any = 0,
    dilation: object = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Each channel of ``data`` (N, C, H, W) with its own ``weight`` (C, M, KH, KW).

    Returns:
        (N, C * M, OH, OW): channel ``c * M + m`` is channel ``c`` with window ``m``.

    Raises:
        ArgumentError: if shapes, strides or padding do not fit.
    """
    asked = f"depthwise_conv2d_nchw({data}, {weight}, stride={stride}, padding={padding})"
    if data.ndim != 4 or weight.ndim != 4:
        raise ArgumentError(asked, "data and weight must have four dimensions")
    n, c, _, _ = data.shape
    c2, many, kh, kw = weight.shape
    if not c == c2:
        raise ArgumentError(asked, "the channels of data and weight differ")
    padded, (oh, ow), (sh, sw), (dh, dw) = _window(data, (kh, kw), stride, padding, dilation, asked)
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    kind = out_dtype or data.dtype

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        one = padded[b, o // many, y * sh + ry * dh, x * sw + rx * dw]
        own = weight[o // many, o % many, ry, rx]
        return te.sum(ops.cast(kind, one) * ops.cast(kind, own), [ry, rx])

    return te.compute(
        (n, c * many, oh, ow), element, name="DepthwiseConv2d", tag="depthwise_conv2d_nchw"
    )


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
