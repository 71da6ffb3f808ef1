"""Pixels at places that are data, between those of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as combinations
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import (
    all_of,
    cast,
    const,
    if_then_else,
    maximum,
    minimum,
    select,
)
from whet.compiler.topi.shapes import nearest_inside, static, with_axis
from whet.compiler.topi.tag import COMM_REDUCE, INJECTIVE

Pixel = Callable[[Sequence[Any]], Any]

_METHODS = ("nearest", "bilinear", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75  # Keys' parameter, PyTorch's


def resample(data: Tensor, places: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Along an axis, element i is a sum of elements at ``places[i]`` times ``weights[i]``.

    Args:
        data: any tensor.
        places: (count, taps), integers; one outside is the nearest element.
        weights: (count, taps), of the type of ``data``.
        axis: along which; the result has ``count`` elements there.
    """
    count, taps = places.shape
    t = reduce_axis((0, taps), name="t")
    shape = with_axis(data.shape, axis, count)

    def element(*i: Any) -> Any:
        k = i[axis]
        at = nearest_inside(places(k, t), data.shape[axis])
        return te.sum(data(*with_axis(i, axis, at)) * weights(k, t), axis=t)

    return compute(shape, element, "T_resample", COMM_REDUCE)


def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """Images sampled at the places of a grid, as PyTorch's and ONNX's.

    Args:
        data: (N, C, H, W), (N, C, D, H, W), or of any number of spatial dimensions.
        grid: (N, spatial ..., dimensions): the place along the last dimension first; -1 and 1 are
            the ends of an image.
        method: ``"nearest"`` (of two as near the even one), ``"bilinear"`` (linear in any rank) or
            ``"bicubic"``.
        layout: ``"NCHW"`` or ``"NCDHW"``; channels come first in any rank.
        padding_mode: outside is 0 (``"zeros"``), the nearest pixel (``"border"``), or the image in
            a mirror (``"reflection"``).
        align_corners: -1 and 1 are the centres of the pixels at the ends, not their outer edges.

    Returns:
        (N, C, spatial dimensions of the grid ...).

    Raises:
        ArgumentError: shapes, types, the method or the padding do not fit.
    """
    request = f"grid_sample({data}, {grid}, {method!r}, padding_mode={padding_mode!r})"
    rank = data.ndim - 2
    if rank < 1 or grid.ndim != rank + 2 or static(grid.shape[-1], request) != rank:
        raise ArgumentError(request, f"a grid of {rank} dimensions is (N, ..., {rank})")
    if method not in _METHODS or padding_mode not in _PADDINGS or not layout.startswith("NC"):
        known = ", ".join((*_METHODS, *_PADDINGS))
        raise ArgumentError(request, "no such method, padding or layout", known)
    if not dt.is_float(data.dtype) and method != "nearest":
        raise ArgumentError(request, f"a mean of {data.dtype} is a fraction", "cast the data")
    sizes = [static(d, request) for d in data.shape[2:]]

    def element(n: Any, c: Any, *out: Any) -> Any:
        at = []
        for k, size in enumerate(sizes):
            one = grid(n, *out, rank - 1 - k)
            at.append(_place(one, size, method, padding_mode, align_corners))

        def pixel(index: Sequence[Any]) -> Any:
            return _pixel(data, n, c, index, sizes, padding_mode, align_corners)

        if method == "nearest":
            return pixel([cast("int32", x) for x in at])
        return between(pixel, at, data.dtype, method == "bicubic")

    shape = (*data.shape[:2], *grid.shape[1:-1])
    return compute(shape, element, "T_grid_sample", INJECTIVE)


def _place(one: Any, size: int, method: str, padding: str, corners: bool) -> Any:
    """Where a place from -1 to 1 is, counted in pixels; outside it is brought in, but for zeros."""
    kind = one.dtype
    half = const(0.5, kind)
    if corners:
        x = (one + const(1, kind)) * half * const(size - 1, kind)
    else:
        x = ((one + const(1, kind)) * const(size, kind) - const(1, kind)) * half
    x = m.nearbyint(x) if method == "nearest" else x
    if padding == "border" and method != "bicubic":  # whose weights are those of the place outside
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        inside = all_of(x >= const(low, kind), x <= const(high, kind))
        return select(inside, x, maximum(minimum(x, const(size - 1, kind)), const(0, kind)))
    if padding == "reflection":
        return _reflected(x, size, corners)
    # far outside all is 0, or the pixel at the border, and an integer holds what is near
    return maximum(minimum(x, const(size + 4, kind)), const(-5, kind))


def _reflected(x: Any, size: int, corners: bool) -> Any:
    """A place in the mirrors at both ends, brought into the image."""
    kind = x.dtype
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    span = const(high - low, kind)
    if high == low:
        return const(0, kind)
    first = const(low, kind)
    off = m.abs(x - first)
    turns = m.floor(off / span)
    rest = off - turns * span
    even = (turns - const(2, kind) * m.floor(turns * const(0.5, kind))).equal(const(0, kind))
    return select(even, first + rest, const(high, kind) - rest)


def pixel_of(data: Tensor, n: Any, c: Any, sizes: Sequence[int]) -> Pixel:
    """From a place to the pixel of one image there, 0 outside."""
    return lambda index: _pixel(data, n, c, index, sizes, "zeros", True)


def _pixel(
    data: Tensor, n: Any, c: Any, index: Sequence[Any], sizes: Sequence[int], padding: str,
    corners: bool,
) -> Any:  # fmt: skip
    """A pixel, or what stands for one outside."""
    if padding == "reflection":
        index = [_mirrored(i, d, corners) for i, d in zip(index, sizes)]
    inner = [maximum(minimum(i, d - 1), 0) for i, d in zip(index, sizes)]
    if padding != "zeros":
        return data(n, c, *inner)
    tests = [t for i, d in zip(index, sizes) for t in (i >= 0, i < d)]
    return if_then_else(all_of(*tests), data(n, c, *inner), const(0, data.dtype))


def _mirrored(i: Any, size: int, corners: bool) -> Any:
    """The pixel that one near an end is in the mirror there."""
    by = 0 if corners else 1  # a mirror at an edge repeats the pixel there
    front = select(i < 0, -i - by, i)
    return select(front > size - 1, 2 * (size - 1) + by - front, front)


def between(pixel: Pixel, at: Sequence[Any], dtype: str, cubic: bool = False) -> Any:
    """The sum of the pixels around a place, by the product of the weights of each dimension."""
    low = [m.floor(x) for x in at]
    first = [cast("int32", x) for x in low]
    parts = [cast(dtype, x - y) for x, y in zip(at, low)]
    weights = [_cubic(p) if cubic else [const(1, dtype) - p, p] for p in parts]
    offset = -1 if cubic else 0
    total = None
    for taps in combinations(range(len(weights[0])), repeat=len(at)):
        term = pixel([f + (t + offset) for f, t in zip(first, taps)])
        for w, t in zip(weights, taps):
            term = term * w[t]
        total = term if total is None else total + term
    return total


def _cubic(t: Any) -> list[Any]:
    """Keys' weights of the pixels at -1, 0, 1 and 2 for a place from 0 to 1."""
    a, one = _CUBIC, const(1, t.dtype)

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + one

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - const(4 * a, x.dtype)

    return [far(t + one), near(t), near(one - t), far(const(2, t.dtype) - t)]


def affine_grid(data: Tensor, target_shape: Sequence[int], align_corners: bool = True) -> Tensor:
    """The grid of :func:`grid_sample` that an affine map of the places makes.

    Args:
        data: (N, 2, 3) for images, (N, 3, 4) for volumes: a row makes one coordinate, x first.
        target_shape: spatial extents, (H, W) or (D, H, W).
        align_corners: as of :func:`grid_sample`.

    Returns:
        (N, spatial ..., dimensions).

    Raises:
        ArgumentError: the map and the shape do not fit.
    """
    request = f"affine_grid({data}, {list(target_shape)})"
    rank = len(target_shape)
    if data.ndim != 3 or [str(d) for d in data.shape[1:]] != [str(rank), str(rank + 1)]:
        raise ArgumentError(request, f"the map is (N, {rank}, {rank + 1})")
    sizes = [int(d) for d in target_shape]

    def coordinate(i: Any, size: int) -> Any:
        kind = data.dtype
        if align_corners:
            step = const(2 / (size - 1) if size > 1 else 0, kind)
            return cast(kind, i) * step - const(1, kind)
        return cast(kind, 2 * i + 1) * const(1 / size, kind) - const(1, kind)

    def element(n: Any, *i: Any) -> Any:
        out, k = i[:rank], i[rank]
        total = data(n, k, rank)
        for d in range(rank):
            total = total + data(n, k, rank - 1 - d) * coordinate(out[d], sizes[d])
        return total

    return compute((data.shape[0], *sizes, rank), element, "T_affine_grid", INJECTIVE)
