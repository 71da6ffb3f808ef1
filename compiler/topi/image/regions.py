"""Regions of images, each brought to one size."""

from __future__ import annotations

from functools import partial
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import any_of, cast, const, maximum, minimum, select
from whet.compiler.topi.shapes import check_integers, static

_MODES = ("avg", "max", "max of samples")


def roi_align(
    data: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    pooled_size: tuple[int, int],
    spatial_scale: float,
    mode: str = "avg",
    sample_ratio: int = 0,
    half_pixel: bool = True,
) -> Tensor:
    """The average, or the maximum, of samples in each bin of each region, as ONNX's RoiAlign.

    Args:
        data: (N, C, H, W), floating point.
        rois: (regions, 4): x and y of a corner, then of the opposite one.
        batch_indices: (regions,): the image of each; one outside is the nearest.
        pooled_size: bins, (vertical, horizontal).
        spatial_scale: from the regions' coordinates to the images'.
        mode: ``"avg"``, ``"max"`` (of the samples' weighted pixels) or ``"max of samples"``.
        sample_ratio: samples of a bin in each dimension; 0 for its size, rounded up.
        half_pixel: pixels have their centres at halves.

    Returns:
        (regions, C, bins ...).

    Raises:
        ArgumentError: shapes or the mode do not fit.
    """
    request = f"roi_align({data}, {rois}, {pooled_size}, mode={mode!r})"
    check_integers(batch_indices, request)
    fits = data.ndim == 4 and rois.ndim == 2 and int(rois.shape[1]) == 4
    if mode not in _MODES or not fits:
        raise ArgumentError(request, f"give images, regions of four numbers, a mode of {_MODES}")
    n, c, h, w = (static(d, request) for d in data.shape)
    count, (ph, pw), kind = static(rois.shape[0], request), pooled_size, data.dtype
    side = partial(_side, kind, spatial_scale, sample_ratio, half_pixel)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        image, roi, batch = (ib.buffer_ptr(b) for b in ins)
        made = ib.buffer_ptr(outs[0])
        with ib.for_range(0, count * c, name="rc", kind="parallel") as rc:
            r, ch = rc // c, rc % c
            b = ib.let("b", maximum(minimum(cast("int32", batch[r]), n - 1), 0))
            y0, dy, ny = (ib.let(f"y{k}", v) for k, v in enumerate(side(roi[r, 1], roi[r, 3], ph)))
            x0, dx, nx = (ib.let(f"x{k}", v) for k, v in enumerate(side(roi[r, 0], roi[r, 2], pw)))
            with ib.for_range(0, ph, name="i") as i, ib.for_range(0, pw, name="j") as j:
                total = ib.allocate(kind, 1, name="total", scope="local")
                total[0] = const(0, kind)
                with ib.for_range(0, ny, name="u") as u, ib.for_range(0, nx, name="v") as v:
                    ay = _axis(ib, y0 + cast(kind, i) * dy, u, dy, ny, h, "y")
                    ax = _axis(ib, x0 + cast(kind, j) * dx, v, dx, nx, w, "x")
                    _sample(ib, total, image, (b, ch), ay, ax, mode, any_of(u > 0, v > 0))
                many = cast(kind, maximum(ny * nx, 1))
                made[r, ch, i, j] = total[0] / many if mode == "avg" else total[0]
        return ib.get()

    given = [data, rois, batch_indices]
    return extern((count, c, ph, pw), given, body, "T_roi_align", kind)


def _side(
    kind: str, scale: float, ratio: int, half_pixel: bool, begin: Any, end: Any, bins: int
) -> tuple[Any, Any, Any]:
    """Where a region begins along one axis, the size of a bin, and its samples."""
    by, shift = const(scale, kind), const(0.5 if half_pixel else 0.0, kind)
    first = cast(kind, begin) * by - shift
    size = cast(kind, end) * by - shift - first
    size = size if half_pixel else maximum(size, const(1, kind))
    each = size / const(bins, kind)
    return first, each, const(ratio) if ratio > 0 else cast("int32", m.ceil(each))


def _axis(ib: Any, begin: Any, k: Any, size: Any, many: Any, extent: int, name: str) -> Any:
    """Sample k of a bin along one axis: its two pixels, and their weights (0 far outside)."""
    kind = begin.dtype
    at = ib.let(name, begin + (cast(kind, k) + const(0.5, kind)) * size / cast(kind, many))
    far = any_of(at < const(-1, kind), at > const(extent, kind))
    inner = maximum(minimum(at, const(extent, kind)), const(0, kind))
    last = minimum(cast("int32", inner), extent - 1)
    low = ib.let(f"{name}_low", last)
    high = ib.let(f"{name}_high", minimum(low + 1, extent - 1))
    part = select(low >= extent - 1, const(0, kind), inner - cast(kind, low))
    part = ib.let(f"{name}_part", part)
    one = ib.let(f"{name}_one", select(far, const(0, kind), const(1, kind)))
    return low, high, (const(1, kind) - part) * one, part * one


def _sample(
    ib: Any, total: Any, image: Any, plane: Any, ay: Any, ax: Any, mode: str, later: Any
) -> None:
    """Adds a sample to an average, or takes it into a maximum."""
    (y, y2, wy, wy2), (x, x2, wx, wx2) = ay, ax
    corners = ((wy * wx, y, x), (wy * wx2, y, x2), (wy2 * wx, y2, x), (wy2 * wx2, y2, x2))
    terms = [weight * image[(*plane, i, j)] for weight, i, j in corners]
    if mode == "avg":
        total[0] = total[0] + terms[0] + terms[1] + terms[2] + terms[3]
        return
    if mode == "max":
        value = maximum(maximum(terms[0], terms[1]), maximum(terms[2], terms[3]))
    else:
        value = terms[0] + terms[1] + terms[2] + terms[3]
    value = ib.let("value", value)
    total[0] = select(later, maximum(total[0], value), value)
