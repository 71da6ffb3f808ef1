"""The padded image that a convolution reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.rules.cpu.gemm.stages import or_zero

_WIDEST = 32
"""Elements of a line that are copied at once."""


def padded_lines(shape: ConvShape, data: Tensor) -> Tensor | None:
    """An image with the channels (or a block of them) last, padded; each row is one line.

    A row's pixels and channels lie side by side whatever their number, so that an image of three
    channels, too, is copied in whole vectors.

    Args:
        data: (N, H, W, C) or (N, C / c, H, W, c).

    Returns:
        (N, H + padding, (W + padding) * C), or with the blocks of channels behind N; None where
        there is no padding.
    """
    if not shape.is_padded:
        return None
    (h, w), (ph, pw), (top, left) = shape.image, shape.padded, shape.before
    width = max(1, int(data.shape[-1]))

    def element(*place: Any) -> Any:
        *lead, y, i = place
        tests = [y >= top] if top else []
        tests += [y < top + h] if shape.after[0] else []
        tests += [i >= left * width] if left else []
        tests += [i < (left + w) * width] if shape.after[1] else []
        j = i - left * width
        return or_zero(data(*lead, y - top, j // width, j % width), tests)

    lead = [int(d) for d in data.shape[:-3]]
    return te.compute((*lead, ph, pw * width), element, name="padded")


def vectorize_line(stage: Stage, line: IterVar) -> None:
    """Vectorise the innermost loop of a copy, a short one as one vector."""
    assert line.dom is not None
    extent = int(line.dom.extent)
    if extent > _WIDEST:
        _, line = stage.split(line, factor=_WIDEST)
    if extent > 1:
        stage.vectorize(line)


def copy_lines(s: Schedule, copy: Tensor, parallel: bool) -> None:
    """Schedule a copy of an image as a stage of its own, on all threads if asked for."""
    vectorize_line(s[copy], copy.op.axis[-1])
    if parallel:
        *outer, _ = copy.op.axis
        s[copy].parallel(s[copy].fuse(*outer))


Read = Callable[[Any, Any, Any, Any], Any]
"""From image, channel, place of the result and place in the window to a pixel."""


def padded_planes(
    shape: ConvShape, data: Tensor, tile: tuple[int, ...], is_sorted: bool
) -> tuple[Tensor | None, Read]:
    """An image with the channels first, padded, and how it is read.

    Tiles at the edge read on beyond the image. With zeros there, they need no guards inside.

    Args:
        tile: pixels of a register tile in the last dimensions.
        is_sorted: hold a row's pixels sorted by their remainder of the stride, so that those of
            neighbouring windows lie side by side: (N, C, ..., stride, W / stride).

    Returns:
        The padded image, or None where the data itself is read; and what reads a pixel.
    """
    strides, spread, stride = shape.strides, shape.dilation, shape.strides[-1]
    is_sorted = is_sorted and stride > 1
    sizes = list(shape.padded)
    for k, t in enumerate(tile, start=len(sizes) - len(tile)):
        reach = (-(-shape.out[k] // t) * t - 1) * strides[k] + shape.reach[k]
        sizes[k] = max(sizes[k], reach)

    def direct(source: Tensor) -> Read:
        def read(b: Any, c: Any, place: Any, window: Any) -> Any:
            at = [i * n + r * d for i, n, r, d in zip(place, strides, window, spread)]
            if is_sorted:
                offset = window[-1] * spread[-1]
                at[-1:] = [offset % stride, place[-1] + offset // stride]
            return source(b, c, *at)

        return read

    if not is_sorted and sizes == list(shape.image):
        return None, direct(data)
    covered = list(sizes)
    if is_sorted:
        covered[-1] = -(-sizes[-1] // stride) * stride
        sizes[-1:] = [stride, -(-sizes[-1] // stride)]

    def element(b: Any, c: Any, *at: Any) -> Any:
        where = list(at)
        if is_sorted:
            where[-2:] = [at[-1] * stride + at[-2]]
        where = [i - n for i, n in zip(where, shape.before)]
        tests = []
        for i, n, extent, first in zip(where, shape.image, covered, shape.before):
            tests += [i >= 0] if first else []
            tests += [i < n] if extent > n + first else []
        return or_zero(data(b, c, *where), tests)

    padded = te.compute((shape.batch, shape.ci, *sizes), element, name="padded")
    return padded, direct(padded)
