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

from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.topi.half_precision import summed_in
from whet.search_spaces.forms.conv_layout import (
    channel_of,
    channels_first,
    in_layout,
    pixel,
    split_channel,
    split_groups,
)
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.rules.gpu.contraction.gemm import covered
from whet.search_spaces.rules.gpu.conv.operands import GpuConv
from whet.search_spaces.rules.gpu.conv.rectangle import Rectangle
from whet.search_spaces.rules.gpu.hardware.threads import (
    Block,
    attach,
    bind,
    bind_blocks,
    cooperative_load,
    unroll,
    vectorize_last,
)

# Windows of so many places are unrolled.
_UNROLLED = 9


@dataclass(frozen=True, eq=False)
class Direct:
    """The stages of a direct convolution.

    Attributes:
        of: the convolution. r: the choices of a config.
        patch, own, sums: what a block reads of the image and of the weights; a thread's sums.
        conv: the result.
    """

    of: GpuConv
    r: Rectangle
    patch: Tensor
    own: Tensor
    sums: Tensor
    conv: Tensor

    @staticmethod
    def stages(of: GpuConv, r: Rectangle) -> Direct:
        """The stages under a config."""
        shape = of.shape
        channels = covered(shape.ci_group, r.channels)
        patch = _patch(shape, r, of.data, channels)
        own = _weights(of, r, channels)
        sums = _sums(shape, r, patch, own)

        def element(*index: Any) -> Any:
            n, o, y, x = channels_first(shape, index)
            g, c = split_channel(shape, o)
            return sums(n, g, *in_layout(shape, c, y, x)).astype(of.dtype)

        conv = te.compute(shape.result_shape, element, name=of.name)
        return Direct(of, r, patch, own, sums, conv)

    def schedule(self, s: Schedule, out: Stage) -> None:
        """Schedule the stages, and the one that stores the result."""
        _schedule(self, s, out)


def _schedule(d: Direct, s: Schedule, out: Stage) -> None:
    shape, r, patch, own, sums = d.of.shape, d.r, d.patch, d.own, d.sums
    tile = s[sums]
    tile.set_scope("local")
    thread = _store(out, shape, r)
    tile.compute_at(out, thread)
    c, ry, rx = tile.op.reduce_axis
    outer, inner = tile.split(c, factor=r.channels)
    tile.reorder(outer, inner, rx, ry, *tile.op.axis)
    unroll(tile, tile.op.axis)
    if prod(shape.window) <= _UNROLLED:
        unroll(tile, (rx, ry))
    if r.own_channels > 1:
        read = s.cache_read(own, "local", [sums])
        s[read].compute_at(tile, ry)
        vectorize_last(s[read])
    if r.keeps_columns(shape):
        tile.unroll(ry)
        column = s.cache_read(patch, "local", [sums])
        s[column].compute_at(tile, rx)
        unroll(s[column], s[column].op.axis)
    block = Block(r.groups, r.x) if shape.channels_last else Block(r.x, r.groups)
    for stage in (patch, own):
        attach(s[stage], tile, outer, "shared")
    # each in the order in which it lies in memory: channels first, weights along the window
    *_, c, y, apart, x = s[patch].op.axis
    strided, columns = r.columns_read(shape)
    extents = in_layout(shape, r.channels, r.rows_read(shape), columns, strided)
    _share(s[patch], in_layout(shape, c, y, x, apart), extents, block)
    _, c, ry, rx, o = s[own].op.axis
    order = d.of.in_memory((o, c, ry, rx))
    extents = d.of.in_memory((r.groups * r.own_channels, r.channels, *shape.window))
    _share(s[own], order, extents, block)
    if order[-1] is not o:
        s[own].storage_align(rx, 32, 4)


def _patch(shape: ConvShape, r: Rectangle, data: Tensor, channels: int) -> Tensor:
    """The image with zeros around it and behind its last channel, as far as tiles reach."""
    (top, left), (sh, sw) = shape.before, shape.strides
    (oh, ow), per = shape.out, shape.ci_group
    rows = (covered(oh, r.own_rows) - 1) * sh + shape.reach[0]
    columns = covered(ow, r.x) + (shape.reach[1] - 1) // sw
    kind = summed_in(shape.dtype)

    def element(n: Any, g: Any, c: Any, y: Any, apart: Any, x: Any) -> Any:
        place = (n, channel_of(shape, g, per, c), y - top, x * sw + apart - left)
        return pixel(shape, data, place, kind, *([c < per] if channels != per else []))

    dims = (shape.batch, shape.groups, channels, rows, sw, columns)
    return te.compute(dims, element, name="patch")


def _weights(of: GpuConv, r: Rectangle, channels: int) -> Tensor:
    """The weights, a group's channels of the result innermost, zero behind the last of the data.

    Behind the last channel of the result is that one again, as far as tiles reach.
    """
    shape, kind = of.shape, of.kind
    whole = covered(shape.co_group, r.groups * r.own_channels)

    def element(g: Any, c: Any, ry: Any, rx: Any, o: Any) -> Any:
        o = o if whole == shape.co_group else te.min(o, shape.co_group - 1)
        out = channel_of(shape, g, shape.co_group, o)
        value = of.weight(out, c, ry, rx).astype(kind)
        if channels == shape.ci_group:
            return value
        return te.if_then_else(c < shape.ci_group, value, te.const(0, kind))

    return te.compute((shape.groups, channels, *shape.window, whole), element, name="weights")


def _sums(shape: ConvShape, r: Rectangle, patch: Tensor, own: Tensor) -> Tensor:
    """The sums of whole tiles, ``[n, group, y, x, o]`` or the channels before the pixels."""
    (sh, sw), (dh, dw), (oh, ow) = shape.strides, shape.dilation, shape.out
    c = te.reduce_axis((0, int(own.shape[1])), name="c")
    ry, rx = shape.window_axes()

    def element(n: Any, g: Any, *index: Any) -> Any:
        _, o, y, x = channels_first(shape, (n, *index))
        column = rx * dw
        value = patch(n, g, c, y * sh + ry * dh, column % sw, x + column // sw)
        return te.sum(value * own(g, c, ry, rx, o), [c, ry, rx])

    inner = in_layout(shape, int(own.shape[-1]), covered(oh, r.own_rows), covered(ow, r.x))
    return te.compute((shape.batch, shape.groups, *inner), element, name="tile")


def _store(stage: Stage, shape: ConvShape, r: Rectangle) -> IterVar:
    """Blocks and threads of the result; returns the loop of a thread."""
    n, o, y, x = channels_first(shape, stage.op.axis)
    groups, o = split_groups(shape, stage, o)
    lead = [n, *groups]
    bo, o = stage.split(o, factor=r.groups * r.own_channels)
    to, oi = stage.split(o, factor=r.own_channels)
    by, yi = stage.split(y, factor=r.own_rows)
    bx, tx = stage.split(x, factor=r.x)
    threads, inner = in_layout(shape, to, tx), in_layout(shape, oi, yi)
    stage.reorder(*lead, bo, by, bx, *threads, *inner)
    if shape.channels_last:
        bind(stage, y=tx, x=to)
    else:
        bind(stage, x=tx, y=to)
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


def _share(stage: Stage, order: tuple, extents: tuple, block: Block) -> None:
    """Copy what a block needs of a stage, its loops of these extents in this order."""
    stage.reorder(*(a for a in stage.op.axis if a not in order), *order)
    cooperative_load(stage, order, extents, block)
