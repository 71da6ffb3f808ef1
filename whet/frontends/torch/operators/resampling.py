"""Images enlarged, shrunk, and sampled at the places of a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.resampling import keys, triangle
from whet.frontends.torch.operators.node import AtenNode, Translate

_CUBIC = -0.75  # Keys' parameter


def _upsample(method: str, mode: str = "", rounding: str = "") -> Translate:
    """Images resized; a method that takes the corners' centres to stay says ``mode`` itself."""

    def translate(n: AtenNode) -> Value:
        x = n.value("self" if "self" in n.args else "input")
        size = list(n.shape[2:])
        factors = _factors(n, len(size))
        corners = bool(n.get("align_corners", False))
        taps = _exact if rounding == "round_prefer_ceil" else _TAPS[method]
        # by a factor that is no whole number, a size that is rounded down is not the ratio
        if not corners and any(f is not None and f != int(f) for f in factors):
            for k, (factor, made) in enumerate(zip(factors, size)):
                x = _resampled(n, x, 2 + k, made, factor, taps)
            return x
        if rounding and any(map(_is_rounded, x.shape[2:], size, [taps] * len(size))):
            for k, made in enumerate(size):
                x = _resampled(n, x, 2 + k, made, None, taps)
            return x
        where = mode or ("align_corners" if corners else "half_pixel")
        return n.add("resize", [x], size=size, method=method, mode=where, rounding=rounding)

    return translate


def _factors(n: AtenNode, rank: int) -> list[float | None]:
    """By how much each dimension grows; None: the sizes say it."""
    found = n.get("scale_factors")
    if found is not None:
        return list(found)
    names = ["scales"] if rank == 1 else ["scales_d", "scales_h", "scales_w"][-rank:]
    return [n.get(name) for name in names]


Taps = tuple[np.ndarray, np.ndarray]
"""The places that each element reads, and their weights: (elements, taps)."""


def _resampled(
    n: AtenNode,
    x: Value,
    axis: int,
    size: int,
    factor: float | None,
    taps: Callable[[np.ndarray, Any], Taps],
) -> Value:
    """An axis resized by a factor, which says where each element lies whatever the size is."""
    kind = np.float64 if x.dtype == "float64" else np.float32  # in which PyTorch computes
    by = kind(1 / factor) if factor is not None else kind(x.shape[axis]) / kind(size)
    places, weights = taps(np.arange(size, dtype=kind), by)
    given = [x, n.constant(places, "int32"), n.constant(weights, x.dtype)]
    return n.add("resample", given, axis=axis, factor=factor)


def _is_rounded(have: int, size: int, taps: Callable[[np.ndarray, Any], Taps]) -> bool:
    """True where PyTorch's floats decide for another pixel than fractions of integers do."""
    k = np.arange(size)
    exact = k * have // size if taps is _nearest else (2 * k + 1) * have // (2 * size)
    found, _ = taps(k.astype(np.float32), np.float32(have) / np.float32(size))
    return bool(np.any(np.minimum(found[:, 0], have - 1) != exact))


def _nearest(k: np.ndarray, by: Any) -> Taps:
    return np.floor(k * by)[:, None], np.ones((k.size, 1))


def _exact(k: np.ndarray, by: Any) -> Taps:
    return np.floor((k + 0.5) * by)[:, None], np.ones((k.size, 1))


def _linear(k: np.ndarray, by: Any) -> Taps:
    at = np.maximum((k + 0.5) * by - 0.5, 0)
    left = np.floor(at)
    part = at - left
    return np.stack([left, left + 1], 1), np.stack([1 - part, part], 1)


def _cubic(k: np.ndarray, by: Any) -> Taps:
    at = (k + 0.5) * by - 0.5
    left = np.floor(at)
    offsets = np.arange(-1, 3)
    return left[:, None] + offsets, keys(np.abs((at - left)[:, None] - offsets), _CUBIC)


_TAPS = {"nearest_neighbor": _nearest, "linear": _linear, "cubic": _cubic}


_SHARP_CUBIC = -0.5  # Keys' parameter where an image is smoothed first


def _smoothed(half: int) -> Translate:
    """Images resized by means of the pixels that one covers, at least twice ``half``."""

    def translate(n: AtenNode) -> Value:
        x = n.value("self" if "self" in n.args else "input")
        corners = bool(n.get("align_corners", False))
        for k, (size, factor) in enumerate(zip(n.shape[2:], _factors(n, 2))):
            have = x.shape[2 + k]
            by = 1 / factor if factor is not None else have / size
            if corners:
                by = (have - 1) / (size - 1) if size > 1 else 0.0
            places, weights = _windows(half, have, size, by)
            given = [x, n.constant(places, "int32"), n.constant(weights, x.dtype)]
            x = n.add("resample", given, axis=2 + k)
        return x

    return translate


def _windows(half: int, have: int, size: int, by: float) -> Taps:
    """The pixels around each place, as many as it covers, by their distance; they sum up to 1."""
    wide = max(by, 1.0)
    centre = by * (np.arange(size) + 0.5)
    first, last = (np.trunc(centre + s * half * wide + 0.5).clip(0, have) for s in (-1, 1))
    places = first[:, None] + np.arange(int((last - first).max()))
    distance = np.abs((places - centre[:, None] + 0.5) / wide)
    weights = triangle(distance) if half == 1 else keys(distance, _SHARP_CUBIC)
    weights = np.where(places < last[:, None], weights, 0.0)
    return places, weights / weights.sum(1, keepdims=True)


_SAMPLES, _PADS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _grid_sample(n: AtenNode) -> Value:
    """Images sampled at the places of a grid."""
    return n.add(
        "grid_sample", [n.value("input"), n.value("grid")],
        method=_SAMPLES[int(n["interpolation_mode"])], padding=_PADS[int(n["padding_mode"])],
        corners=bool(n["align_corners"]),
    )  # fmt: skip


def _both(name: str, of: Translate) -> dict[str, Translate]:
    return {f"aten.{name}.{form}": of for form in ("default", "vec")}


_NEAREST = _upsample("nearest_neighbor", "asymmetric", "floor")
_EXACT = _upsample("nearest_neighbor", "half_pixel", "round_prefer_ceil")

TABLE: dict[str, Translate] = {
    "aten.grid_sampler_2d.default": _grid_sample,
    "aten.grid_sampler_3d.default": _grid_sample,
    **_both("_upsample_bilinear2d_aa", _smoothed(1)),
    **_both("_upsample_bicubic2d_aa", _smoothed(2)),
    **_both("upsample_linear1d", _upsample("linear")),
    **_both("upsample_bilinear2d", _upsample("linear")),
    **_both("upsample_trilinear3d", _upsample("linear")),
    **_both("upsample_bicubic2d", _upsample("cubic")),
    **{k: v for r in (1, 2, 3) for k, v in _both(f"upsample_nearest{r}d", _NEAREST).items()},
    **{k: v for r in (1, 2, 3) for k, v in _both(f"_upsample_nearest_exact{r}d", _EXACT).items()},
}
