"""Images enlarged and shrunk."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.torch.operators.node import AtenNode, Translate

_CUBIC = -0.75  # Keys' parameter


def _upsample(method: str, mode: str = "", rounding: str = "") -> Translate:
    """Images resized; a method that takes the corners' centres to stay says ``mode`` itself."""

    def translate(n: AtenNode) -> Value:
        x = n.value("self" if "self" in n.args else "input")
        size = list(n.shape[2:])
        factors = _factors(n, len(size))
        corners = bool(n.get("align_corners", False))
        # by a factor that is no whole number, a size that is rounded down is not the ratio
        if not corners and any(f is not None and f != int(f) for f in factors):
            taps = _exact if rounding == "round_prefer_ceil" else _TAPS[method]
            for k, (factor, made) in enumerate(zip(factors, size)):
                x = _resampled(n, x, 2 + k, made, factor, taps)
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
    taps: Callable[[np.ndarray, np.float32], Taps],
) -> Value:
    """An axis resized by a factor, which says where each element lies whatever the size is."""
    by = np.float32(1 / factor if factor is not None else x.shape[axis] / size)
    places, weights = taps(np.arange(size, dtype=np.float32), by)
    given = [x, n.constant(places, "int32"), n.constant(weights, x.dtype)]
    return n.add("resample", given, axis=axis)


def _nearest(k: np.ndarray, by: np.float32) -> Taps:
    return np.floor(k * by)[:, None], np.ones((k.size, 1))


def _exact(k: np.ndarray, by: np.float32) -> Taps:
    return np.floor((k + np.float32(0.5)) * by)[:, None], np.ones((k.size, 1))


def _linear(k: np.ndarray, by: np.float32) -> Taps:
    at = np.maximum((k + np.float32(0.5)) * by - np.float32(0.5), 0)
    left = np.floor(at)
    part = at - left
    return np.stack([left, left + 1], 1), np.stack([1 - part, part], 1)


def _cubic(k: np.ndarray, by: np.float32) -> Taps:
    at = (k + np.float32(0.5)) * by - np.float32(0.5)
    left = np.floor(at)
    part = (at - left)[:, None]
    offsets = np.arange(-1, 3)
    t = np.abs(part - offsets)
    near = ((_CUBIC + 2) * t - (_CUBIC + 3)) * t * t + 1
    far = ((_CUBIC * t - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC
    return left[:, None] + offsets, np.where(t <= 1, near, far)


_TAPS = {"nearest_neighbor": _nearest, "linear": _linear, "cubic": _cubic}


def _both(name: str, of: Translate) -> dict[str, Translate]:
    return {f"aten.{name}.{form}": of for form in ("default", "vec")}


_NEAREST = _upsample("nearest_neighbor", "asymmetric", "floor")
_EXACT = _upsample("nearest_neighbor", "half_pixel", "round_prefer_ceil")

TABLE: dict[str, Translate] = {
    **_both("upsample_linear1d", _upsample("linear")),
    **_both("upsample_bilinear2d", _upsample("linear")),
    **_both("upsample_trilinear3d", _upsample("linear")),
    **_both("upsample_bicubic2d", _upsample("cubic")),
    **{k: v for r in (1, 2, 3) for k, v in _both(f"upsample_nearest{r}d", _NEAREST).items()},
    **{k: v for r in (1, 2, 3) for k, v in _both(f"_upsample_nearest_exact{r}d", _EXACT).items()},
}
