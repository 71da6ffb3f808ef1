"""Convolutions on a GPU the direct way: an image's patch in shared memory, read for each window.

    bind block:  # some channels of the result, a rectangle of its pixels
        for ko:  # some channels of the data
            P[c, y, x] = data[...] or 0
            W[c, ry, rx, o] = weight[...]
            for c, ry, rx: T[o, y, x] += P[c, y * sh + ry * dh, x * sw + rx * dw] * W[c, ry, rx, o]

Channels first, neighbouring threads have neighbouring pixels of a row; channels last, channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.cpu.conv_shape import ConvShape
from whet.search_spaces.gpu.device import shared_bytes
from whet.search_spaces.gpu.lanes import summed_in
from whet.search_spaces.gpu.product import covered
from whet.search_spaces.gpu.threads import Block, bind, bind_blocks, copy_together

# pixels of a block along a row, its groups of channels, rows and channels of a thread
_TILES = (
    (32, 8, 4, 8),
    (32, 4, 4, 8),
    (32, 4, 2, 8),
    (16, 8, 7, 8),
    (16, 8, 4, 8),
    (16, 16, 4, 4),
    (16, 8, 2, 8),
    (8, 16, 7, 4),
    (8, 16, 4, 4),
    (8, 8, 2, 8),
    (32, 4, 4, 4),
    (32, 4, 2, 4),
    (16, 8, 1, 4),
    (64, 2, 2, 4),
    (32, 2, 2, 2),
    (32, 1, 4, 1),
)
_CHANNELS = (4, 2, 8, 16)
# Windows of so many places are written out.
_WRITTEN = 9


@dataclass(frozen=True)
class Rectangle:
    """What a config says of a direct convolution.

    Attributes:
        x, groups: pixels of a row, and groups of channels, that a block's threads have one each of.
        own_rows, own_channels: of a thread.
        channels: of the data in shared memory at a time.
    """

    x: int
    groups: int
    own_rows: int
    own_channels: int
    channels: int


@dataclass(frozen=True)
class _Fits:
    """A constraint: the shared memory of a block is at most what it may have."""

    bytes: int
    shape: ConvShape

    def __call__(self, view: Any) -> bool:
        x, groups, rows, own = view["rectangle"].val
        (sh, sw), (rh, rw) = self.shape.strides, self.shape.reach
        patch = ((rows - 1) * sh + rh) * ((x - 1) * sw + rw)
        weights = (groups * own + 4) * prod(self.shape.window)
        size = dt.itemsize(summed_in(self.shape.dtype))
        return (patch + weights) * view["channels"].val * size <= self.bytes

    def __repr__(self) -> str:
        return f"a patch of the image and its weights have at most {self.bytes} bytes"


def define_direct(cfg: Any, define: Any, shape: ConvShape, target: Target) -> Rectangle:
    """Define the knobs of the direct way, and read them.

    Args:
        cfg: what the template talks to.
        define: what the knobs are defined through.
    """
    oh, ow = shape.out

    def waste(tile: tuple[int, int, int, int]) -> float:
        x, groups, rows, own = tile
        covered = 1.0
        for extent, size in ((ow, x), (oh, rows), (shape.co_group, groups * own)):
            covered *= -(-extent // size) * size / extent
        return covered

    # what hangs over the channels of a group would be the next group's
    tiles = [t for t in _TILES if shape.groups == 1 or shape.co_group % (t[1] * t[3]) == 0]
    limit = min(waste(t) for t in tiles) * 2
    tiles = [t for t in tiles if waste(t) <= limit]
    default = min(tiles, key=lambda t: (waste(t) * (1 / t[2] + 4 / t[3]), -t[0] * t[1]))
    channels = [c for c in _CHANNELS if c < 2 * shape.ci_group] or [1]
    define.define_knob("rectangle", tiles, default=default)
    define.define_knob("channels", channels, default=channels[0])
    define.multi_filter(_Fits(min(shared_bytes(target), 96 * 1024), shape))
    x, groups, rows, own = cfg["rectangle"].val
    return Rectangle(x, groups, rows, own, cfg["channels"].val)


def direct_convolution(
    shape: ConvShape, r: Rectangle, data: Tensor, weight: Tensor, epilogue: Epilogue
) -> tuple[Schedule, list[Tensor]]:
    """The schedule of a direct convolution, and the kernel's arguments."""
    channels = covered(shape.ci_group, r.channels)
    patch = _patch(shape, r, data, channels)
    own = _weights(shape, r, weight, channels)
    sums = _sums(shape, r, patch, own)
    plain = _result(shape, sums)
    out, extras = epilogue.apply(plain, shape.channel_axis, stored=shape.dtype)
    s = te.create_schedule(out.op)
    if out.op is not plain.op:
        s[plain].compute_inline()
    s[sums].set_scope("local")
    thread = _store(s[out], shape, r)
    s[sums].compute_at(s[out], thread)
    c, ry, rx = s[sums].op.reduce_axis
    outer, inner = s[sums].split(c, factor=r.channels)
    s[sums].reorder(outer, inner, ry, rx, *s[sums].op.axis)
    for axis in s[sums].op.axis:
        s[sums].unroll(axis)
    if prod(shape.window) <= _WRITTEN:
        s[sums].unroll(ry)
        s[sums].unroll(rx)
    if r.own_channels > 1:
        read = s.cache_read(own, "local", [sums])
        s[read].compute_at(s[sums], rx)
        s[read].vectorize(s[read].op.axis[-1])
    block = Block(r.groups, r.x) if shape.channels_last else Block(r.x, r.groups)
    for stage in (patch, own):
        s[stage].set_scope("shared")
        s[stage].compute_at(s[sums], outer)
    _share(s[patch], shape, r, block)
    _share_weights(s[own], shape, r, block)
    return s, [data, weight, *extras, out]


def _patch(shape: ConvShape, r: Rectangle, data: Tensor, channels: int) -> Tensor:
    """The image with zeros around it and behind its last channel, as far as tiles reach."""
    (top, left), (h, w), (sh, sw) = shape.before, shape.image, shape.strides
    (oh, ow), per = shape.out, shape.ci_group
    rows = (covered(oh, r.own_rows) - 1) * sh + shape.reach[0]
    columns = (covered(ow, r.x) - 1) * sw + shape.reach[1]
    kind = summed_in(shape.dtype)

    def element(n: Any, g: Any, c: Any, y: Any, x: Any) -> Any:
        row, column = y - top, x - left
        channel = g * per + c if shape.groups > 1 else c
        index = (row, column, channel) if shape.channels_last else (channel, row, column)
        tests = [row >= 0, row < h, column >= 0, column < w]
        if channels != per:
            tests.append(c < per)
        value = data(n, *index).astype(kind)
        return te.if_then_else(te.all(*tests), value, te.const(0, kind))

    return te.compute((shape.batch, shape.groups, channels, rows, columns), element, name="patch")


def _weights(shape: ConvShape, r: Rectangle, weight: Tensor, channels: int) -> Tensor:
    """The weights, a group's channels of the result innermost, zero behind the last of the data.

    Behind the last channel of the result is that one again, as far as tiles reach.
    """
    kind = summed_in(shape.dtype)
    whole = covered(shape.co_group, r.groups * r.own_channels)

    def element(g: Any, c: Any, ry: Any, rx: Any, o: Any) -> Any:
        o = o if whole == shape.co_group else te.min(o, shape.co_group - 1)
        channel = g * shape.co_group + o if shape.groups > 1 else o
        index = (ry, rx, c, channel) if shape.channels_last else (channel, c, ry, rx)
        value = weight(*index).astype(kind)
        if channels == shape.ci_group:
            return value
        return te.if_then_else(c < shape.ci_group, value, te.const(0, kind))

    return te.compute((shape.groups, channels, *shape.window, whole), element, name="weights")


def _sums(shape: ConvShape, r: Rectangle, patch: Tensor, own: Tensor) -> Tensor:
    """The sums of whole tiles, ``[n, group, y, x, o]`` or the channels before the pixels."""
    (sh, sw), (dh, dw), (oh, ow) = shape.strides, shape.dilation, shape.out
    c = te.reduce_axis((0, int(own.shape[1])), name="c")
    ry, rx = (te.reduce_axis((0, k), name=n) for k, n in zip(shape.window, ("ry", "rx")))

    def element(n: Any, g: Any, *index: Any) -> Any:
        y, x, o = index if shape.channels_last else (*index[1:], index[0])
        pixel = patch(n, g, c, y * sh + ry * dh, x * sw + rx * dw)
        return te.sum(pixel * own(g, c, ry, rx, o), [c, ry, rx])

    plane = (covered(oh, r.own_rows), covered(ow, r.x))
    channels = (int(own.shape[-1]),)
    inner = (*plane, *channels) if shape.channels_last else (*channels, *plane)
    return te.compute((shape.batch, shape.groups, *inner), element, name="tile")


def _result(shape: ConvShape, sums: Tensor) -> Tensor:
    """The sums in the layout of the result."""

    def element(*index: Any) -> Any:
        n, o = index[0], index[shape.channel_axis]
        y, x = index[1:3] if shape.channels_last else index[2:]
        g, own = (o // shape.co_group, o % shape.co_group) if shape.groups > 1 else (0, o)
        return sums(n, g, *((y, x, own) if shape.channels_last else (own, y, x)))

    return te.compute(shape.result_shape, element, name="conv")


def _store(stage: Stage, shape: ConvShape, r: Rectangle) -> IterVar:
    """Blocks and threads of the result; returns the loop of a thread."""
    if shape.channels_last:
        n, y, x, o = stage.op.axis
    else:
        n, o, y, x = stage.op.axis
    lead = [n]
    if shape.groups > 1:
        g, o = stage.split(o, factor=shape.co_group)
        lead.append(g)
    bo, o = stage.split(o, factor=r.groups * r.own_channels)
    to, oi = stage.split(o, factor=r.own_channels)
    by, yi = stage.split(y, factor=r.own_rows)
    bx, tx = stage.split(x, factor=r.x)
    tags = ("threadIdx.y", "threadIdx.x") if shape.channels_last else ("threadIdx.x", "threadIdx.y")
    threads = (tx, to) if shape.channels_last else (to, tx)
    inner = (yi, oi) if shape.channels_last else (oi, yi)
    stage.reorder(*lead, bo, by, bx, *threads, *inner)
    bind(stage, tx, tags[0])
    bind(stage, to, tags[1])
    (oh, ow), many = shape.out, shape.batch * shape.groups
    front = stage.fuse(*lead) if len(lead) > 1 else n
    plane = stage.fuse(by, bx)
    counts = (many, -(-shape.co_group // (r.groups * r.own_channels)),
              -(-oh // r.own_rows) * -(-ow // r.x))  # fmt: skip
    bind_blocks(stage, list(zip((front, bo, plane), counts, strict=True)))
    stage.unroll(inner[0])
    if shape.channels_last and r.own_channels > 1 and shape.co_group % r.own_channels == 0:
        stage.vectorize(oi)
    else:
        stage.unroll(inner[1])
    return threads[-1]


def _share(stage: Stage, shape: ConvShape, r: Rectangle, block: Block) -> None:
    """Copy a patch in the order in which it lies in memory."""
    _, _, c, y, x = stage.op.axis
    (sh, sw), (rh, rw) = shape.strides, shape.reach
    extents = {c: r.channels, y: (r.own_rows - 1) * sh + rh, x: (r.x - 1) * sw + rw}
    order = (y, x, c) if shape.channels_last else (c, y, x)
    stage.reorder(*stage.op.axis[:2], *order)
    copy_together(stage, order, [extents[a] for a in order], block)


def _share_weights(stage: Stage, shape: ConvShape, r: Rectangle, block: Block) -> None:
    """Copy weights: channels first, they lie side by side along the window."""
    _, c, ry, rx, o = stage.op.axis
    extents = {c: r.channels, o: r.groups * r.own_channels}
    extents |= dict(zip((ry, rx), shape.window, strict=True))
    order = (ry, rx, c, o) if shape.channels_last else (o, c, ry, rx)
    stage.reorder(stage.op.axis[0], *order)
    copy_together(stage, order, [extents[a] for a in order], block)
    if not shape.channels_last:
        stage.storage_align(rx, 32, 4)
