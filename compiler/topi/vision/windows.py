"""Windows of images that are compared with others, or widened."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import cast, const, floordiv, floormod
from whet.compiler.topi.half_precision import stored, summed_in
from whet.compiler.topi.nn.pad import pad
from whet.compiler.topi.nn.windows import get_pad_tuple, windows_of
from whet.compiler.topi.shapes import static


def correlation_nchw(
    data1: Tensor,
    data2: Tensor,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool,
) -> Tensor:
    """How alike the windows of one image are to those around their places in another.

    Args:
        data1, data2: (N, C, H, W), of one shape and type.
        kernel_size: of a window, odd.
        max_displacement: to a window of ``data2``, in pixels.
        stride1: from one window of ``data1`` to the next.
        stride2: from one displacement to the next.
        padding: an int, (vertical, horizontal), or (top, left, bottom, right).
        is_multiply: the mean of the products, or of the absolute differences.

    Returns:
        (N, displacements, windows, windows); displacements row by row.

    Raises:
        ArgumentError: the shapes differ, the window is even, or none fits.
    """
    request = f"correlation_nchw({data1}, {data2}, {kernel_size}, {max_displacement})"
    shape = [static(d, request) for d in data1.shape]
    if shape != [static(d, request) for d in data2.shape] or data1.dtype != data2.dtype:
        raise ArgumentError(request, "the shapes or the types of the two images differ")
    if len(shape) != 4 or kernel_size < 1 or kernel_size % 2 == 0:
        raise ArgumentError(request, "images are (N, C, H, W), the window's size is odd")
    top, left, bottom, right = get_pad_tuple(padding, (kernel_size, kernel_size))
    one, two = (pad(t, (0, 0, top, left), (0, 0, bottom, right)) for t in (data1, data2))
    border = max_displacement + (kernel_size - 1) // 2
    reach = max_displacement // stride2
    many = 2 * reach + 1
    sizes = (shape[2] + top + bottom, shape[3] + left + right)
    out = [-(-(n - 2 * border) // stride1) for n in sizes]
    if min(out) < 1:
        raise ArgumentError(request, "no window fits")
    wide = summed_in(data1.dtype)
    rc, ry, rx = (
        reduce_axis((0, n), name=f"r{k}")
        for k, n in zip("cyx", (shape[1], kernel_size, kernel_size))
    )
    share = const(1 / (kernel_size * kernel_size * shape[1]), wide)

    def element(n: Any, q: Any, i: Any, j: Any) -> Any:
        y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
        v = y + (floordiv(q, many) - reach) * stride2
        u = x + (floormod(q, many) - reach) * stride2
        a = cast(wide, one(n, rc, y + ry, x + rx))
        b = cast(wide, two(n, rc, v + ry, u + rx))
        return te.sum(a * b if is_multiply else m.abs(a - b), [rc, ry, rx])

    total = compute((shape[0], many * many, *out), element, "T_correlation")
    mean = compute(total.shape, lambda *i: total(*i) * share, "T_correlation_mean")
    return stored(mean, data1.dtype)


def dilation2d_nchw(
    input: Tensor,
    filter: Tensor,
    stride: Any,
    padding: Any,
    dilations: Any,
    out_dtype: str | None = None,
) -> Tensor:
    """The largest pixel plus weight of each window: morphological dilation.

    Args:
        input: (N, C, H, W).
        filter: (C, KH, KW).
        stride, dilations: an int or (vertical, horizontal).
        padding: as of convolutions, of zeros.
        out_dtype: of the result; ``input``'s by default.

    Raises:
        ArgumentError: the channels differ, or no window fits.
    """
    return _widened(input, filter, stride, padding, dilations, out_dtype, 1)


def dilation2d_nhwc(
    input: Tensor,
    filter: Tensor,
    stride: Any,
    padding: Any,
    dilations: Any,
    out_dtype: str | None = None,
) -> Tensor:
    """:func:`dilation2d_nchw` of images (N, H, W, C) and weights (KH, KW, C)."""
    return _widened(input, filter, stride, padding, dilations, out_dtype, 3)


def _widened(
    data: Tensor, weight: Tensor, stride: Any, padding: Any, dilations: Any,
    out_dtype: str | None, channel: int,
) -> Tensor:  # fmt: skip
    request = f"dilation2d({data}, {weight})"
    if data.ndim != 4 or weight.ndim != 3:
        raise ArgumentError(request, "images have four dimensions, weights three")
    first = 2 if channel == 1 else 1
    of = 1 if channel == 1 else 0
    if not data.shape[channel] == weight.shape[channel - first + of]:
        raise ArgumentError(request, "the channels of the images and the weights differ")
    rows, columns = windows_of(
        data.shape[first : first + 2],
        weight.shape[of : of + 2],
        stride,
        padding,
        dilations,
        request,
    )
    before, after = [0] * 4, [0] * 4
    for k, along in enumerate((rows, columns)):
        before[first + k], after[first + k] = along.before, along.after
    image = pad(data, before, after)
    dtype = out_dtype or data.dtype
    ry, rx = (reduce_axis((0, w.size), name=f"r{k}") for k, w in zip("yx", (rows, columns)))

    def element(*i: Any) -> Any:
        y, x = rows.place(i[first], ry), columns.place(i[first + 1], rx)
        one = image(*i[:first], y, x, *i[first + 2 :])
        c = i[channel]
        own = weight(c, ry, rx) if channel == 1 else weight(ry, rx, c)
        return te.max(cast(dtype, one) + cast(dtype, own), [ry, rx])

    shape: list[Any] = [*data.shape]
    shape[first : first + 2] = [rows.count, columns.count]
    return compute(shape, element, "T_dilation2d")
