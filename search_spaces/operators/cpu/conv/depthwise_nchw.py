"""The depthwise convolution for CPUs with the channels first: lanes along the rows of the result.

    for o, yo:                                           # a channel, some rows of it
        padded[y, p, j] = data[y - ph, j * sw + p - pw]  # a plane, or the rows that are read
        for xo:
            acc[yr, xr] += padded[y * sh + ry * dh, rx * dw % sw, x + rx * dw // sw] * taps[o]
            out[y, x] = acc

Lanes read neighbours: the padded copy, which stays in the L1 cache, has the pixels of each phase of
the horizontal stride side by side.
"""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.compiler.tir import dtype as dt
from whet.search_spaces.operators.cpu.conv.depthwise_shape import Sums, depthwise
from whet.search_spaces.operators.cpu.conv.padded_image import vectorize_line
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.operators.cpu.gemm.plan import define_threads
from whet.search_spaces.operators.cpu.gemm.stages import accumulators, or_zero
from whet.search_spaces.rules.vectors import lanes_of, register_tile, vector_registers

_ROWS = (1, 2, 3, 4, 6, 7, 8, 14)
_PLANE_BYTES = 24 * 1024  # of the L1 cache, for a padded plane


@depthwise("NCHW")
def depthwise_conv2d_nchw(cfg: Any, shape: ConvShape, data: Tensor, own: Tensor, each: int) -> Sums:
    """Each channel of data (N, C, H, W) with its own windows, weights (C, multiplier, KH, KW).

    The result is (N, C * multiplier, OH, OW): channel ``c * multiplier + m`` is channel ``c`` with
    window ``m``."""
    target = Target.current() or Target("llvm")
    lanes = lanes_of(target, shape.dtype)
    parallel, grain = _define(cfg, shape, target, lanes)
    yr, xr = (1, 1) if shape.is_empty else cfg["tile"].val
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
        return te.sum(pixel * own[o, ry, rx], [ry, rx])

    conv = te.compute(shape.result_shape, element, name="conv")

    def schedule(s: Schedule, conv: Tensor, out: Tensor) -> None:
        acc, stage = s[accumulators(s, conv, out)], s[out]
        n, o, y, x = stage.op.axis
        (yo, yi), (xo, xi) = stage.split(y, factor=yr), stage.split(x, factor=xr)
        register_tile(stage, [n, o, yo, xo], [yi, xi])
        acc.compute_at(stage, xo)
        register_tile(acc, acc.op.axis[:2], [*acc.op.reduce_axis, *acc.op.axis[2:]])
        s[padded].compute_at(stage, yo if cfg["copy"].val == "rows" else o)
        vectorize_line(s[padded], s[padded].op.axis[-1])
        if parallel:
            stage.parallel(n if shape.co == 1 else o, grain or None)

    return conv, schedule


def _define(cfg: Any, shape: ConvShape, target: Target, lanes: int) -> tuple[bool, int]:
    """The knobs: rows and pixels of a tile, and how much is copied at a time."""
    if shape.is_empty:
        return False, 0
    oh, ow = shape.out
    free = vector_registers(target) - 1 - shape.window[1]
    tiles = [
        (yr, v * lanes)
        for v in (1, 2, 3, 4, 7)
        for yr in _ROWS
        if yr * v <= max(free, 1) and (yr == 1 or yr <= oh) and (v == 1 or (v - 1) * lanes < ow)
    ]

    def work(tile: tuple[int, int]) -> tuple[int, int]:
        covered = -(-oh // tile[0]) * tile[0] * -(-ow // tile[1]) * tile[1]
        return covered, -tile[0] * tile[1]

    cfg.define_knob("tile", tiles, default=min(tiles, key=work))
    h, w = shape.padded
    plane = h * w * dt.itemsize(shape.dtype)
    cfg.define_knob("copy", ["plane", "rows"], default="plane" if plane <= _PLANE_BYTES else "rows")
    return define_threads(cfg, target, shape.flop // 2)
