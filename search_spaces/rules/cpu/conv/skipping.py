"""Taps of a window that lie in the padding for a whole register tile, and are skipped.

    for ry in range(KH):
        if max(-(y1 * sh + ry * dh - top), y0 * sh + ry * dh - top - (H - 1)) <= 0:
            ...                                          # the tile's rows y0 to y1 meet the image

The zeros are still there, for the pixels beside the border; the test says only what need not be
multiplied. So a weight that is infinite or NaN meets the padding's zeros in some pixels alone.
"""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.search_spaces.forms.conv_shape import ConvShape


def zeros_met(
    shape: ConvShape, axis: int, tap: Any, begin: Any, end: Any, wraps: bool = False
) -> list[Any]:
    """Numbers of which one is positive where a tap meets nothing but the zeros of one dimension.

    Args:
        axis: the spatial dimension. tap: the place in the window.
        begin, end: the tile's first and last place of the result.
        wraps: whether a tile may go on from the dimension's end to its begin, with ``end`` beyond.
    """
    stride, first = shape.strides[axis], shape.before[axis]
    offset = tap * shape.dilation[axis] - first
    found = [-(end * stride + offset)] if first else []
    if shape.after[axis]:
        if wraps:
            begin = te.if_then_else(end >= shape.out[axis], 0, begin)
        found.append(begin * stride + offset - (shape.image[axis] - 1))
    return found


def met(beyond: list[Any]) -> Any:
    """True where none of the numbers is positive; None where there are none.

    One test of their maximum: no loop over the window is split for it.
    """
    if not beyond:
        return None
    most = beyond[0]
    for one in beyond[1:]:
        most = te.max(most, one)
    return most <= 0
