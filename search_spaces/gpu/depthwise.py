"""Depthwise convolutions on a GPU: a few pixels of a channel, or of four, for each thread.

    bind b, t:                                   # channels first: neighbours along a row of pixels
        patch[y, x] = data[...] or 0             # what the thread's pixels read, in registers
        for ry, rx: acc[yi, xi] += patch[yi*sh + ry*dh, xi*sw + rx*dw] * taps[o, ry, rx]
        out[...] = acc

What neighbouring threads read of the same rows comes from the cache. Channels last, a thread has
neighbouring channels, as many as it reads at once. Of a window too large for registers, the patch
is what one row of it reads, or one place.
"""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.cpu.conv_shape import ConvShape
from whet.search_spaces.cpu.depthwise_shape import depthwise_arguments, place_taps, taps
from whet.search_spaces.gpu.lanes import lanes_of, summed_in
from whet.search_spaces.gpu.matmul import refuse_packed
from whet.search_spaces.gpu.threads import bind
from whet.search_spaces.gpu.unreduced import without_terms

_TILES = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (4, 2), (1, 4), (2, 4), (4, 4))
_THREADS = (64, 128, 256)
# Elements of a patch that a thread has registers for, besides those of its sums.
_PATCH, _WIDE_PATCH = 96, 144


def depthwise_conv2d_nchw(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """Channels first; arguments as the CPU's template of this name takes them."""
    shape, multiplier, epilogue, packed = depthwise_arguments("depthwise_conv2d_nchw", "NCHW", args)
    weight = te.placeholder((shape.ci, multiplier, *shape.window), shape.dtype, name="weight")
    return _depthwise(shape, weight, multiplier, epilogue, packed)


def depthwise_conv2d_nhwc(*args: Any) -> tuple[Schedule, list[Tensor]]:
    """Channels last; arguments as the CPU's template of this name takes them."""
    shape, multiplier, epilogue, packed = depthwise_arguments("depthwise_conv2d_nhwc", "NHWC", args)
    weight = te.placeholder((*shape.window, shape.ci, multiplier), shape.dtype, name="weight")
    return _depthwise(shape, weight, multiplier, epilogue, packed)


def _depthwise(
    shape: ConvShape, weight: Tensor, each: int, epilogue: Any, packed: bool
) -> tuple[Schedule, list[Tensor]]:
    """The schedule under the config in force."""
    refuse_packed("weight", packed)
    cfg = get_config()
    cfg.add_flop(shape.flop)
    steps = Epilogue.of(epilogue)
    data = te.placeholder(shape.data_shape, shape.dtype, name="data")
    if shape.is_empty:
        return without_terms(data, weight, shape.result_shape, steps, shape.channel_axis, "conv")
    lanes = 1
    if shape.channels_last and each == 1:
        lanes = min(4, lanes_of(shape.dtype, shape.co))
    around = _around(shape, lanes)
    (yr, xr), threads = _define(cfg, shape, lanes, around)
    own = taps(shape, weight)
    padded = _padded(shape, data)
    conv = _sums(shape, padded, own, each)
    out, extras = steps.apply(conv, shape.channel_axis, stored=shape.dtype)
    s = te.create_schedule(out.op)
    place_taps(s, own, False)
    sums = s.cache_write(conv, "local") if out.op is conv.op else conv
    s[sums].set_scope("local")
    thread = _store(s, shape, out, (yr, xr), lanes, threads)
    s[sums].compute_at(s[out], thread)
    _tile(s, sums, lanes, around)
    s[padded].set_scope("local")
    if around:
        s[padded].compute_at(s[sums], s[sums].op.reduce_axis[around - 1])
    else:
        s[padded].compute_at(s[out], thread)
    for axis in s[padded].op.axis[:-1]:
        s[padded].unroll(axis)
    if lanes > 1:
        s[padded].vectorize(s[padded].op.axis[-1])
    else:
        s[padded].unroll(s[padded].op.axis[-1])
    return s, [data, weight, *extras, out]


def _most(lanes: int) -> int:
    return _PATCH if lanes == 1 else _WIDE_PATCH


def _around(shape: ConvShape, lanes: int) -> int:
    """Loops over the window around the patch: of its rows, then of its columns."""
    rows, columns = shape.reach
    if rows * columns * lanes <= _most(lanes):
        return 0
    return 1 if columns * lanes <= _most(lanes) and shape.dilation[1] == 1 else 2


def _define(cfg: Any, shape: ConvShape, lanes: int, around: int) -> tuple[tuple[int, int], int]:
    """The knobs: pixels of a thread, threads of a block."""
    (oh, ow), most = shape.out, _most(lanes)
    reach = (*(1,) * around, *shape.reach[around:])

    def patch(tile: tuple[int, int]) -> int:
        rows, columns = (
            (n - 1) * s + r for n, s, r in zip(tile, shape.strides, reach, strict=True)
        )
        return rows * columns * lanes

    tiles = [t for t in _TILES if t[0] < 2 * oh and t[1] < 2 * ow and patch(t) <= most]
    tiles = tiles or [(1, 1)]
    wanted = (1, 4) if around == 1 else (1, 2) if shape.channels_last else (4, 1)
    fits = [t for t in tiles if t[0] <= wanted[0] and t[1] <= wanted[1]]
    cfg.define_knob("tile", tiles, default=max(fits, key=lambda t: t[0] * t[1]))
    cfg.define_knob("threads", list(_THREADS), default=128)
    return cfg["tile"].val, cfg["threads"].val


def _padded(shape: ConvShape, data: Tensor) -> Tensor:
    """The image with zeros around it, in the type of the sums."""
    (top, left), (h, w) = shape.before, shape.image
    kind = summed_in(shape.dtype)

    def element(*index: Any) -> Any:
        y, x = (index[1], index[2]) if shape.channels_last else (index[2], index[3])
        row, column = y - top, x - left
        if shape.channels_last:
            pixel = data(index[0], row, column, index[3])
        else:
            pixel = data(index[0], index[1], row, column)
        value = pixel.astype(kind)
        if not shape.is_padded:
            return value
        inside = te.all(row >= 0, row < h, column >= 0, column < w)
        return te.if_then_else(inside, value, te.const(0, kind))

    rows, columns = shape.padded
    if shape.channels_last:
        return te.compute((shape.batch, rows, columns, shape.ci), element, name="padded")
    return te.compute((shape.batch, shape.ci, rows, columns), element, name="padded")


def _sums(shape: ConvShape, padded: Tensor, own: Tensor, each: int) -> Tensor:
    (sh, sw), (dh, dw) = shape.strides, shape.dilation
    ry, rx = (te.reduce_axis((0, k), name=n) for k, n in zip(shape.window, ("ry", "rx")))
    kind = summed_in(shape.dtype)

    def element(*index: Any) -> Any:
        if shape.channels_last:
            n, y, x, o = index
            pixel = padded(n, y * sh + ry * dh, x * sw + rx * dw, o // each if each > 1 else o)
            return te.sum(pixel * own(ry, rx, o).astype(kind), [ry, rx])
        n, o, y, x = index
        pixel = padded(n, o // each if each > 1 else o, y * sh + ry * dh, x * sw + rx * dw)
        return te.sum(pixel * own(o, ry, rx).astype(kind), [ry, rx])

    return te.compute(shape.result_shape, element, name="conv")


def _store(
    s: Schedule,
    shape: ConvShape,
    out: Tensor,
    tile: tuple[int, int],
    lanes: int,
    threads: int,
) -> IterVar:
    """The loops of the result; returns a thread's."""
    stage = s[out]
    if shape.channels_last:
        n, y, x, o = stage.op.axis
    else:
        n, o, y, x = stage.op.axis
    (yo, yi), (xo, xi) = stage.split(y, factor=tile[0]), stage.split(x, factor=tile[1])
    rest = [yi, xi]
    if lanes > 1:
        o, inner = stage.split(o, factor=lanes)
        rest.append(inner)
        stage.vectorize(inner)
    outer = (n, yo, xo, o) if shape.channels_last else (n, o, yo, xo)
    stage.reorder(*outer, *rest)
    block, thread = stage.split(stage.fuse(*outer), factor=threads)
    bind(stage, block, "blockIdx.x")
    bind(stage, thread, "threadIdx.x")
    stage.unroll(yi)
    stage.unroll(xi)
    return thread


def _tile(s: Schedule, sums: Tensor, lanes: int, around: int) -> None:
    """A thread's sums, its pixels and its window written out, as far as a patch reaches."""
    stage = s[sums]
    window = stage.op.reduce_axis
    stage.reorder(*window, *stage.op.axis)
    last = stage.op.axis[-1]
    for axis in (*window[around:], *stage.op.axis[:-1]):
        stage.unroll(axis)
    if lanes > 1:
        stage.vectorize(last)
    else:
        stage.unroll(last)
