"""The depthwise convolution with the channels last: lanes along the channels.

    for cb, xb:                          # a block of channels of a strip of pixels
        for y:                           # down the strip: rows that were read stay in the L1 cache
            for co, xo:
                for ry, if the row y * sh + ry * dh - ph is in the image:
                    acc[xr, lanes] += data[..., x * sw + rx * dw - pw, c] * taps[ry, rx, c]
                out[y, x, c] = acc

There is no padded copy: such a kernel moves about as many bytes as it computes numbers. Rows
outside of the image are left out by a branch for a whole row of a tile; pixels outside of it are
known where the first and the last tile of a row are split off.

Threads share images, bands of rows and blocks of channels: rows first, as the operators around do,
so that most of what a thread reads is what it wrote; and strips only where there are too few of
these, as their first and last one cannot be split off then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.gemm.stages import accumulators, within
from whet.search_spaces.rules.threads import Threads
from whet.search_spaces.rules.vectors import lanes_of, register_tile, vector_registers

_PIXELS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_STRIPS = (1, 2, 4, 8, 16)
_BLOCKS = (2, 4, 8, 16)
_USUAL = 7  # pixels of a tile: enough sums in flight, and what window and pixels leave of registers
_LINE_BYTES = 512  # of a pixel's channels, in one block of them
# Of few channels, so many pixels are read in a run: prefetching likes longer runs, the L1 cache,
# from which a window's other rows are read, shorter ones.
_STRIP_PIXELS = 28
# A tile costs a pixel more than it has; in strips of several, a last tile with tests costs as much
# as this part of a row; costs that differ by less are equal.
_EACH, _TAIL, _EQUAL = 1, 0.15, 0.02
# What a tile goes through before the next row of pixels, and so what the L1 cache holds of it.
_L1_BYTES = 28 * 1024


@dataclass(frozen=True, eq=False)
class ChannelsLast:
    """The stages of a depthwise convolution under the knobs of :func:`define`.

    Attributes:
        cfg: has the knobs.
        shape: the convolution. conv: the result.
        lanes: of a vector.
        count: of the target's threads.
    """

    cfg: Prefixed
    shape: ConvShape
    conv: Tensor
    lanes: int
    count: int

    @staticmethod
    def of(
        cfg: Prefixed, given: ConvOperands, taps: Tensor, name: str, target: Target
    ) -> ChannelsLast:
        """The computation.

        Args:
            given: the operands, the image (N, H, W, C).
            taps: the weights, (KH, KW, C * multiplier).
            name: of the result.
            target: whose vectors.
        """
        shape, data = given.form.shape, given.data
        (sh, sw), (dh, dw), (top, left) = shape.strides, shape.dilation, shape.before
        ry, rx = shape.window_axes()

        def element(b: Any, y: Any, x: Any, o: Any) -> Any:
            row, pixel = y * sh + ry * dh - top, x * sw + rx * dw - left
            tests = within((row, pixel), shape)
            # the part of a window that is inside the image
            inside = te.all(*tests) if tests else None
            read = data[b, row, pixel, o // shape.co_group]
            return te.sum(read * taps[ry, rx, o], [ry, rx], where=inside)

        conv = te.compute(shape.result_shape, element, name=name)
        return ChannelsLast(cfg, shape, conv, _lanes(shape, target), target.num_threads)

    def schedule(self, s: Schedule, out: Stage, threads: Threads) -> None:
        """Strips of pixels and blocks of channels; a tile's pixels and window are unrolled."""
        cfg, shape, lanes = self.cfg, self.shape, self.lanes
        xr, v = cfg["tile"].val
        acc = s[accumulators(s, self.conv, out)]
        n, y, x, o = out.op.axis
        xo, xi = out.split(x, factor=xr)
        oo, oi = out.split(o, factor=v * lanes)
        xb, xo = out.split(xo, factor=cfg["strip"].val or -(-shape.out[1] // xr))
        ob, oo = out.split(oo, factor=cfg["block"].val or -(-shape.co // (v * lanes)))
        blocks = -(-shape.co // (v * lanes * (cfg["block"].val or shape.co)))
        bands = self._bands(blocks) if threads.parallel else 1
        yb, y = out.split(y, nparts=bands)
        register_tile(out, [n, yb, ob, xb, y, oo, xo], [xi, oi])
        acc.compute_at(out, xo)
        an, ay, ax, ao = acc.op.axis
        ry, rx = acc.op.reduce_axis
        register_tile(acc, [an, ay], [ry, ax, rx, ao])
        # unrolled before conditions are simplified, so that most pixels are known to be inside
        acc.pragma(ax, "unroll_explicit", True)
        if threads.parallel:
            shared = out.fuse(out.fuse(n, yb), ob)
            few = shape.batch * bands * blocks < self.count
            threads.run(out, out.fuse(shared, xb) if few else shared)

    def _bands(self, blocks: int) -> int:
        """Bands of rows that leave the thread with most of them least; of such, the fewest.

        Args:
            blocks: of channels.
        """
        rows, images = self.shape.out[0], self.shape.batch
        apart = self.count // gcd(self.count, images)

        def most(bands: int) -> int:
            each = -(-rows // bands)
            return -(-images * -(-rows // each) * blocks // self.count) * each

        return min(sorted({min(rows, n) for n in (apart, 2 * apart, 4 * apart, rows)}), key=most)


def _lanes(shape: ConvShape, target: Target) -> int:
    return min(lanes_of(target, shape.dtype), shape.co)


def define(cfg: Prefixed, shape: ConvShape, target: Target) -> None:
    """The knobs: pixels and channels of a tile, tiles of a strip, vectors of a block."""
    lanes = _lanes(shape, target)
    ow, vectors = shape.out[1], -(-shape.co // lanes)
    free = vector_registers(target) - 1 - shape.window[1]
    tiles = [
        (xr, v)
        for v in (1, 2, 4)
        for xr in _PIXELS
        if (v == 1 or v <= vectors) and (xr == 1 or xr <= ow) and (xr * v <= free or xr * v == 1)
    ]
    whole = [b for b in range(2, _BLOCKS[-1] + 1) if vectors % b == 0]
    blocks = [0, *(b for b in sorted({*_BLOCKS, *whole}) if b < vectors)]  # 0: all channels
    line = max(2, _LINE_BYTES // (lanes * dt.itemsize(shape.dtype)))
    # whole blocks: around a part of one every tile has tests
    block = next((b for b in (line, line // 2) if b in blocks and vectors % b == 0), 0)
    single = bool(block) or vectors > line  # strips of one tile
    default = _usual_tile([t for t in tiles if t[1] == 1], ow, 0.0 if single else _TAIL)
    cfg.define_knob("tile", tiles, default=default)
    most = _L1_BYTES // _bytes_of_vector(shape, lanes, default[0])
    if single and (block or vectors) > most:
        block = max((b for b in whole if b <= most and b in blocks), default=block)
    cfg.define_knob("block", blocks, default=block)
    strips = [0, *(b for b in _STRIPS if b < ow)]  # 0: the whole row
    # a strip that ends within a tile would have tests in all of its tiles
    wanted = 1 if single or ow % default[0] else max(1, _STRIP_PIXELS // default[0])
    strip = max((b for b in strips if 0 < b <= wanted), default=0)
    cfg.define_knob("strip", strips, default=strip if strip * default[0] < ow else 0)
    cfg.multi_filter(partial(_no_larger, ow=ow, vectors=vectors))


def _usual_tile(tiles: list[tuple[int, int]], ow: int, tail: float) -> tuple[int, int]:
    """The tile nearest to the usual one among those that cost the least.

    Args:
        tiles: of one vector. ow: pixels of a row.
        tail: what a last tile that is not whole costs, as a part of a row.
    """

    def cost(tile: tuple[int, int]) -> float:
        return -(-ow // tile[0]) * (tile[0] + _EACH) * (1.0 + (tail if ow % tile[0] else 0.0))

    near = [t for t in tiles if t[0] <= _USUAL + 1]
    least = min(map(cost, near))
    best = [t for t in near if cost(t) <= least * (1.0 + _EQUAL)]
    return min(best, key=lambda t: (abs(t[0] - _USUAL), cost(t)))


def _bytes_of_vector(shape: ConvShape, lanes: int, pixels: int) -> int:
    """The bytes of a vector's channels that a tile of pixels reads: the image, and the taps."""
    (rows, columns), (dh, dw) = shape.window, shape.dilation
    height = (rows - 1) * dh + 1
    width = (pixels - 1) * shape.strides[1] + (columns - 1) * dw + 1
    return (height * width + rows * columns) * lanes * dt.itemsize(shape.dtype)


def _no_larger(c: Any, ow: int, vectors: int) -> bool:
    """Strips and blocks are parts of what there is."""
    xr, v = c["tile"].val
    return c["strip"].val * xr < ow and c["block"].val * v < vectors
