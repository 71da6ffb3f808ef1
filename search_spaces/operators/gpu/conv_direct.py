"""Convolutions on a GPU the direct way: an image's patch in shared memory, read for each window.

    bind block:  # some channels of the result, a rectangle of its pixels
        for ko:  # some channels of the data
            P[c, y, x % sw, x / sw] = data[...] or 0
            W[c, ry, rx, o] = weight[...]
            for c, rx:
                Q[y] = P[c, y, ...]  # a column of the patch, in registers, for all ry
                for ry: T[o, y, x] += Q[y * sh + ry * dh] * W[c, ry, rx, o]

Channels first, neighbouring threads have neighbouring pixels of a row; channels last, channels.
Columns that a stride keeps apart stand apart in shared memory, so that neighbours are on different
banks.
"""

from __future__ import annotations

from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.operators.gpu.conv_rectangle import Rectangle
from whet.search_spaces.rules.gpu.contraction.gemm import covered
from whet.search_spaces.rules.gpu.lanes import summed_in
from whet.search_spaces.rules.gpu.threads import Block, bind, bind_blocks, copy_together

# Windows of so many places are written out.
_WRITTEN = 9


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
    s[sums].reorder(outer, inner, rx, ry, *s[sums].op.axis)
    for axis in s[sums].op.axis:
        s[sums].unroll(axis)
    if prod(shape.window) <= _WRITTEN:
        s[sums].unroll(rx)
        s[sums].unroll(ry)
    if r.own_channels > 1:
        read = s.cache_read(own, "local", [sums])
        s[read].compute_at(s[sums], ry)
        s[read].vectorize(s[read].op.axis[-1])
    if r.keeps_columns(shape):
        s[sums].unroll(ry)
        column = s.cache_read(patch, "local", [sums])
        s[column].compute_at(s[sums], rx)
        for axis in s[column].op.axis:
            s[column].unroll(axis)
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
    columns = covered(ow, r.x) + (shape.reach[1] - 1) // sw
    kind = summed_in(shape.dtype)

    def element(n: Any, g: Any, c: Any, y: Any, apart: Any, x: Any) -> Any:
        row, column = y - top, x * sw + apart - left
        channel = g * per + c if shape.groups > 1 else c
        index = (row, column, channel) if shape.channels_last else (channel, row, column)
        tests = [row >= 0, row < h, column >= 0, column < w]
        if channels != per:
            tests.append(c < per)
        value = data(n, *index).astype(kind)
        return te.if_then_else(te.all(*tests), value, te.const(0, kind))

    dims = (shape.batch, shape.groups, channels, rows, sw, columns)
    return te.compute(dims, element, name="patch")


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
        column = rx * dw
        pixel = patch(n, g, c, y * sh + ry * dh, column % sw, x + column // sw)
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
    _, _, c, y, apart, x = stage.op.axis
    extents = {c: r.channels, y: r.rows_read(shape)}
    extents |= dict(zip((apart, x), r.columns_read(shape), strict=True))
    order = (y, x, apart, c) if shape.channels_last else (c, y, x, apart)
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
