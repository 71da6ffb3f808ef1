"""Boxes: how much two of them overlap, and one that is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.tir.ops.ops import const, maximum, minimum, select

Box = Sequence[Any]


def overlap(a: Box, b: Box, dtype: str, pixel: float = 0.0) -> Any:
    """The area that two boxes share, by the area of both; 0 for boxes without area.

    Args:
        a, b: two opposite corners each: x, y, x, y.
        pixel: what a side is longer than the corners' difference.
    """
    more, nothing = const(pixel, dtype), const(0.0, dtype)
    sides, shared, areas = [], [], []
    for box in (a, b):
        sides.append([(minimum(box[k], box[k + 2]), maximum(box[k], box[k + 2])) for k in (0, 1)])
    for axis in (0, 1):
        (low, high), (low2, high2) = sides[0][axis], sides[1][axis]
        shared.append(maximum(nothing, minimum(high, high2) - maximum(low, low2) + more))
    for of in sides:
        (x, x2), (y, y2) = of
        areas.append((x2 - x + more) * (y2 - y + more))
    both = shared[0] * shared[1]
    union = areas[0] + areas[1] - both
    return select(union <= nothing, nothing, both / union)


def fill(target: Any, at: Sequence[Any], values: Sequence[Any]) -> None:
    """Store the numbers of a box at its place."""
    for k, value in enumerate(values):
        target[(*at, k)] = value
