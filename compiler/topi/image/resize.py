"""Images of another size.

Where a pixel of the result lies in the image is a fraction of integers, ``(a * y + b) / d``:
its whole part and its remainder are exact, and no float decides which pixel is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops import ops
from whet.compiler.tir.ops.ops import const
from whet.compiler.topi.elementwise import cast
from whet.compiler.topi.shapes import known, nearest_inside, static, with_axis
from whet.compiler.topi.tag import INJECTIVE

_MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
_METHODS = ("nearest_neighbor", "linear", "cubic")
_ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

_WORDS = {"D": "depth", "H": "height", "W": "width"}

_MOST_TIMES = 32  # that open images grow

Fraction = tuple[Any, Any, Any]  # a, b and d of (a * y + b) / d: integers


def resize1d(
    data: Tensor,
    roi: object,
    size: Sequence[int],
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Tensor:
    """Rows (N, C, W) or (N, W, C) of another size; arguments as of :func:`resize2d`."""
    return _resized(
        data, roi, size, layout, method, coordinate_transformation_mode, rounding_method,
        bicubic_alpha, bicubic_exclude, out_dtype, ("NCW", "NWC"),
    )  # fmt: skip


def resize3d(
    data: Tensor,
    roi: object,
    size: Sequence[int],
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Tensor:
    """Volumes (N, C, D, H, W) or (N, D, H, W, C); arguments as of :func:`resize2d`."""
    return _resized(
        data, roi, size, layout, method, coordinate_transformation_mode, rounding_method,
        bicubic_alpha, bicubic_exclude, out_dtype, ("NCDHW", "NDHWC"),
    )  # fmt: skip


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
        method: ``"nearest_neighbor"``, ``"linear"`` or ``"cubic"``.
        coordinate_transformation_mode: where pixel y of the result lies, by in / out of the sizes:
            ``"half_pixel"`` (y + 1/2) * in/out - 1/2; ``"pytorch_half_pixel"``, the same but 0
            where there is one pixel; ``"asymmetric"`` y * in/out; ``"align_corners"``
            y * (in - 1)/(out - 1).
        rounding_method: of the nearest: ``"floor"``, ``"ceil"``, ``"round_prefer_floor"``,
            ``"round_prefer_ceil"`` or ``"round"`` (the same); by default ``"floor"`` if asymmetric,
            else ``"round_prefer_floor"``.
        bicubic_alpha: Keys' parameter of cubic weights.
        bicubic_exclude: weights of pixels outside are 0, and the others sum up to 1.
        extrapolation_value: TVM's, of a mode that is not here.
        out_dtype: of the result; the data's by default.

    Raises:
        ArgumentError: anything else.
    """
    return _resized(
        data, roi, size, layout, method, coordinate_transformation_mode, rounding_method,
        bicubic_alpha, bicubic_exclude, out_dtype, ("NCHW", "NHWC"),
    )  # fmt: skip


def _resized(
    data: Tensor, roi: object, size: Sequence[int], layout: str, method: str, mode: str,
    rounding_method: str, alpha: float, exclude: int, out_dtype: str | None,
    layouts: tuple[str, str],
) -> Tensor:  # fmt: skip
    """Images of any rank, one dimension after the other, the first ones first."""
    request = f"resize{len(layouts[0]) - 2}d({data}, {size}, {layout!r}, {method!r}, {mode!r})"
    _check(data, roi, size, layout, method, mode, rounding_method, layouts, request)
    first, rank = 1 if layout.endswith("C") else 2, len(layout) - 2
    pairs = [_known(data.shape[first + k], size[k], mode, request) for k in range(rank)]
    sizes, wanted = zip(*pairs)
    none, asked = (any(isinstance(d, int) and d == 0 for d in each) for each in (sizes, wanted))
    if none and not asked:
        have, want = ("x".join(map(str, each)) for each in (sizes, wanted))
        raise ArgumentError(
            request,
            f"images of {have} have no pixel that {want} could be made of",
            "give images of at least one pixel; of none, only a size with a 0 can be made",
        )
    out = data
    # rows first: they are read in order, and the columns of one row at a time
    for k, (n, times) in enumerate(pairs):
        at, m = _fraction(mode, n, times), ops.convert(size[k])
        if method == "linear":
            out = _linear(out, first + k, m, at)
        elif method == "cubic":
            out = _cubic(out, first + k, m, at, alpha, bool(exclude))
        else:
            usual = "floor" if mode == "asymmetric" else "round_prefer_floor"
            out = _nearest(out, first + k, m, at, rounding_method or usual)
    return out if out_dtype in (None, out.dtype) else cast(out, out_dtype)


def _known(have: Any, want: Any, mode: str, request: str) -> tuple[Any, Any]:
    """The sizes of a dimension; of open ones their ratio where it is known to be a whole number."""
    have, want = known(have), known(want)
    if isinstance(have, int) and isinstance(want, int):
        return have, want
    if mode in ("half_pixel", "asymmetric"):  # where the ratio is all that counts
        analyzer = Analyzer()
        for k in range(1, _MOST_TIMES + 1):
            if analyzer.can_prove_equal(want, have * k):
                return 1, k
    return have, want


def _check(
    data: Tensor,
    roi: object,
    size: Sequence[int],
    layout: str,
    method: str,
    mode: str,
    rounding: str,
    layouts: tuple[str, str],
    request: str,
) -> None:
    if roi is not None and roi != [0.0] * 4 and roi != (0.0,) * 4:
        raise ArgumentError(request, "regions of interest are not here", "roi=None")
    known = [f"({', '.join(x)})" for x in layouts]
    if layout not in layouts or data.ndim != len(layout):
        raise ArgumentError(request, f"images are {' or '.join(known)}", "transpose the data")
    spatial = known[0][1:-1].split(", ")[2:]
    if len(size) != len(spatial) or any(isinstance(d, int) and d < 0 for d in size):
        raise ArgumentError(request, f"a size is ({', '.join(_WORDS[x] for x in spatial)})")
    for what, given, words in (
        ("method", method, _METHODS),
        ("coordinate_transformation_mode", mode, _MODES),
        ("rounding_method", rounding, _ROUNDINGS),
    ):
        if given not in words:
            raise ArgumentError(
                request, f"there is no {what} {given!r}", f"known: {', '.join(map(repr, words))}"
            )
    if method != "nearest_neighbor" and not dt.is_float(data.dtype):
        raise ArgumentError(
            request, f"a mean of {data.dtype} is a fraction", 'cast to "float32" before'
        )


def _fraction(mode: str, have: Any, want: Any) -> Fraction:
    """Where pixel y lies; a result of one pixel has y = 0 alone."""
    if mode == "align_corners":
        return have - 1, 0, _at_least_1(want - 1)
    if mode == "asymmetric":
        return have, 0, _at_least_1(want)
    a, b, d = 2 * have, have - want, 2 * _at_least_1(want)
    if mode == "pytorch_half_pixel":
        b = (0 if want == 1 else b) if isinstance(want, int) else ops.select(want > 1, b, 0)
    return a, b, d


def _at_least_1(n: Any) -> Any:
    return max(n, 1) if isinstance(n, int) else ops.maximum(n, 1)


def _part(x: Any, d: Any, dtype: str) -> Any:
    """The fraction that is left of x / d, from 0 on and less than 1."""
    rest = ops.cast(dtype, ops.floormod(x, d))
    return rest * const(1.0 / d, dtype) if isinstance(d, int) else rest / ops.cast(dtype, d)


def _picked(data: Tensor, axis: int, want: Any, element: Any, name: str) -> Tensor:
    shape = with_axis(data.shape, axis, want)
    return compute(shape, element, name, INJECTIVE)


def _nearest(data: Tensor, axis: int, want: Any, at: Fraction, rounding: str) -> Tensor:
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


def _linear(data: Tensor, axis: int, want: Any, at: Fraction) -> Tensor:
    a, b, d = at

    def element(*i: Any) -> Any:
        x = i[axis] * a + b
        part = _part(x, d, data.dtype)
        low = ops.floordiv(x, d)
        first, second = (
            data(*with_axis(i, axis, nearest_inside(low + k, data.shape[axis]))) for k in (0, 1)
        )
        return first + (second - first) * part

    return _picked(data, axis, want, element, "resize_linear")


def _cubic(data: Tensor, axis: int, want: Any, at: Fraction, alpha: float, exclude: bool) -> Tensor:
    """Four pixels by Keys' weights of their distances."""
    a, b, d = at
    extent = data.shape[axis]

    def near(t: Any) -> Any:
        return ((alpha + 2) * t - (alpha + 3)) * t * t + const(1, t.dtype)

    def far(t: Any) -> Any:
        return ((alpha * t - 5 * alpha) * t + 8 * alpha) * t - const(4 * alpha, t.dtype)

    def element(*i: Any) -> Any:
        x = i[axis] * a + b
        part = _part(x, d, data.dtype)
        low = ops.floordiv(x, d)
        one, two = const(1, data.dtype), const(2, data.dtype)
        weights = [far(part + one), near(part), near(one - part), far(two - part)]
        places = [low + k for k in (-1, 0, 1, 2)]
        if exclude:
            inside = [ops.logical_and(p >= 0, p < extent) for p in places]
            zero = const(0, data.dtype)
            weights = [ops.select(c, w, zero) for c, w in zip(inside, weights)]
            total = weights[0] + weights[1] + weights[2] + weights[3]
            weights = [w / total for w in weights]
        pixels = [data(*with_axis(i, axis, nearest_inside(p, extent))) for p in places]
        terms = [w * v for w, v in zip(weights, pixels)]
        return terms[0] + terms[1] + terms[2] + terms[3]

    return _picked(data, axis, want, element, "resize_cubic")


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[int] | None = None,
) -> Tensor:
    """Images so many times as large, by :func:`resize2d`.

    Args:
        data: images (N, C, H, W), or (N, H, W, C).
        scale_h, scale_w: by what the height and the width grow.
        layout: ``"NCHW"`` or ``"NHWC"``.
        method: ``"nearest_neighbor"``, ``"linear"`` (``"bilinear"``) or ``"cubic"``.
        align_corners: whether the corners' centres stay; else pixel 0 does.
        output_shape: height and width, instead of what the scales give.

    Raises:
        ArgumentError: as :func:`resize2d`.
    """
    request = f"upsampling({data}, {scale_h}, {scale_w}, {layout!r})"
    at = [layout.find(letter) for letter in "HW"]
    if min(at) < 0:
        raise ArgumentError(request, "images are NCHW or NHWC")
    have = [static(data.shape[k], request) for k in at]
    size = output_shape or [round(n * s) for n, s in zip(have, (scale_h, scale_w))]
    places = "align_corners" if align_corners else "asymmetric"
    word = {"bilinear": "linear", "bicubic": "cubic"}.get(method, method)
    return resize2d(data, None, list(size), layout, word, places)


def upsampling3d(
    data: Tensor,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Sequence[int] | None = None,
) -> Tensor:
    """Volumes so many times as large, by :func:`resize3d`.

    Args:
        data: volumes (N, C, D, H, W), or (N, D, H, W, C).
        scale_d, scale_h, scale_w: by what the depth, the height and the width grow.
        layout: ``"NCDHW"`` or ``"NDHWC"``.
        method: ``"nearest_neighbor"``, ``"linear"`` (``"trilinear"``) or ``"cubic"``.
        coordinate_transformation_mode: as of :func:`resize3d`.
        output_shape: the extents, instead of what the scales give.

    Raises:
        ArgumentError: as :func:`resize3d`.
    """
    request = f"upsampling3d({data}, {scale_d}, {scale_h}, {scale_w}, {layout!r})"
    at = [layout.find(letter) for letter in "DHW"]
    if min(at) < 0:
        raise ArgumentError(request, "volumes are NCDHW or NDHWC")
    have = [static(data.shape[k], request) for k in at]
    size = output_shape or [round(n * s) for n, s in zip(have, (scale_d, scale_h, scale_w))]
    word = {"trilinear": "linear", "tricubic": "cubic"}.get(method, method)
    return resize3d(data, None, list(size), layout, word, coordinate_transformation_mode)
