"""Winograd's algorithm for 3x3 convolutions of stride 1: blocks of tiles, register tiles.

    for tb:                                           # a block of T tiles of m x m pixels
        for t, c:   pixels[u, v, t, c] = B^T patch B  # sums unrolled, lanes along the channels
        for u, v:                                     # (m + 2)^2 products of matrices
            for panels of filters, mr of the tiles:
                acc[mr, nr] += pixels[u, v, t, k] * filters[u, v, p, k, l]
        for t, o:   conv = A^T products A             # with the epilogue, straight into the result

A block's pixels and products stay in the L2 cache; the transformed weights, which grow by
((m + 2) / 3)^2, are read once a block. Threads share the blocks; or, where there are too few of
them, as of a small image of many channels, each of the three stages on its own: the pixels' tiles
and channels, the panels of all products, the tiles and channels of the result.

Rounding errors grow with m. On ResNet-50's four shapes (64 channels at 56x56, 128 at 28, 256 at
14, 512 at 7; data and weights in [-1, 1]), the largest error against float64, as a share of the
results' root mean square, and of what a measurement admits beside exact numbers, 1e-4 of the root
mean square and 1e-4 of each number (``python benchmarks/winograd_error.py``):

    direct     1.0e-6 to 1.7e-6    0.01
    F(2x2)     1.5e-6 to 4.5e-6    0.01 to 0.03
    F(4x4)     0.7e-5 to 1.8e-5    0.05 to 0.13
    F(6x6)     4.4e-5 to 1.1e-4    0.34 to 0.66  (kernels; the command models it by numpy: half)

F(2x2) and F(4x4) are admitted with room to spare. F(6x6) is too near the limit to be told from a
wrong result by it, and is not among the algorithms that are tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.topi.nn.winograd import WINDOW, WinogradStages, conv2d_winograd
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv.estimate.channel_tiles import channel_tiles
from whet.search_spaces.rules.cpu.conv.estimate.space import Choices, Space
from whet.search_spaces.rules.cpu.conv.transposed import (
    image_last,
    schedule_transposed,
    weights_last,
)
from whet.search_spaces.rules.cpu.conv.weights import Storing
from whet.search_spaces.rules.cpu.gemm.loops import fused
from whet.search_spaces.rules.threads import NO_THREADS
from whet.search_spaces.rules.vectors import SIDES, lanes_of, register_tile

VARIANTS = (2, 4)
"""The m of F(m x m, 3 x 3) whose errors a measurement admits."""

_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def variants(shape: ConvShape) -> list[int]:
    """The m of F(m x m, 3 x 3) that can compute a convolution; none where Winograd cannot."""
    fits = (
        shape.window == (WINDOW, WINDOW)
        and shape.strides == (1, 1)
        and shape.dilation == (1, 1)
        and shape.groups == 1
        and shape.layout in ("NHWC", "NCHW")
        and not shape.is_empty
    )
    return list(VARIANTS) if fits else []


def space(shape: ConvShape, target: Target) -> Space:
    """The knobs ``winograd.*``, for all :func:`variants` of a shape."""
    counts = [_tiles(shape, m) for m in variants(shape)]
    lanes, most = lanes_of(target, shape.dtype), max(counts)
    rows = [(r,) for r in range(1, 29) if r <= most]
    tiles = channel_tiles(target, lanes, rows, (min(counts),), shape.co)
    choices: Choices = {
        "tile": tiles,
        "order": ["panels", "tiles"],
        "block": [b for b in _BLOCKS if b == 1 or (b - 1) * min(r for r, _ in tiles) < most],
        "unroll_k": [u for u in (1, 2, 4) if shape.ci % u == 0],
    }
    apart = "share" if target.num_threads > 1 else ""
    if apart:
        choices = {**choices, apart: ["blocks", "stages"]}
    return Space("winograd.", choices, (partial(_no_larger, most=most),), apart)


@dataclass(frozen=True, eq=False)
class Winograd:
    """The stages of a convolution under the knobs of :func:`space`.

    Attributes:
        cfg: has the knobs. shape: the convolution. m: of F(m x m, 3 x 3).
        block: tiles that are computed together. lanes: of a vector.
        image: with the channels first, the copy with the channels last; else None.
        weights: with the output channels last, and in the order that the stages read them in.
        stages: what is computed.
        conv: the result.
        share: what threads share, ``"blocks"`` or ``"stages"``.
    """

    cfg: Prefixed
    shape: ConvShape
    m: int
    block: int
    lanes: int
    image: Tensor | None
    weights: tuple[Tensor, Tensor]
    stages: WinogradStages
    conv: Tensor
    share: str = "blocks"

    @property
    def copied(self) -> bool:
        """True if the image is copied, so that each pixel is read about once."""
        return self.image is not None

    @property
    def by_stages(self) -> bool:
        """True if each stage is computed on its own, shared by threads."""
        return self.share == "stages"

    @staticmethod
    def of(cfg: Prefixed, given: ConvOperands, name: str, target: Target) -> Winograd:
        """The computation; the knob ``algorithm`` says which: ``"winograd4"`` is F(4x4, 3x3).

        Args:
            given: the operands. name: of the result. target: whose vectors.
        """
        shape, m = given.form.shape, int(cfg["algorithm"].val.removeprefix("winograd"))
        mr, nr = cfg["winograd.tile"].val
        block = min(cfg["winograd.block"].val, -(-_tiles(shape, m) // mr)) * mr
        (top, left), (bottom, right) = shape.before, shape.after

        image = None if shape.channels_last else image_last(given)
        own = weights_last(given)
        weights = te.compute(
            (*shape.window, shape.ci, shape.co), lambda y, x, c, o: own[c, y, x, o], name="taps"
        )
        data = given.data if image is None else image
        padding = (top, left, bottom, right)
        w = conv2d_winograd(data, weights, m, padding, "NHWC", block, nr, name=name)
        conv = w.conv
        if image is not None:
            conv = te.compute(shape.result_shape, lambda b, o, y, x: w.conv[b, y, x, o], name=name)
        lanes = lanes_of(target, shape.dtype)
        share = cfg["winograd.share"].val if target.num_threads > 1 else "blocks"
        return Winograd(cfg, shape, m, block, lanes, image, (own, weights), w, conv, share)

    def schedule(self, s: Schedule, how: Storing) -> None:
        """Schedule all stages but the inlined ones."""
        w, shape, lanes = self.stages, self.shape, self.lanes
        own, taps = self.weights
        s[taps].compute_inline()
        if self.image is None:
            s[own].compute_inline()
        else:
            s[w.conv].compute_inline()
            schedule_transposed(s, self.image, (1, 2), lanes, how.threads)
            alone = NO_THREADS if how.ahead else how.threads
            schedule_transposed(s, own, (0, 1, 2), lanes, alone)
        blocks, channels = _tiles_in_place(how.out, self, lanes)
        for tensor in (w.results, w.half):  # A^T over the columns, then over the rows of one tile
            stage = s[tensor]
            stage.compute_at(how.out, channels)
            stage.set_scope("local")
            b, t, i, j, o = stage.op.axis
            if tensor is w.half:
                stage.reorder(b, t, j, i, o)
            _unrolled(stage, i, j, o)
        products = _products(s, w, self.cfg, self.by_stages, how.ahead)
        pixels = _pixels(s, w, min(lanes, shape.ci), self.by_stages)
        for stage, first in ((s[w.products], products), (s[w.pixels], pixels)):
            if self.by_stages:
                how.threads.run(stage, first)
            else:
                stage.compute_at(how.out, blocks)
        _filters(s[w.filters], s[w.half_filters])
        if how.ahead:
            s[w.filters].compute_ahead()
        else:
            how.threads.run(s[w.filters], s[w.filters].op.axis[2])
        how.threads.run(how.out, blocks)


def _tiles_in_place(out: Stage, w: Winograd, lanes: int) -> tuple[Any, Any]:
    """The result's loops: blocks of tiles, channels, and a tile; returns those over the former.

    Where stages are shared, both are the one loop over tiles and channels.
    """
    shape, m = w.shape, w.m
    n, *place = out.op.axis
    o = place.pop(shape.channel_axis - 1)
    (yo, yi), (xo, xi) = (out.split(axis, factor=m) for axis in place)
    lanes = min(lanes, shape.co)
    oo, oi = out.split(o, factor=lanes)
    if shape.channels_last or lanes % m or m not in SIDES:
        out.reorder(n, yo, xo, oo, yi, xi, oi)
        _unrolled(out, yi, xi, oi)
    else:  # rows of the image, by squares of channels and pixels
        om, oi = out.split(oi, factor=m)
        out.reorder(n, yo, xo, oo, om, yi, oi, xi)
        _unrolled(out, yi, oi, xi)
    tiles = out.fuse(out.fuse(n, yo), xo)
    if w.by_stages:
        both = out.fuse(tiles, oo)
        return both, both
    blocks, _ = out.split(tiles, factor=w.block)
    return blocks, oo


def _products(s: Schedule, w: WinogradStages, cfg: Any, shared: bool, ahead: bool) -> Any:
    """Register tiles of the matrix products; where they are shared, one outermost loop of them.

    Args:
        ahead: whether the filters are a model's, and come from memory.
    """
    mr, nr = cfg["winograd.tile"].val
    stage = s[w.products]
    acc = s[s.cache_write(w.products, "local")]
    *lead, t, o = stage.op.axis
    (po, pi), (to, ti) = stage.split(o, factor=nr), stage.split(t, factor=mr)
    outer = [po, to] if cfg["winograd.order"].val == "panels" else [to, po]
    register_tile(stage, [*lead, *outer], [ti, pi])
    first = fused(stage, [*lead, outer[0]]) if shared else None
    if ahead:
        over = first if first is not None and outer[0] is po else po
        stage.prefetch(w.filters, over, 1, spread=True)
    acc.compute_at(stage, outer[-1])
    *lead, t, o = acc.op.axis
    (k,) = acc.op.reduce_axis
    ko, ki = acc.split(k, factor=cfg["winograd.unroll_k"].val)
    register_tile(acc, [*lead, ko], [ki, t, o])
    return first


def _pixels(s: Schedule, w: WinogradStages, lanes: int, shared: bool) -> Any:
    """B^T over the columns of a patch, each as soon as it is read, then over its rows.

    Where they are shared, returns the one loop over tiles and channels.
    """
    pixels, columns, patch = s[w.pixels], s[w.columns], s[w.patch]
    b, u, v, t, c = pixels.op.axis
    co, ci = pixels.split(c, factor=lanes)
    register_tile(pixels, [b, t, co], [u, v, ci])
    if shared:
        co = fused(pixels, [b, t, co])
    columns.compute_at(pixels, co)
    columns.set_scope("local")
    b, t, u, x, c = columns.op.axis
    columns.reorder(b, t, x, u, c)
    _unrolled(columns, u, x, c)
    patch.compute_at(columns, x)
    patch.set_scope("local")
    _unrolled(patch, *patch.op.axis[2:])
    return co


def _filters(filters: Stage, half: Stage) -> None:
    """The weights' transform, lanes along a panel."""
    u, v, p, c, i = filters.op.axis
    register_tile(filters, [p, c], [u, v, i])
    half.compute_at(filters, c)
    half.set_scope("local")
    u, x, p, c, i = half.op.axis
    half.reorder(p, c, x, u, i)
    _unrolled(half, u, x, i)


def _unrolled(stage: Stage, first: Any, second: Any, lane: Any) -> None:
    stage.unroll(first)
    stage.unroll(second)
    stage.vectorize(lane)


def _tiles(shape: ConvShape, m: int) -> int:
    """How many tiles of m by m results there are."""
    oh, ow = shape.out
    return shape.batch * -(-oh // m) * -(-ow // m)


def _no_larger(c: Any, most: int) -> bool:
    """A block is no larger than what there is."""
    return (c["block"].val - 1) * c["tile"].val[0] < most
