"""Regions of images (image, x, y, x, y), each brought to one size."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import all_of, cast, const, maximum, min_value, minimum, select
from whet.compiler.topi.image.regions import roi_align
from whet.compiler.topi.nn.windows import pair
from whet.compiler.topi.shapes import nearest_inside, static
from whet.compiler.topi.tag import INJECTIVE
from whet.compiler.topi.transform import transpose

_MODES = {b"avg": "avg", "avg": "avg", 0: "avg", b"max": "max", "max": "max", 1: "max"}


def roi_align_nchw(
    data: Tensor,
    rois: Tensor,
    pooled_size: Any,
    spatial_scale: float,
    mode: Any,
    sample_ratio: int = -1,
) -> Tensor:
    """The average, or the maximum, of samples in each bin of each region.

    Args:
        data: (N, C, H, W), floating point.
        rois: (regions, 5): the image, x and y of a corner, then of the opposite one.
        pooled_size: bins, an int or (vertical, horizontal).
        spatial_scale: from the regions' coordinates to the images'.
        mode: ``"avg"``, ``b"avg"`` or 0; ``"max"``, ``b"max"`` or 1.
        sample_ratio: samples of a bin in each dimension; below 1 for its size, rounded up.

    Returns:
        (regions, C, bins ...).

    Raises:
        ArgumentError: shapes or the mode do not fit.
    """
    request = f"roi_align_nchw({data}, {rois}, {pooled_size}, mode={mode!r})"
    if mode not in _MODES or rois.ndim != 2 or static(rois.shape[1], request) != 5:
        raise ArgumentError(request, "regions are (n, 5), a mode is 'avg' or 'max'")
    count = rois.shape[0]
    image = compute((count,), lambda r: cast("int32", rois(r, 0)), "T_roi_image", INJECTIVE)
    corners = compute((count, 4), lambda r, k: rois(r, k + 1), "T_roi_corners", INJECTIVE)
    size, ratio = pair(pooled_size, "pooled_size"), max(sample_ratio, 0)
    how = "max of samples" if _MODES[mode] == "max" else "avg"
    return roi_align(data, corners, image, size, spatial_scale, how, ratio, False)


def roi_align_nhwc(
    data: Tensor,
    rois: Tensor,
    pooled_size: Any,
    spatial_scale: float,
    mode: Any,
    sample_ratio: int = -1,
) -> Tensor:
    """:func:`roi_align_nchw` of images (N, H, W, C): (regions, bins ..., C)."""
    first = transpose(data, (0, 3, 1, 2))
    made = roi_align_nchw(first, rois, pooled_size, spatial_scale, mode, sample_ratio)
    return transpose(made, (0, 2, 3, 1))


def roi_pool_nchw(data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float) -> Tensor:
    """The largest pixel in each bin of each region, whose corners are rounded to pixels.

    Args:
        data: (N, C, H, W).
        rois: (regions, 5): the image, x and y of a corner, then of the opposite one.
        pooled_size: bins, an int or (vertical, horizontal).
        spatial_scale: from the regions' coordinates to the images'.

    Returns:
        (regions, C, bins ...); 0 for bins without pixels.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    request = f"roi_pool_nchw({data}, {rois}, {pooled_size})"
    if data.ndim != 4 or rois.ndim != 2 or static(rois.shape[1], request) != 5:
        raise ArgumentError(request, "images have four dimensions, regions are (n, 5)")
    n, c, h, w = (static(d, request) for d in data.shape)
    count, bins = static(rois.shape[0], request), pair(pooled_size, "pooled_size")

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        image, roi = (ib.buffer_ptr(b) for b in ins)
        made = ib.buffer_ptr(outs[0])
        with ib.for_range(0, count * c, name="rc", kind="parallel") as rc:
            r, ch = rc // c, rc % c
            b = ib.let("b", nearest_inside(cast("int32", roi[r, 0]), n))
            with ib.for_range(0, bins[0], name="i") as i, ib.for_range(0, bins[1], name="j") as j:
                ends = []
                for at, k, many, extent in ((2, i, bins[0], h), (1, j, bins[1], w)):
                    corners = [roi[r, at + s] * const(spatial_scale, rois.dtype) for s in (0, 2)]
                    ends += _bin(corners, k, many, extent, rois.dtype)
                y, y2, x, x2 = (ib.let(f"end{k}", end) for k, end in enumerate(ends))
                best = ib.allocate(data.dtype, 1, name="best", scope="local")
                some = all_of(y < y2, x < x2)
                best[0] = select(some, min_value(data.dtype), const(0, data.dtype))
                with ib.for_range(y, y2, name="v") as v, ib.for_range(x, x2, name="u") as u:
                    best[0] = maximum(best[0], image[b, ch, v, u])
                made[r, ch, i, j] = best[0]
        return ib.get()

    said = {"scale": float(spatial_scale)}
    shape = (count, c, *bins)
    return extern(shape, [data, rois], body, "T_roi_pool", data.dtype, attrs=said)


def _bin(corners: list[Any], k: Any, many: int, extent: int, kind: str) -> list[Any]:
    """Where bin ``k`` begins and ends along one axis, in pixels."""
    first, last = (cast("int32", m.round(x)) for x in corners)
    size = cast(kind, maximum(last - first + 1, 1)) / const(many, kind)
    little = const(1e-5, kind)  # what rounding may have added or taken
    begin = cast("int32", m.floor(cast(kind, k) * size + little)) + first
    end = cast("int32", m.ceil(cast(kind, k + 1) * size - little)) + first
    return [maximum(minimum(at, extent), 0) for at in (begin, end)]
