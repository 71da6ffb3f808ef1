"""Maxima and averages over windows of images."""

from __future__ import annotations

import math
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import ops
from whet.compiler.topi import reduction, tag
from whet.compiler.topi.nn.padding import get_pad_tuple, pair, windows
from whet.compiler.topi.pad import pad
from whet.compiler.topi.shapes import static

_KINDS = ("max", "avg")


def pool2d(
    data: Tensor,
    kernel: object,
    stride: object = 1,
    dilation: object = 1,
    padding: Any = 0,
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """The maximum or the average of each window of ``data`` (N, C, H, W).

    Args:
        kernel, stride, dilation: an int or (vertical, horizontal).
        padding: as for a convolution; for maxima nothing is larger than it.
        pool_type: ``"max"`` or ``"avg"``.
        ceil_mode: windows may hang over the end; not here yet.
        layout: NCHW.
        count_include_pad: whether an average divides by the window's whole size.

    Raises:
        ArgumentError: for another type or layout, or windows that do not fit.
    """
    asked = f"pool2d({data}, {kernel}, {stride}, pool_type={pool_type!r}, layout={layout!r})"
    _check(data, pool_type, layout, asked)
    if ceil_mode:
        raise ArgumentError(asked, "ceil_mode is not here", "pad the data at its end instead")
    (kh, kw), (sh, sw) = pair(kernel, "kernel"), pair(stride, "stride")
    dh, dw = pair(dilation, "dilation")
    if min(kh, kw, dh, dw) < 1:
        raise ArgumentError(asked, "kernel and dilation must be at least 1")
    span = ((kh - 1) * dh + 1, (kw - 1) * dw + 1)
    top, left, bottom, right = get_pad_tuple(padding, span)
    n, c, h, w = data.shape
    oh = windows(h, span[0], sh, top + bottom, asked)
    ow = windows(w, span[1], sw, left + right, asked)
    if pool_type == "max" or not count_include_pad:
        _check_windows("height", h, oh, (kh, sh, dh, top), asked)
        _check_windows("width", w, ow, (kw, sw, dw, left), asked)
    padded = data
    if top or left or bottom or right:
        lowest = 0.0
        if pool_type == "max":
            least = ops.min_value(data.dtype)
            lowest = -math.inf if dt.is_float(data.dtype) else int(least.value)  # type: ignore[attr-defined]
        padded = pad(data, (0, 0, top, left), (0, 0, bottom, right), lowest, "pad_temp")
    ry, rx = te.reduce_axis((0, kh), name="rv"), te.reduce_axis((0, kw), name="rv")
    combine = te.max if pool_type == "max" else te.sum

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        return combine(padded[b, o, y * sh + ry * dh, x * sw + rx * dw], axis=[ry, rx])

    out = te.compute((n, c, oh, ow), element, name=f"pool_{pool_type}", tag=f"pool_{pool_type}")
    if pool_type == "max":
        return out

    def count(i: Any, step: int, by: int, size: int, begin: int, length: Any) -> Any:
        """How many elements of a window are in the image."""
        if count_include_pad:
            return ops.const(size)
        inside: Any = ops.const(0)
        for k in range(size):
            at = i * step + (k * by - begin)
            inside = inside + ops.cast("int32", ops.logical_and(at >= 0, at < length))
        return ops.maximum(inside, 1)

    def average(b: Any, o: Any, y: Any, x: Any) -> Any:
        many = count(y, sh, dh, kh, top, h) * count(x, sw, dw, kw, left, w)
        return _quotient(out[b, o, y, x], many)

    return te.compute(out.shape, average, name="T_pool_avg", tag=tag.ELEMWISE)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The maximum or the average of each image of ``data`` (N, C, H, W), as (N, C, 1, 1).

    Raises:
        ArgumentError: for another type or layout.
    """
    _check(data, pool_type, layout, f"global_pool({data}, {pool_type!r}, {layout!r})")
    if pool_type == "max":
        return reduction.max(data, (2, 3), keepdims=True)
    total = reduction.sum(data, (2, 3), keepdims=True)
    many = data.shape[2] * data.shape[3]
    return te.compute(
        total.shape, lambda *i: _quotient(total(*i), many), name="T_pool_avg", tag=tag.ELEMWISE
    )


def adaptive_pool(
    data: Tensor, output_size: object, pool_type: str, layout: str = "NCHW"
) -> Tensor:
    """The maximum or the average of so many windows, which cover each image of ``data``.

    Window y of the result goes from ``y * H // OH`` to ``-(-(y + 1) * H // OH)``, as in PyTorch.

    Args:
        data: (N, C, H, W).
        output_size: an int or (OH, OW).
        pool_type: ``"max"`` or ``"avg"``.
        layout: NCHW.

    Raises:
        ArgumentError: for another type or layout, or no window at all.
    """
    asked = f"adaptive_pool({data}, {output_size}, {pool_type!r})"
    _check(data, pool_type, layout, asked)
    wanted = pair(output_size, "output_size")
    n, c, *sizes = data.shape
    have = [static(d, asked) for d in sizes]
    if min(wanted) < 1:
        raise ArgumentError(asked, f"output_size {wanted} has a number below 1", "1 or more")
    if min(have) < 1:
        raise ArgumentError(
            asked,
            f"images of {have[0]}x{have[1]} have no pixels for {wanted[0]}x{wanted[1]} windows",
            "give images of at least one pixel",
        )
    # All windows are as long as the longest; what is beyond a shorter one does not count.
    longest = [_longest(h, o) for h, o in zip(have, wanted)]
    axes = [te.reduce_axis((0, k), name="rv") for k in longest]
    even = all(h % o == 0 for h, o in zip(have, wanted))
    combine, least = (te.max, -math.inf) if pool_type == "max" else (te.sum, 0)
    if pool_type == "max" and not dt.is_float(data.dtype):
        least = int(ops.min_value(data.dtype).value)  # type: ignore[attr-defined]

    def begin(i: Any, h: int, o: int) -> Any:
        return ops.floordiv(i * h, o)

    def end(i: Any, h: int, o: int) -> Any:
        return ops.floordiv((i + 1) * h + (o - 1), o)

    def element(b: Any, k: Any, y: Any, x: Any) -> Any:
        at = [begin(i, h, o) + r for i, h, o, r in zip((y, x), have, wanted, axes)]
        inside = [p < end(i, h, o) for p, i, h, o in zip(at, (y, x), have, wanted)]
        value: Any = data(b, k, *at)
        if not even:
            value = te.if_then_else(te.all(*inside), value, te.const(least, data.dtype))
        return combine(value, axis=axes)

    out = te.compute((n, c, *wanted), element, name=f"pool_{pool_type}", tag=f"pool_{pool_type}")
    if pool_type == "max":
        return out

    def average(b: Any, k: Any, y: Any, x: Any) -> Any:
        many: Any = ops.const(1)
        for i, h, o in zip((y, x), have, wanted):
            many = many * (end(i, h, o) - begin(i, h, o))
        return _quotient(out(b, k, y, x), many)

    return te.compute(out.shape, average, name="T_pool_avg", tag=tag.ELEMWISE)


def _check_windows(
    what: str, size: Any, count: int, window: tuple[int, int, int, int], asked: str
) -> None:
    """Refuse a window that lies beside the image: of nothing there is no maximum and no average."""
    many, step, by, begin = window
    length = static(size, asked)
    for i in range(count):
        first = i * step - begin
        inside = range(first, first + many * by, by)
        if not any(0 <= at < length for at in inside):
            raise ArgumentError(
                asked,
                f"window {i} of the {what} takes {', '.join(map(str, inside[:8]))}"
                f"{', ...' if many > 8 else ''} of {length} pixels, which is padding only",
                f"pad less: the window has {many} pixels, and {begin} stand before the image",
            )


def _longest(have: int, want: int) -> int:
    return max(-(-(k + 1) * have // want) - k * have // want for k in range(want))


def _quotient(total: Any, many: Any) -> Any:
    if dt.is_float(total.dtype):
        return ops.divide(total, ops.cast(total.dtype, many))
    return ops.truncdiv(total, ops.cast(total.dtype, many))


def _check(data: Tensor, pool_type: str, layout: str, asked: str) -> None:
    if data.ndim != 4 or layout != "NCHW":
        raise ArgumentError(asked, "images are (N, C, H, W)", "transpose the data")
    if pool_type not in _KINDS:
        raise ArgumentError(asked, "a pool is 'max' or 'avg'")


__all__ = ["adaptive_pool", "global_pool", "pool2d"]
