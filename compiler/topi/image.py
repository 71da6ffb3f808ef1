"""Images of another size.

Where a pixel of the result lies in the image is a fraction of integers, ``(a * y + b) / d``:
its whole part and its remainder are exact, and no float decides which pixel is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops import ops
from whet.compiler.tir.ops.ops import const
from whet.compiler.topi.elementwise import cast
from whet.compiler.topi.shapes import nearest_inside, static, with_axis
from whet.compiler.topi.tag import INJECTIVE

_MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
_METHODS = ("nearest_neighbor", "linear")
_ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

Fraction = tuple[int, int, int]  # a, b and d of (a * y + b) / d


def resize2d(
    data: Tensor,
    roi: object,
    size: Sequence[int],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Tensor:
    """``data`` with images of another size.

    Args:
        data: images (N, C, H, W), or (N, H, W, C).
        roi: TVM's region of interest; None.
        size: (height, width) of the result.
        layout: ``"NCHW"`` or ``"NHWC"``.
        method: ``"nearest_neighbor"`` or ``"linear"``.
        coordinate_transformation_mode: where pixel y of the result lies, by in / out of the sizes:
            ``"half_pixel"`` (y + 1/2) * in/out - 1/2; ``"pytorch_half_pixel"``, the same but 0
            where there is one pixel; ``"asymmetric"`` y * in/out; ``"align_corners"``
            y * (in - 1)/(out - 1).
        rounding_method: of the nearest: ``"floor"``, ``"ceil"``, ``"round_prefer_floor"``,
            ``"round_prefer_ceil"`` or ``"round"`` (the same); by default ``"floor"`` if asymmetric,
            else ``"round_prefer_floor"``.
        bicubic_alpha, bicubic_exclude, extrapolation_value: TVM's, of a method and a mode that are
            not here.
        out_dtype: of the result; the data's by default.

    Raises:
        ArgumentError: anything else.
    """
    mode = coordinate_transformation_mode
    request = f"resize2d({data}, {size}, {layout!r}, {method!r}, {mode!r})"
    _check(data, roi, size, layout, method, mode, rounding_method, request)
    y = layout.index("H")
    sizes = [static(data.shape[y + k], request) for k in (0, 1)]
    wanted = [static(d, request) for d in size]
    if 0 in sizes and 0 not in wanted:
        raise ArgumentError(
            request,
            f"images of {sizes[0]}x{sizes[1]} have no pixel that {wanted[0]}x{wanted[1]} could be "
            "made of",
            "give images of at least one pixel; of none, only a size with a 0 can be made",
        )
    at = [_fraction(mode, n, m) for n, m in zip(sizes, wanted)]
    out = data
    for k in (0, 1):  # rows first: they are read in order, and the columns of one row at a time
        if method == "linear":
            out = _linear(out, y + k, wanted[k], at[k])
        else:
            rounding = rounding_method or (
                "floor" if mode == "asymmetric" else "round_prefer_floor"
            )
            out = _nearest(out, y + k, wanted[k], at[k], rounding)
    return out if out_dtype in (None, out.dtype) else cast(out, out_dtype)


def _check(
    data: Tensor,
    roi: object,
    size: Sequence[int],
    layout: str,
    method: str,
    mode: str,
    rounding: str,
    request: str,
) -> None:
    if roi is not None and roi != [0.0] * 4 and roi != (0.0,) * 4:
        raise ArgumentError(request, "regions of interest are not here", "roi=None")
    if data.ndim != 4 or layout not in ("NCHW", "NHWC"):
        raise ArgumentError(
            request, "images are (N, C, H, W) or (N, H, W, C)", "transpose the data"
        )
    if len(size) != 2 or any(isinstance(d, int) and d < 0 for d in size):
        raise ArgumentError(request, "a size is (height, width)")
    for what, given, known in (
        ("method", method, _METHODS),
        ("coordinate_transformation_mode", mode, _MODES),
        ("rounding_method", rounding, _ROUNDINGS),
    ):
        if given not in known:
            raise ArgumentError(
                request, f"there is no {what} {given!r}", f"known: {', '.join(map(repr, known))}"
            )
    if method == "linear" and not dt.is_float(data.dtype):
        raise ArgumentError(
            request, f"a mean of {data.dtype} is a fraction", 'cast to "float32" before'
        )


def _fraction(mode: str, have: int, want: int) -> Fraction:
    if mode == "align_corners":
        return (have - 1, 0, want - 1) if want > 1 else (0, 0, 1)
    if mode == "asymmetric":
        return have, 0, max(want, 1)
    if mode == "pytorch_half_pixel" and want == 1:
        return 0, 0, 1
    return 2 * have, have - want, 2 * max(want, 1)


def _picked(data: Tensor, axis: int, want: int, element: Any, name: str) -> Tensor:
    shape = with_axis(data.shape, axis, ops.const(want))
    return compute(shape, element, name, INJECTIVE)


def _nearest(data: Tensor, axis: int, want: int, at: Fraction, rounding: str) -> Tensor:
    a, b, d = at
    up, by = {
        "floor": (0, 1),
        "ceil": (d - 1, 1),
        "round_prefer_floor": (d - 1, 2),
        "round_prefer_ceil": (d, 2),
        "round": (d, 2),
    }[rounding]

    def element(*i: Any) -> Any:
        x = ops.floordiv((i[axis] * a + b) * by + up, d * by)
        return data(*with_axis(i, axis, nearest_inside(x, data.shape[axis])))

    return _picked(data, axis, want, element, "resize_nearest")


def _linear(data: Tensor, axis: int, want: int, at: Fraction) -> Tensor:
    a, b, d = at

    def element(*i: Any) -> Any:
        x = i[axis] * a + b
        part = ops.cast(data.dtype, ops.floormod(x, d)) * const(1.0 / d, data.dtype)
        low = ops.floordiv(x, d)
        first, second = (
            data(*with_axis(i, axis, nearest_inside(low + k, data.shape[axis]))) for k in (0, 1)
        )
        return first + (second - first) * part

    return _picked(data, axis, want, element, "resize_linear")
