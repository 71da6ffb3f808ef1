"""Maxima and averages over windows of images, channels first, last or in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.ops import (
    cast,
    const,
    convert,
    divide,
    floordiv,
    if_then_else,
    logical_and,
    min_value,
    truncdiv,
)
from whet.compiler.topi import reduction
from whet.compiler.topi.elementwise import each_element
from whet.compiler.topi.half_precision import summed_in, widened
from whet.compiler.topi.layout import Layout
from whet.compiler.topi.nn.windows import Windows, each, padded, windows_of
from whet.compiler.topi.shapes import is_at_least, is_constant, known, product, static
from whet.compiler.topi.tag import ELEMWISE


def pool1d(
    data: Tensor,
    kernel: object,
    stride: object = 1,
    dilation: object = 1,
    padding: Any = 0,
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
    start_inside: bool = False,
) -> Tensor:
    """The maximum or the average of each window of rows; arguments as of :func:`pool2d`."""
    return _pool(
        "W", data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout,
        count_include_pad, start_inside,
    )  # fmt: skip


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
    start_inside: bool = False,
) -> Tensor:
    """The maximum or the average of each window of images.

    Args:
        data: images of the layout.
        kernel, stride, dilation: an int or (vertical, horizontal).
        padding: as for a convolution; for maxima nothing is larger than it.
        pool_type: ``"max"`` or ``"avg"``.
        ceil_mode: a last window may reach beyond the end: as much padding more as it takes.
        layout: NCHW, NHWC, or any other in which H and W are not cut into blocks, e.g. NCHW8c.
        count_include_pad: whether an average divides by the padding's elements, too; never by those
            of ``ceil_mode``.
        start_inside: ``ceil_mode`` leaves out a window that begins behind the image, as in PyTorch
            and ONNX.

    Raises:
        ArgumentError: for another type or layout, or windows that do not fit.
    """
    return _pool(
        "HW", data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout,
        count_include_pad, start_inside,
    )  # fmt: skip


def pool3d(
    data: Tensor,
    kernel: object,
    stride: object = 1,
    dilation: object = 1,
    padding: Any = 0,
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
    start_inside: bool = False,
) -> Tensor:
    """The maximum or the average of each window of volumes; arguments as of :func:`pool2d`."""
    return _pool(
        "DHW", data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout,
        count_include_pad, start_inside,
    )  # fmt: skip


def _pool(
    spatial: str, data: Tensor, kernel: object, stride: object, dilation: object, padding: Any,
    pool_type: str, ceil_mode: bool, layout: str, count_include_pad: bool, start_inside: bool,
) -> Tensor:  # fmt: skip
    """The pool over the dimensions that the letters ``spatial`` name in the layout."""
    rank = len(spatial)
    request = f"pool{rank}d({data}, {kernel}, {stride}, pool_type={pool_type!r}, layout={layout!r})"
    places = _places(data, pool_type, layout, request, spatial)
    if ceil_mode not in (True, False):
        raise ArgumentError(
            request, f"ceil_mode is {ceil_mode!r}, no bool", "name it: layout='NHWC'"
        )
    image, size = [data.shape[k] for k in places], each(kernel, "kernel", rank, 1)
    along = windows_of(image, size, stride, padding, dilation, request, ceil_mode, start_inside)
    zeros = pool_type == "avg" and count_include_pad
    counted = [(-w.before, w.image + w.after) if zeros else (0, w.image) for w in along]
    partial = ceil_mode or not zeros
    if partial:
        for letter, windows, inside in zip(spatial, along, counted):
            _check_windows(_EXTENTS[letter], windows, inside, request)
    source = padded(data, places, along, _outside(data.dtype, pool_type), "pad_temp")
    axes = [reduce_axis((0, w.size), name="rv") for w in along]

    def element(*index: Any) -> Any:
        at = list(index)
        for k, w, axis in zip(places, along, axes):
            at[k] = w.place(at[k], axis)
        return source(*at)

    def many(*index: Any) -> Any:
        """How many elements of a window count."""
        sizes: list[Any] = size
        if partial:
            sizes = [_inside(index[k], w, c) for k, w, c in zip(places, along, counted)]
        return product(sizes)

    return _pooled(data, pool_type, places, [w.count for w in along], element, axes, many)


def max_pool_places(
    data: Tensor,
    kernel: Sequence[int],
    stride: object = 1,
    dilation: object = 1,
    padding: Any = 0,
    ceil_mode: bool = False,
    start_inside: bool = False,
) -> Tensor:
    """The place of each window's first maximum, counted in rows of the image; int32.

    Args:
        data: (N, C, spatial ...), of any number of spatial dimensions.
        kernel, stride, dilation, padding, ceil_mode, start_inside: as of :func:`pool2d`.

    Returns:
        (N, C, windows ...).

    Raises:
        ArgumentError: windows do not fit.
    """
    request = f"max_pool_places({data}, {kernel}, {stride})"
    along = windows_of(
        data.shape[2:], kernel, stride, padding, dilation, request, ceil_mode, start_inside
    )
    places = range(2, data.ndim)
    source = padded(data, places, along, _outside(data.dtype, "max"), "pad_temp")
    axes = [reduce_axis((0, w.size), name="rv") for w in along]

    def element(n: Any, c: Any, *index: Any) -> Any:
        flat: Any = const(0)
        at = [w.place(i, axis) for w, i, axis in zip(along, index, axes)]
        for w, x in zip(along, at):
            flat = flat * w.image + (x - w.before)
        return reduction.first_largest((cast("int32", flat), source(n, c, *at)), axis=axes)

    shape = (*data.shape[:2], *(w.count for w in along))
    pair = compute(shape, element, "pool_places", "argmax_pair")
    return compute(shape, lambda *i: pair[0](*i), "T_pool_places", ELEMWISE)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The maximum or the average of each image, as one of a single pixel: (N, C, 1, 1).

    Args:
        data, pool_type, layout: as of :func:`pool2d`.

    Raises:
        ArgumentError: for another type or layout.
    """
    places = _places(data, pool_type, layout, f"global_pool({data}, {pool_type!r}, {layout!r})")
    if pool_type == "max":
        return reduction.max(data, places, keepdims=True)
    h, w = (data.shape[k] for k in places)
    total = reduction.sum(widened(data), places, keepdims=True)
    return each_element(total, lambda one: _average(one, h * w, data.dtype), "T_pool_avg")


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
    return _adaptive(data, output_size, pool_type, layout, "adaptive_pool", "HW")


def adaptive_pool1d(
    data: Tensor, output_size: object, pool_type: str, layout: str = "NCW"
) -> Tensor:
    """:func:`adaptive_pool` of rows."""
    return _adaptive(data, output_size, pool_type, layout, "adaptive_pool1d", "W")


def adaptive_pool3d(
    data: Tensor, output_size: object, pool_type: str, layout: str = "NCDHW"
) -> Tensor:
    """:func:`adaptive_pool` of volumes."""
    return _adaptive(data, output_size, pool_type, layout, "adaptive_pool3d", "DHW")


def _adaptive(
    data: Tensor, output_size: object, pool_type: str, layout: str, name: str, spatial: str
) -> Tensor:
    """An adaptive pool along the dimensions that the letters name."""
    request = f"{name}({data}, {output_size}, {pool_type!r}, {layout!r})"
    places = _places(data, pool_type, layout, request, spatial)
    wanted = tuple(each(output_size, "output_size", len(spatial)))
    have = [known(data.shape[k]) for k in places]
    if min(wanted) < 1:
        raise ArgumentError(request, f"output_size {wanted} has a number below 1", "1 or more")
    if any(isinstance(h, int) and h < 1 for h in have):
        raise ArgumentError(
            request,
            f"images of {_by(have)} have no pixels for {_by(wanted)} windows",
            "give images of at least one pixel",
        )
    # All windows are as long as the longest; what is beyond a shorter one does not count.
    axes = [reduce_axis((0, _longest(h, o)), name="rv") for h, o in zip(have, wanted)]
    even = all(isinstance(h, int) and h % o == 0 for h, o in zip(have, wanted))

    def ends(index: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Where a window begins and ends in each dimension."""
        return [
            (floordiv(index[k] * h, o), floordiv((index[k] + 1) * h + (o - 1), o))
            for k, h, o in zip(places, have, wanted)
        ]

    def element(*index: Any) -> Any:
        at, inside = list(index), []
        for k, (begin, end), axis in zip(places, ends(index), axes):
            at[k] = begin + axis
            inside.append(at[k] < end)
        if even:
            return data(*at)
        outside = const(_outside(data.dtype, pool_type), data.dtype)
        return if_then_else(te.all(*inside), data(*at), outside)

    def many(*index: Any) -> Any:
        return product([end - begin for begin, end in ends(index)])

    return _pooled(data, pool_type, places, wanted, element, axes, many)


def _longest(size: Any, many: int) -> Any:
    """The longest of so many windows; of an open size, what none is longer than."""
    if not isinstance(size, int):
        return floordiv(size, many) + min(many - 1, 2)
    return max(-(-(k + 1) * size // many) - k * size // many for k in range(many))


def _by(sizes: Sequence[Any]) -> str:
    return "x".join(map(str, sizes))


def _pooled(
    data: Tensor,
    pool_type: str,
    places: Sequence[int],
    sizes: Sequence[int],
    element: Callable[..., Any],
    axes: list[IterVar],
    many: Callable[..., Any],
) -> Tensor:
    """The maximum or the average of ``element`` over ``axes``.

    Args:
        data, pool_type: as of :func:`pool2d`.
        places: the dimensions of the height and the width.
        sizes: the result's in them.
        element: of a window, at an index of the result and of ``axes``.
        axes: of a window.
        many: how many elements the window at an index has.
    """
    shape = list(data.shape)
    for k, size in zip(places, sizes):
        shape[k] = convert(size)
    largest = pool_type == "max"
    combine, kind = (te.max, data.dtype) if largest else (te.sum, summed_in(data.dtype))

    def pooled(*index: Any) -> Any:
        return combine(cast(kind, element(*index)), axis=axes)

    name = f"pool_{pool_type}"
    out = compute(shape, pooled, name, name)
    if largest:
        return out

    def average(*index: Any) -> Any:
        return _average(out(*index), many(*index), data.dtype)

    return compute(out.shape, average, "T_pool_avg", ELEMWISE)


def _average(total: Any, many: Any, dtype: str) -> Any:
    """A sum by a number of elements, in the type of the elements."""
    by = cast(total.dtype, many)
    if dt.is_float(total.dtype):
        return cast(dtype, divide(total, by))
    return truncdiv(total, by)


def _outside(dtype: str, pool_type: str) -> float:
    """A number that changes no maximum, or no sum."""
    if pool_type == "avg":
        return 0.0
    return -math.inf if dt.is_float(dtype) else int(min_value(dtype).value)  # type: ignore[attr-defined]


def _inside(i: Any, along: Windows, counted: tuple[Any, Any]) -> Any:
    """How many places of window ``i`` count: those from the first number to the second."""
    many: Any = const(0)
    for k in range(along.size):
        at = i * along.stride + (k * along.dilation - along.before)
        inside = logical_and(at >= counted[0], at < counted[1])
        many = many + cast("int32", inside)
    return many


def _check_windows(name: str, along: Windows, counted: tuple[Any, Any], request: str) -> None:
    """Refuse a window without a place that counts: of nothing there is no maximum, no average."""
    if not is_constant(along.image):
        reach = (along.size - 1) * along.dilation
        has_one = max(along.before, along.after + along.overhang) <= reach
        if not has_one or not is_at_least(along.image, along.dilation):
            static(along.image, request)  # whether there is one depends on the image
        return
    for i in range(along.count):
        first = along.place(i, 0) - along.before
        inside = range(first, first + along.size * along.dilation, along.dilation)
        if not any(counted[0] <= at < counted[1] for at in inside):
            raise ArgumentError(
                request,
                f"window {i} of the {name} takes {', '.join(map(str, inside[:8]))}"
                f"{', ...' if along.size > 8 else ''} of {along.image} pixels, which is padding "
                "only",
                f"pad less, or without ceil_mode: the window has {along.size} pixels, and "
                f"{along.before} stand before the image",
            )


def _places(
    data: Tensor, pool_type: str, layout: str, request: str, spatial: str = "HW"
) -> list[int]:
    """The dimensions of the data that the letters name, e.g. the height and the width."""
    if pool_type not in ("max", "avg"):
        raise ArgumentError(request, "a pool is 'max' or 'avg'", "pool_type='max'")
    parts = Layout.of(layout, request).parts
    if len(parts) != data.ndim:
        extents = [f"{block}{letter.lower()}" if block else letter for letter, block in parts]
        raise ArgumentError(
            request,
            f"images are ({', '.join(extents)}), and {data} has {data.ndim} dimensions",
            "name the data's layout, e.g. layout='NHWC'",
        )
    places = [k for letter in spatial for k, (x, _) in enumerate(parts) if x == letter]
    if len(places) != len(spatial):
        raise ArgumentError(
            request,
            f"the layout {layout!r} does not have each of {' and '.join(spatial)} as one dimension",
            f"topi.layout_transform(data, layout, 'NC{spatial}')",
        )
    return places


_EXTENTS = {"D": "depth", "H": "height", "W": "width"}
