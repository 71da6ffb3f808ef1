"""Resize and its like: along each axis elements at known places times known weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.node import OnnxNode, Translate

_NEAREST: dict[str, Callable[[float], int]] = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}


def _resize(n: OnnxNode) -> Value:
    x = n.input(0)
    first = 1 if n.version < 11 else 2
    axes = [n.axis(a, len(x.shape)) for a in n.attr("axes", list(range(len(x.shape))))]
    sizes, scales = _sizes(n, x, axes, first)
    mode = n.attr("mode", "nearest")
    where = n.attr(
        "coordinate_transformation_mode", "half_pixel" if n.version >= 11 else "asymmetric"
    )
    regions = _regions(n, axes) if where == "tf_crop_and_resize" else [(0.0, 1.0)] * len(axes)
    if mode == "nearest" or mode == "linear":
        plain = _of_images(n, x, sizes, scales, axes, mode, where)
        if plain is not None:
            return plain
    # then what an element reads depends on its place and the scale alone, not on the extent
    by_factor = (
        _has_scales(n)
        and where in ("half_pixel", "asymmetric")
        and not n.attr("exclude_outside", 0)
    )
    made, outside = x, []
    for axis, size, scale, region in zip(axes, sizes, scales, regions):
        have = x.shape[axis]
        if size == have and scale == 1.0 and region == (0.0, 1.0):
            continue
        along = [_coordinate(where, k, scale, have, size, region) for k in range(size)]
        places, weights = _taps(n, mode, along, scale, have)
        made = n.add(
            "resample",
            [made, n.constant(places, "int32"), n.constant(weights, x.dtype)],
            axis=axis,
            factor=scale if by_factor else None,
        )
        if where == "tf_crop_and_resize":
            beyond = np.asarray([c < 0 or c > have - 1 for c in along])
            shape = [1] * len(x.shape)
            shape[axis] = size
            outside.append(beyond.reshape(shape))
    for mask in outside:
        if mask.any():
            value = n.constant(n.attr("extrapolation_value", 0.0), x.dtype)
            made = n.add("where", [n.constant(mask), value, made])
    return n.add("identity", [made]) if made is x else made


def _sizes(n: OnnxNode, x: Value, axes: Sequence[int], first: int) -> tuple[list[int], list[float]]:
    """The new extents of the axes, and their scales."""
    have = [x.shape[a] for a in axes]
    given = n.known(first, None) if n.has(first) else None
    if "scales" in n.attrs:
        given = np.asarray(n.attr("scales"))
    if given is not None and np.size(given):
        scales = [float(s) for s in np.asarray(given).reshape(-1)]
        return [math.floor(d * s) for d, s in zip(have, scales)], scales
    sizes = [int(s) for s in np.asarray(n.known(3)).reshape(-1)]
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        choose = min if policy == "not_larger" else max
        one = choose(s / d for s, d in zip(sizes, have))
        sizes = [math.floor(one * d + 0.5) for d in have]
        return sizes, [one] * len(sizes)
    return sizes, [s / d for s, d in zip(sizes, have)]


def _regions(n: OnnxNode, axes: Sequence[int]) -> list[tuple[float, float]]:
    roi = np.asarray(n.known(1), dtype=np.float64).reshape(-1)
    return list(zip(roi[: len(axes)].tolist(), roi[len(axes) :].tolist()))


def _of_images(
    n: OnnxNode, x: Value, sizes: Sequence[int], scales: Sequence[float], axes: Sequence[int],
    mode: str, where: str,
) -> Value | None:  # fmt: skip
    """Images (N, C, ...) enlarged by whole numbers, or to given sizes; None: it is another case."""
    full = dict(zip(axes, zip(sizes, scales)))
    if len(x.shape) not in (3, 4, 5) or n.attr("antialias", 0) or x.dtype[:5] != "float":
        return None
    # a pixel that is the nearest of two that are as near, floats decide: whole numbers do not
    by_sizes = mode == "linear" and not _has_scales(n)
    for a, d in enumerate(x.shape):
        size, scale = full.get(a, (d, 1.0))
        is_whole = scale >= 1 and scale == int(scale)
        if (a < 2 and size != d) or size / d != scale or not (is_whole or by_sizes):
            return None
    rounding = n.attr("nearest_mode", "round_prefer_floor" if n.version >= 11 else "floor")
    if where not in ("half_pixel", "asymmetric", "align_corners"):
        return None
    if mode == "nearest" and (where == "align_corners" or (where, rounding) not in _PLAIN):
        return None
    made = [full.get(a, (x.shape[a], 1.0))[0] for a in range(2, len(x.shape))]
    method = "linear" if mode == "linear" else "nearest_neighbor"
    word = rounding if mode == "nearest" else ""
    return n.add("resize", [x], size=made, method=method, mode=where, rounding=word)


def _has_scales(n: OnnxNode) -> bool:
    """True where a node says how many times an image grows, and not to which size."""
    first = 1 if n.version < 11 else 2
    given = n.known(first, None) if n.has(first) else None
    return "scales" in n.attrs or (given is not None and bool(np.size(given)))


_PLAIN = {("asymmetric", "floor"), ("half_pixel", "round_prefer_floor")}


def _coordinate(
    where: str, k: int, scale: float, have: int, want: int, region: tuple[float, float]
) -> float:
    """The place in the input that element k of the output is at."""
    if where == "align_corners":
        whole = scale * have  # the result's extent, before it is rounded down
        return 0.0 if whole == 1 else k * (have - 1) / (whole - 1)
    if where == "asymmetric":
        return k / scale
    if where == "tf_crop_and_resize":
        low, high = region
        if want > 1:
            return low * (have - 1) + k * (high - low) * (have - 1) / (want - 1)
        return 0.5 * (low + high) * (have - 1)
    if where == "pytorch_half_pixel" and want <= 1:
        return 0.0
    place = (k + 0.5) / scale - 0.5
    if where == "half_pixel_symmetric":
        adjustment = want / (scale * have)
        return have / 2 * (1 - adjustment) + place
    return place


def _taps(
    n: OnnxNode, mode: str, along: Sequence[float], scale: float, have: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each output element the places that it reads, and their weights."""
    if mode == "nearest":
        usual = "round_prefer_floor" if n.version >= 11 else "floor"
        nearest = _NEAREST[n.attr("nearest_mode", usual)]
        picked = [nearest(c) for c in along]  # the operator takes the nearest that there is
        return np.asarray(picked).reshape(-1, 1), np.ones((len(picked), 1))
    a = n.attr("cubic_coeff_a", -0.75)
    shrunk = min(scale, 1.0) if n.attr("antialias", 0) else 1.0
    half = 1 if mode == "linear" else 2
    start = math.floor(-half / shrunk) + 1
    count = 2 - 2 * start
    places, weights = [], []
    for c in along:
        # the element on the left of a place between two, or at it
        left = math.ceil(c) - 1
        ratio = c - left
        offsets = np.arange(start, start + count)
        distance = np.abs((offsets - ratio) * shrunk)
        own = triangle(distance) if mode == "linear" else keys(distance, a)
        own = own / own.sum() if shrunk != 1.0 else own
        at = left + offsets
        if n.attr("exclude_outside", 0):
            own = np.where((at < 0) | (at >= have), 0.0, own)
            own = own / own.sum()
        places.append(at)
        weights.append(own)
    return np.asarray(places), np.asarray(weights)


def triangle(distance: np.ndarray) -> np.ndarray:
    """The weights of pixels at distances, of two around a place."""
    return np.clip(1 - distance, 0, 1)


def keys(distance: np.ndarray, a: float) -> np.ndarray:
    """The weights of pixels at distances, of four around a place: Keys' cubic convolution."""
    x = distance
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


TABLE: dict[str, Translate] = {"Resize": _resize, "Upsample": _resize}
