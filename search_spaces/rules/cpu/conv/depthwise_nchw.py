"""The depthwise convolution with the channels first: lanes along the rows of the result.

    for o, yo:                                           # a channel, some rows of it
        padded[y, p, j] = data[y - ph, j * sw + p - pw]  # a plane, or the rows that are read
        for xo:
            acc[yr, xr] += padded[y * sh + ry * dh, rx * dw % sw, x + rx * dw // sw] * taps[o]
            out[y, x] = acc

Lanes read neighbours: the padded copy, which stays in the L1 cache, has the pixels of each phase of
the horizontal stride side by side. Small windows read the image itself (``copy=none``): rows
outside of it are left out by a branch, pixels outside of it by masks at the ends of a row.

Sums are whole vectors where a row would end in several narrower ones: 28 pixels are two of 16
lanes, and not one each of 16, 8 and 4. What they read beyond the row is the copy's, or masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2, prod
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.visit.rewrite import variables
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv.padded_image import vectorize_line
from whet.search_spaces.rules.cpu.gemm.stages import accumulators, or_zero, within
from whet.search_spaces.rules.threads import Threads
from whet.search_spaces.rules.vectors import lanes_of, register_tile, vector_registers

_ROWS = (1, 2, 3, 4, 6, 7, 8, 14)
_USUAL = 8  # vectors of a tile: sums in flight, and code that the processor keeps decoded
_WIDE = 4  # vectors of a whole row that one tile takes, where neighbouring lanes are read
# Windows of so few elements, and strided ones, read the image as it is: to copy it takes longer
# than their sums.
_FEW_TAPS = 9
# Bytes of vectors whose masks are registers of their own: whole rows are read as they are, whatever
# the window.
_MASKED = 64
_WASTE = 1.1  # of the least that tiles can cover
_PLANE_BYTES = 24 * 1024  # of the L1 cache, for a padded plane


@dataclass(frozen=True, eq=False)
class ChannelsFirst:
    """The stages of a depthwise convolution under the knobs of :func:`define`.

    Attributes:
        cfg: has the knobs.
        padded: the image with zeros around it; None: the image is read as it is.
        sums: the result in vectors, (N, C * multiplier, OH, vectors, lanes), or the result itself.
        conv: the result.
    """

    cfg: Prefixed
    padded: Tensor | None
    sums: Tensor
    conv: Tensor

    @staticmethod
    def of(
        cfg: Prefixed, given: ConvOperands, taps: Tensor, name: str, target: Target
    ) -> ChannelsFirst:
        """The computation.

        Args:
            given: the operands, the image (N, C, H, W).
            taps: the weights, (C * multiplier, KH, KW).
            name: of the result.
            target: whose vectors.
        """
        shape, data = given.form.shape, given.data
        yr, xr = cfg["tile"].val
        each, lanes = shape.co_group, lanes_of(target, shape.dtype)
        pieces = (shape.out[1] % lanes).bit_count()  # one narrower vector costs no more
        lanes = lanes if pieces > 1 and 0 not in shape.result_shape else 0
        if cfg["copy"].val == "none":
            lanes = lanes if target.vector_bytes >= _MASKED else 0
            return ChannelsFirst(cfg, None, *_direct(shape, data, taps, name, lanes))
        # Tiles at the edge read on beyond the image: there are zeros, too, and they need no guards.
        (sh, sw), (top, left), (h, w) = shape.strides, shape.before, shape.image
        oh, ow = shape.out
        rows = (-(-oh // yr) * yr - 1) * sh + shape.reach[0]
        columns = -(-ow // xr) * xr + (shape.reach[1] - 1) // sw

        def pixels(b: Any, c: Any, y: Any, p: Any, j: Any) -> Any:
            row, pixel = y - top, j * sw + p - left
            return or_zero(data[b, c, row, pixel], [row >= 0, row < h, pixel >= 0, pixel < w])

        dims = (shape.batch, shape.ci, rows, sw, columns)
        padded = te.compute(dims, pixels, name="padded")
        (dh, dw), (ry, rx) = shape.dilation, shape.window_axes()

        def element(b: Any, o: Any, y: Any, x: Any) -> Any:
            across = rx * dw
            pixel = padded[b, o // each, y * sh + ry * dh, across % sw, x + across // sw]
            return te.sum(pixel * taps[o, ry, rx], [ry, rx])

        return ChannelsFirst(cfg, padded, *_in_vectors(shape, element, name, lanes))

    def schedule(self, s: Schedule, out: Stage, threads: Threads) -> None:
        """Tiles of rows and pixels, a plane or some rows of the padded image at a time.

        A column of the window after the other: each row that was loaded is used by all its taps.
        """
        cfg, padded = self.cfg, self.padded
        yr, xr = cfg["tile"].val
        acc = s[accumulators(s, self.sums, out)]
        n, o, y, x = out.op.axis
        (yo, yi), (xo, xi) = out.split(y, factor=yr), out.split(x, factor=xr)
        register_tile(out, [n, o, yo, xo], [yi, xi])
        acc.compute_at(out, xo)
        ry, rx = acc.op.reduce_axis
        register_tile(acc, acc.op.axis[:2], [rx, ry, *acc.op.axis[2:]])
        if padded is not None:
            s[padded].compute_at(out, yo if cfg["copy"].val == "rows" else o)
            vectorize_line(s[padded], s[padded].op.axis[-1])
        threads.run(out, n if int(self.conv.shape[1]) == 1 else o)


def _direct(
    shape: ConvShape, data: Tensor, taps: Tensor, name: str, lanes: int
) -> tuple[Tensor, Tensor]:
    """The convolution of the image as it is: rows outside are left out, pixels outside are 0."""
    (sh, sw), (dh, dw), (top, left) = shape.strides, shape.dilation, shape.before
    each, (ry, rx) = shape.co_group, shape.window_axes()
    width, ow = shape.image[1], shape.out[1]
    last = -(-ow // max(lanes, 1)) * max(lanes, 1) - 1  # pixel of the result that a vector has
    beyond = last * sw + shape.reach[1] - left > width

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        row, pixel = y * sh + ry * dh - top, x * sw + rx * dw - left
        tests = within((row, pixel), shape)
        rows = [t for t in tests if rx.var not in variables(t)]
        pixels = [pixel >= 0] if left else []
        pixels += [pixel < width] if beyond else []
        value = or_zero(data[b, o // each, row, pixel], pixels)
        return te.sum(value * taps[o, ry, rx], [ry, rx], where=te.all(*rows) if rows else None)

    return _in_vectors(shape, element, name, lanes)


def _in_vectors(
    shape: ConvShape, element: Callable[..., Any], name: str, lanes: int
) -> tuple[Tensor, Tensor]:
    """The sums in whole vectors, and the result that takes them; one tensor without ``lanes``.

    Args:
        element: of (image, channel, row, pixel), also of pixels beyond the end of a row.
    """
    if not lanes:
        conv = te.compute(shape.result_shape, element, name=name)
        return conv, conv
    *lead, ow = shape.result_shape

    def lane(b: Any, o: Any, y: Any, v: Any, x: Any) -> Any:
        return element(b, o, y, v * lanes + x)

    sums = te.compute((*lead, -(-ow // lanes), lanes), lane, name=f"{name}.sums")

    def result(b: Any, o: Any, y: Any, x: Any) -> Any:
        value = sums(b, o, y, x // lanes, x % lanes)
        if lanes <= ow:
            return value
        # of a single vector only what is read would be summed, in ever narrower pieces: this
        # says that all of it is, in a case that never comes
        return te.if_then_else(x < ow, value, sums(b, o, y, 0, lanes - 1))

    return sums, te.compute(shape.result_shape, result, name=name)


def define(cfg: Prefixed, shape: ConvShape, target: Target, computed: bool) -> None:
    """The knobs: rows and pixels of a tile, and how much is copied at a time.

    Args:
        cfg: where they are defined.
        shape: the convolution.
        target: whose vectors.
        computed: whether a copy would compute the image's elements, too.
    """
    (oh, ow), sw = shape.out, shape.strides[1]
    lanes = lanes_of(target, shape.dtype)
    free = vector_registers(target) - 1 - shape.window[1]
    tiles = [
        (yr, v * lanes)
        for v in (1, 2, 3, 4, 7)
        for yr in _ROWS
        if yr * v <= max(free, 1) and (yr == 1 or yr <= oh) and (v == 1 or (v - 1) * lanes < ow)
    ]

    plane = prod(shape.padded) * dt.itemsize(shape.dtype)
    copied = "plane" if plane <= _PLANE_BYTES else "rows"
    # a whole row: its ends need no tests of their own
    whole = [t for t in tiles if t[1] >= ow and not computed and target.vector_bytes >= _MASKED]
    direct = not computed and (bool(whole) or prod(shape.window) <= _FEW_TAPS or sw > 1)
    rows = [xr for _, xr in tiles if xr >= ow and (xr <= _WIDE * lanes or sw > 1)]
    row = min(rows) if direct and rows else 0

    def covered(tile: tuple[int, int]) -> int:
        return -(-oh // tile[0]) * tile[0] * -(-ow // tile[1]) * tile[1]

    least = min(map(covered, tiles))

    def work(tile: tuple[int, int]) -> tuple[bool, float, int, int, int]:
        vectors = tile[0] * tile[1] // lanes
        much = max(covered(tile), _WASTE * least)  # one row at a time would read its window alone
        return tile[1] != row, much, abs(vectors - _USUAL) // 2, tile[1], -tile[0]

    def work_of_rows(tile: tuple[int, int]) -> tuple[int, float]:
        v = tile[1] // lanes
        apart = log2(tile[0] / min(_USUAL // min(v, 2), 2 * _USUAL // v))
        return tile[1], -(-oh // tile[0]) * tile[0] * (1 + max(apart / 2, -apart / 8))

    tile = min(whole, key=work_of_rows) if whole else min(tiles, key=work)
    cfg.define_knob("tile", tiles, default=tile)
    cfg.define_knob("copy", ["plane", "rows", "none"], default="none" if direct else copied)
