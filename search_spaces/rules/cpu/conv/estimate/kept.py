"""The share of a convolution's taps that are multiplied where those in the padding are skipped."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from whet.search_spaces.forms.conv_shape import ConvShape


@lru_cache(maxsize=4096)
def kept_along(shape: ConvShape, axis: int, tile: int, step: int) -> float:
    """The share of the taps along one dimension that meet the image.

    Args:
        tile: places of the result that skip a tap together.
        step: from the begin of one tile to that of the next.
    """
    stride, image = shape.strides[axis], shape.image[axis]
    taps = [r * shape.dilation[axis] - shape.before[axis] for r in range(shape.window[axis])]
    begins = range(0, max(1, shape.out[axis]), step)
    met = sum(
        (y + tile - 1) * stride + r >= 0 and y * stride + r < image for y in begins for r in taps
    )
    return met / (len(begins) * len(taps))


@lru_cache(maxsize=4096)
def kept_in_runs(shape: ConvShape, skip: str, tile: int, apart: bool) -> float:
    """The share that tiles of pixels multiply, which are numbered through line by line.

    Args:
        skip: the knob's value: ``"none"``, ``"rows"``, ``"columns"``.
        tile: pixels of a tile. apart: whether the columns of the window are steps of their own.
    """
    if skip == "none":
        return 1.0
    line = 1 if skip == "columns" else 0
    across = max(1, shape.out[1 - line])
    begins = range(0, across, gcd(across, tile))
    spans = [1 + (first + tile - 1) // across for first in begins]
    share = sum(kept_along(shape, line, n, 1) for n in spans) / len(spans)
    if apart and tests_across(shape, line, tile):
        share *= kept_along(shape, 1 - line, tile, 1)
    return share


def tests_across(shape: ConvShape, line: int, tile: int) -> bool:
    """True if the padding beside a line is wider than a tile of pixels."""
    beside = 1 - line
    widest = max(shape.before[beside], shape.after[beside])
    return (tile - 1) * shape.strides[beside] < widest
