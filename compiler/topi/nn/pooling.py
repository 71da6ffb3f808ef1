"""Maxima and averages over windows of images, channels first, last or in blocks."""

from __future__ import annotations

import math
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops import ops
from whet.compiler.topi import reduction, tag
from whet.compiler.topi.halves import summed_in, widened
from whet.compiler.topi.layout import Layout
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
    """The maximum or the average of each window of images.

    Args:
        data: images of the layout.
        kernel, stride, dilation: an int or (vertical, horizontal).
        padding: as for a convolution; for maxima nothing is larger than it.
        pool_type: ``"max"`` or ``"avg"``.
        ceil_mode: a last window may hang over the end: as much padding more as it takes. PyTorch
            leaves out one that begins behind the image.
        layout: NCHW, NHWC, or any other in which H and W are not cut into blocks, e.g. NCHW8c.
        count_include_pad: whether an average divides by the padding's elements, too; never by those
            of ``ceil_mode``.

    Raises:
        ArgumentError: for another type or layout, or windows that do not fit.
    """
    asked = f"pool2d({data}, {kernel}, {stride}, pool_type={pool_type!r}, layout={layout!r})"
    of_h, of_w = _places(data, pool_type, layout, asked)
    if ceil_mode not in (True, False):
        raise ArgumentError(asked, f"ceil_mode is {ceil_mode!r}, no bool", "name it: layout='NHWC'")
    (kh, kw), (sh, sw) = pair(kernel, "kernel"), pair(stride, "stride")
    dh, dw = pair(dilation, "dilation")
    if min(kh, kw, dh, dw) < 1:
        raise ArgumentError(asked, "kernel and dilation must be at least 1")
    span = ((kh - 1) * dh + 1, (kw - 1) * dw + 1)
    top, left, bottom, right = get_pad_tuple(padding, span)
    zeros = pool_type == "avg" and count_include_pad
    h, w = (static(data.shape[k], asked) for k in (of_h, of_w))
    rows = range(-top, h + bottom) if zeros else range(h)
    columns = range(-left, w + right) if zeros else range(w)
    if ceil_mode:
        bottom, right = bottom + max(sh, 1) - 1, right + max(sw, 1) - 1
    oh = windows(h, span[0], sh, top + bottom, asked)
    ow = windows(w, span[1], sw, left + right, asked)
    if ceil_mode or not zeros:
        _check_windows("height", h, rows, oh, (kh, sh, dh, top), asked)
        _check_windows("width", w, columns, ow, (kw, sw, dw, left), asked)
    padded = data
    if top or left or bottom or right:
        lowest = 0.0
        if pool_type == "max":
            least = ops.min_value(data.dtype)
            lowest = -math.inf if dt.is_float(data.dtype) else int(least.value)  # type: ignore[attr-defined]
        before, after = ([0] * data.ndim for _ in range(2))
        before[of_h], before[of_w], after[of_h], after[of_w] = top, left, bottom, right
        padded = pad(data, before, after, lowest, "pad_temp")
    ry, rx = te.reduce_axis((0, kh), name="rv"), te.reduce_axis((0, kw), name="rv")
    combine = te.max if pool_type == "max" else te.sum
    kind = data.dtype if pool_type == "max" else summed_in(data.dtype)

    def element(*index: Any) -> Any:
        at = list(index)
        at[of_h], at[of_w] = at[of_h] * sh + ry * dh, at[of_w] * sw + rx * dw
        return combine(ops.cast(kind, padded(*at)), axis=[ry, rx])

    shape = _resized(data, (of_h, of_w), (oh, ow))
    out = te.compute(shape, element, name=f"pool_{pool_type}", tag=f"pool_{pool_type}")
    if pool_type == "max":
        return out

    def count(i: Any, step: int, by: int, size: int, begin: int, counted: range) -> Any:
        """How many elements of a window count."""
        if zeros and not ceil_mode:
            return ops.const(size)
        inside: Any = ops.const(0)
        for k in range(size):
            at = i * step + (k * by - begin)
            inside = inside + ops.cast(
                "int32", ops.logical_and(at >= counted.start, at < counted.stop)
            )
        return inside

    def average(*index: Any) -> Any:
        y, x = index[of_h], index[of_w]
        many = count(y, sh, dh, kh, top, rows) * count(x, sw, dw, kw, left, columns)
        return _quotient(out(*index), many, data.dtype)

    return te.compute(out.shape, average, name="T_pool_avg", tag=tag.ELEMWISE)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The maximum or the average of each image, as one of a single pixel: (N, C, 1, 1).

    Args:
        data, pool_type, layout: as of :func:`pool2d`.

    Raises:
        ArgumentError: for another type or layout.
    """
    asked = f"global_pool({data}, {pool_type!r}, {layout!r})"
    of_h, of_w = _places(data, pool_type, layout, asked)
    if pool_type == "max":
        return reduction.max(data, (of_h, of_w), keepdims=True)
    total = reduction.sum(widened(data), (of_h, of_w), keepdims=True)
    many = data.shape[of_h] * data.shape[of_w]
    return te.compute(
        total.shape,
        lambda *i: _quotient(total(*i), many, data.dtype),
        name="T_pool_avg",
        tag=tag.ELEMWISE,
    )


def adaptive_pool(
    data: Tensor, output_size: object, pool_type: str, layout: str = "NCHW"
) -> Tensor:
    """The maximum or the average of so many windows, which cover each image of ``data``.

    Window y of the result goes from ``y * H // OH`` to ``-(-(y + 1) * H // OH)``, as in PyTorch.

    Args:
        data, pool_type, layout: as of :func:`pool2d`.
        output_size: an int or (OH, OW).

    Raises:
        ArgumentError: for another type or layout, or no window at all.
    """
    asked = f"adaptive_pool({data}, {output_size}, {pool_type!r}, {layout!r})"
    places = _places(data, pool_type, layout, asked)
    wanted = pair(output_size, "output_size")
    have = [static(data.shape[k], asked) for k in places]
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
    kind = data.dtype if pool_type == "max" else summed_in(data.dtype)
    if pool_type == "max" and not dt.is_float(data.dtype):
        least = int(ops.min_value(data.dtype).value)  # type: ignore[attr-defined]

    def begin(i: Any, h: int, o: int) -> Any:
        return ops.floordiv(i * h, o)

    def end(i: Any, h: int, o: int) -> Any:
        return ops.floordiv((i + 1) * h + (o - 1), o)

    def element(*index: Any) -> Any:
        own = [index[k] for k in places]
        at = [begin(i, h, o) + r for i, h, o, r in zip(own, have, wanted, axes)]
        inside = [p < end(i, h, o) for p, i, h, o in zip(at, own, have, wanted)]
        moved = dict(zip(places, at))
        value: Any = data(*[moved.get(k, i) for k, i in enumerate(index)])
        if not even:
            value = te.if_then_else(te.all(*inside), value, te.const(least, data.dtype))
        return combine(ops.cast(kind, value), axis=axes)

    shape = _resized(data, places, wanted)
    out = te.compute(shape, element, name=f"pool_{pool_type}", tag=f"pool_{pool_type}")
    if pool_type == "max":
        return out

    def average(*index: Any) -> Any:
        many: Any = ops.const(1)
        for k, h, o in zip(places, have, wanted):
            many = many * (end(index[k], h, o) - begin(index[k], h, o))
        return _quotient(out(*index), many, data.dtype)

    return te.compute(out.shape, average, name="T_pool_avg", tag=tag.ELEMWISE)


def _check_windows(
    what: str,
    length: int,
    counted: range,
    count: int,
    window: tuple[int, int, int, int],
    asked: str,
) -> None:
    """Refuse a window without a place that counts: of nothing there is no maximum, no average."""
    many, step, by, begin = window
    for i in range(count):
        first = i * step - begin
        inside = range(first, first + many * by, by)
        if not any(at in counted for at in inside):
            raise ArgumentError(
                asked,
                f"window {i} of the {what} takes {', '.join(map(str, inside[:8]))}"
                f"{', ...' if many > 8 else ''} of {length} pixels, which is padding only",
                f"pad less, or without ceil_mode: the window has {many} pixels, and {begin} stand "
                "before the image",
            )


def _longest(have: int, want: int) -> int:
    return max(-(-(k + 1) * have // want) - k * have // want for k in range(want))


def _quotient(total: Any, many: Any, dtype: str) -> Any:
    """An average, in the type of what it is of."""
    if dt.is_float(total.dtype):
        return ops.cast(dtype, ops.divide(total, ops.cast(total.dtype, many)))
    return ops.truncdiv(total, ops.cast(total.dtype, many))


def _places(data: Tensor, pool_type: str, layout: str, asked: str) -> tuple[int, int]:
    """Which dimensions of the data are the height and the width."""
    if pool_type not in _KINDS:
        raise ArgumentError(asked, "a pool is 'max' or 'avg'", "pool_type='max'")
    parts = Layout.of(layout, asked).parts
    if len(parts) != data.ndim:
        raise ArgumentError(
            asked,
            f"images are ({', '.join(_extent(*p) for p in parts)}), and {data} has {data.ndim} "
            "dimensions",
            "name the data's layout, e.g. layout='NHWC'",
        )
    found = [k for letter in "HW" for k, (x, _) in enumerate(parts) if x == letter]
    if len(found) != 2:
        raise ArgumentError(
            asked,
            f"the layout {layout!r} does not have each of H and W as one dimension",
            "topi.layout_transform(data, layout, 'NCHW')",
        )
    return found[0], found[1]


def _extent(letter: str, block: int) -> str:
    return f"{block}{letter.lower()}" if block else letter


def _resized(data: Tensor, places: tuple[int, int], sizes: tuple[int, int]) -> tuple[Any, ...]:
    """The shape of images of another size."""
    new = dict(zip(places, sizes))
    return tuple(new.get(k, d) for k, d in enumerate(data.shape))


__all__ = ["adaptive_pool", "global_pool", "pool2d"]
