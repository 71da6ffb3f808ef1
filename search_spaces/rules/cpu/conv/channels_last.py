"""Convolutions with the channels last, direct and im2col: tiles of pixels by vectors of channels.

    padded[y, i] = data[y - ph, i // CI - pw, i % CI]        # where there is padding
    for blocks of pixels:                                    # "order" pixels; or blocks of panels
        columns[p, ry, q] = padded[y(p) * sh + ry, x(p) * sw * CI + q]          # im2col only
        for panels of channels, for the block's tiles of pixels:
            for ry, q:                                       # a row of the window, its places
                acc[mr, nr] += padded[y(p) * sh + ry, x(p) * sw * CI + q] * packed[j, ry, q, l]
            conv[p, j] = acc

A pixel is broadcast and meets vectors of weights. The tile's pixels go on from one row of the image
to the next; each has an address of its own, which the loops over the window share an offset to. So
the image is read where it is, and im2col's copy pays only where a window's rows are short.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv.estimate.channel_tiles import channel_tiles
from whet.search_spaces.rules.cpu.conv.estimate.space import Choices, Space
from whet.search_spaces.rules.cpu.conv.layouts import Steps
from whet.search_spaces.rules.cpu.conv.padded_image import (
    copy_lines,
    padded_lines,
    vectorize_line,
)
from whet.search_spaces.rules.cpu.conv.weights import At, Storing, pack
from whet.search_spaces.rules.vectors import lanes_of, register_tile

_PIXELS = [(m,) for m in (*range(1, 15), 16, 20, 24, 28)]
_BLOCKS = (1, 2, 4, 8, 16, 32, 64)


def space(shape: ConvShape, target: Target, block: int, prefix: str = "") -> Space:
    """The knobs of the direct algorithm and of im2col.

    Args:
        block: channels of a block of NCHWc; 0 for NHWC.
        prefix: of the knobs' names.
    """
    lanes = lanes_of(target, shape.dtype)
    pixels = shape.batch * prod(shape.out)
    run = block or shape.ci_group
    choices: Choices = {
        "tile": _tiles(shape, target, lanes, pixels, block),
        "order": ["panels", "pixels"],
        "block": [b for b in _BLOCKS if b == 1 or b < pixels],
        "unroll": [u for u in (1, 2, 4) if run % u == 0],
        "skip": [
            "none",
            *(n for k, n in enumerate(("rows", "columns")) if shape.is_padded_along(k)),
        ],
    }
    return Space(prefix, choices, (partial(_blocks_fit, pixels=pixels, channels=shape.co_group),))


@dataclass(frozen=True, eq=False)
class ChannelsLast:
    """The stages of a convolution under the knobs of :func:`space`.

    Attributes:
        cfg: has the knobs.
        steps: how the image is read. block: as of :func:`space`.
        panels: the weights. columns: of im2col, or None.
        product: the sums, pixel by pixel. conv: the result in its layout.
    """

    cfg: Prefixed
    steps: Steps
    block: int
    panels: Tensor
    columns: Tensor | None
    product: Tensor
    conv: Tensor

    @property
    def copied(self) -> bool:
        """True if the image is copied, so that each pixel is read about once."""
        return self.steps.padded is not None

    @staticmethod
    def of(
        cfg: Prefixed,
        given: ConvOperands,
        name: str,
        im2col: bool = False,
        weight: At | None = None,
    ) -> ChannelsLast:
        """The computation.

        Args:
            given: the operands: (N, H, W, C), or (N, C / block, H, W, block).
            name: of the result.
            im2col: copy the pixels that each window covers.
            weight: from an output channel, an input channel and a place in the window to a weight;
                None: the operand's.
        """
        shape, block = given.form.shape, given.form.block
        mr, nr = cfg["tile"].val
        padded = padded_lines(shape, given.data)
        steps = Steps(shape, given.data, padded, block or shape.ci, cfg["skip"].val, mr)
        panels = steps.panels(weight or given.weight, nr)
        columns = steps.columns() if im2col else None
        axes = steps.axes()

        def element(p: Any, o: Any) -> Any:
            read = steps.read(p, o, axes) if columns is None else columns(p, *axes)
            where = steps.meets(p, axes)
            return te.sum(read * panels(o // nr, *axes, o % nr), axis=axes, where=where)

        oh, ow = shape.out
        product = te.compute((shape.batch * oh * ow, shape.co), element, name="product")
        conv = steps.result(product, name)
        return ChannelsLast(cfg, steps, block, panels, columns, product, conv)

    def schedule(self, s: Schedule, how: Storing) -> None:
        """Schedule all stages but the inlined ones."""
        cfg, padded = self.cfg, self.steps.padded
        is_pixels = cfg["order"].val == "pixels"
        outer, second, tile = _loops(how.out, cfg, self.block, is_pixels)
        stage, unroll = s[self.product], cfg["unroll"].val
        stage.set_scope("local")
        stage.compute_at(how.out, tile)
        *outer_steps, last = stage.op.reduce_axis
        own = list(stage.op.axis)
        if unroll > 1:
            last, inner = stage.split(last, factor=unroll)
            own.insert(0, inner)
        register_tile(stage, [*outer_steps, last], own)
        if how.ahead:  # the next weights come from memory while these are at work
            how.out.prefetch(self.panels, second if is_pixels else outer, 1, spread=True)
        how.threads.run(how.out, outer)
        pack(s, self.panels, how)
        if padded is not None:
            copy_lines(s, padded, how.threads.parallel)
        if self.columns is not None and is_pixels:
            s[self.columns].compute_at(how.out, outer)
            vectorize_line(s[self.columns], self.columns.op.axis[-1])
        elif self.columns is not None:
            copy_lines(s, self.columns, how.threads.parallel)


def _loops(out: Stage, cfg: Any, block: int, is_pixels: bool) -> tuple[IterVar, IterVar, IterVar]:
    """The result's loops, pixels or channels outermost: over blocks, the others, and tiles."""
    mr, nr = cfg["tile"].val
    by_columns = cfg["skip"].val == "columns"
    if block:
        b, f, y, x, lane = out.op.axis
        y, x = (x, y) if by_columns else (y, x)
        out.reorder(b, y, x, f, lane)
        oo, fi = out.split(f, factor=nr // block)
        inside = [fi, lane]
        out.unroll(fi)
    else:
        b, y, x, o = out.op.axis
        y, x = (x, y) if by_columns else (y, x)
        out.reorder(b, y, x, o)
        oo, lane = out.split(o, factor=nr)
        inside = [lane]
    po, pi = out.split(out.fuse(b, y, x), factor=mr)
    first, second = (po, oo) if is_pixels else (oo, po)
    outer, tile = out.split(first, factor=cfg["block"].val)
    out.reorder(outer, second, tile, pi, *inside)
    out.unroll(pi)
    out.vectorize(lane)
    return outer, second, tile


def _tiles(
    shape: ConvShape, target: Target, lanes: int, pixels: int, block: int
) -> list[tuple[int, ...]]:
    """Register tiles (pixels, channels); those of groups and blocks hold whole ones."""
    per = shape.co_group
    if not block and shape.groups == 1:
        return channel_tiles(target, lanes, _PIXELS, (pixels,), per)
    unit = block or max(n for n in range(1, lanes + 1) if not per % n)
    for vector in (lanes, min(lanes, unit)):
        found = channel_tiles(target, vector, _PIXELS, (pixels,), per)
        whole = [t for t in found if not t[1] % unit and not per % t[1]]
        if whole:
            return whole
    return [(1, unit)]


def _blocks_fit(c: Any, pixels: int, channels: int) -> bool:
    """No block is much larger than the result."""
    mr, nr = c["tile"].val
    tiles = -(-pixels // mr) if c["order"].val == "pixels" else -(-channels // nr)
    return c["block"].val == 1 or c["block"].val < 2 * tiles
