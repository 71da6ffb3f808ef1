"""im2col with the channels first: tiles of channels by vectors of pixels, numbered through.

    for blocks of pixels:                                # or of channels ("columns.order")
        columns[j, rc, ry, rx, l] = data[rc, y(j, l) * sh + ry - ph, x(j, l) * sw + rx - pw]
        for panels of channels, vectors of pixels of the block:
            acc[cr, nr] += packed[o, rc, ry, rx, cr] * columns[j, rc, ry, rx, l]
        conv[o, p] = acc

Weights are broadcast and meet vectors of pixels, which go on from one row of the image to the next:
an image of 7x7 is 49 pixels, six vectors and a bit. The copy of a panel of pixels is read once for
each panel of channels; a 1x1 window at stride 1 may read the image itself. One at a larger stride
meets a few of the pixels, which are first picked out in whole vectors:

    picked[c, y, x] = data[c, y * sh, x * sw]
"""

from __future__ import annotations

from collections.abc import Callable
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
from whet.search_spaces.rules.cpu.conv.padded_image import vectorize_line
from whet.search_spaces.rules.cpu.conv.weights import Storing, pack, panels
from whet.search_spaces.rules.cpu.gemm.gemm import flattened
from whet.search_spaces.rules.cpu.gemm.stages import or_zero, within
from whet.search_spaces.rules.vectors import lanes_of, register_tile

_CHANNELS = [(m,) for m in (*range(1, 15), 16, 20, 24, 28)]
_BLOCKS = (1, 2, 4, 8, 16, 32)


def space(shape: ConvShape, target: Target) -> Space:
    """The knobs ``columns.*``."""
    lanes = lanes_of(target, shape.dtype)
    pixels = prod(shape.out)
    # What is read in place has to be whole vectors: others would be gathered lane by lane.
    in_place = shape.picked.is_pointwise and not pixels % lanes
    choices: Choices = {
        "tile": channel_tiles(target, lanes, _CHANNELS, (shape.co,), pixels),
        "order": ["pixels", "channels"],
        "block": [b for b in _BLOCKS if b == 1 or b < max(pixels // lanes, shape.co)],
        "copy": [True, False] if in_place else [True],
        "unroll": [u for u in (1, 2, 4) if shape.ci % u == 0],
    }
    filters: list[Callable[[Any], bool]] = [partial(_whole_tiles, pixels=pixels)] * in_place
    if shape.picked is not shape:
        choices = {**choices, "pick": [True, False]}
        filters += [_reads_picked] * in_place
    return Space("columns.", choices, tuple(filters))


@dataclass(frozen=True, eq=False)
class Columns:
    """The stages of a convolution under the knobs of :func:`space`.

    Attributes:
        cfg: has the knobs.
        panels: the weights. picked: the pixels that a strided 1x1 window meets, or None.
        columns: the copy of the image, or None.
        flat: the sums, pixels numbered through. conv: the result.
    """

    cfg: Prefixed
    panels: Tensor
    picked: Tensor | None
    columns: Tensor | None
    flat: Tensor
    conv: Tensor

    @property
    def copied(self) -> bool:
        """True if the image is copied, so that each pixel is read about once."""
        return False

    @staticmethod
    def of(cfg: Prefixed, given: ConvOperands, name: str) -> Columns:
        """The computation.

        Args:
            given: the operands, the image (N, C, spatial ...).
            name: of the result.
        """
        shape, data, picked = given.form.shape, given.data, None
        if shape.picked is not shape and cfg["columns.pick"].val:
            data = picked = _picked(shape, data)
            shape = shape.picked
        mr, nr = cfg["columns.tile"].val
        pixels, extents = prod(shape.out), (*shape.window, shape.ci)

        def weight(o: Any, *step: Any) -> Any:
            return given.weight(o, step[-1], *step[:-1])

        weights = panels(weight, shape.co, extents, mr)
        steps = [te.reduce_axis((0, n), name=f"r{k}") for k, n in enumerate(extents)]
        columns = _columns(shape, data, nr) if cfg["columns.copy"].val else None

        def product(b: Any, o: Any, p: Any) -> Any:
            if columns is None:
                one = data(b, steps[-1], *_place(shape, p))
            else:
                one = columns(b, p // nr, *steps, p % nr)
            return te.sum(one * weights(o // mr, *steps, o % mr), axis=steps)

        flat = te.compute((shape.batch, shape.co, pixels), product, name="product")
        conv = te.compute(
            shape.result_shape,
            lambda b, o, *place: flat(b, o, flattened([*place], [*shape.out])),
            name=name,
        )
        return Columns(cfg, weights, picked, columns, flat, conv)

    def schedule(self, s: Schedule, how: Storing) -> None:
        """Schedule all stages but the inlined ones."""
        cfg, columns = self.cfg, self.columns
        is_pixels = cfg["columns.order"].val == "pixels"
        outer, tile = _loops(how.out, cfg, is_pixels, how.threads.parallel)
        stage = s[self.flat]
        stage.set_scope("local")
        stage.compute_at(how.out, tile)
        *window, channel = stage.op.reduce_axis
        channel, inner = stage.split(channel, factor=cfg["columns.unroll"].val)
        b, *own = stage.op.axis
        register_tile(stage, [b, *window, channel], [inner, *own])
        how.threads.run(how.out, outer)
        pack(s, self.panels, how)
        if self.picked is not None:
            axes = self.picked.op.axis
            vectorize_line(s[self.picked], axes[-1])
            if how.threads.parallel:
                s[self.picked].parallel(s[self.picked].fuse(*axes[:-1]))
        if columns is not None:
            s[columns].vectorize(columns.op.axis[-1])
            if is_pixels:
                s[columns].compute_at(how.out, outer)
            elif how.threads.parallel:
                s[columns].parallel(s[columns].fuse(*columns.op.axis[:2]))


def _picked(shape: ConvShape, data: Tensor) -> Tensor:
    """The pixels that a strided 1x1 window meets."""

    def element(b: Any, c: Any, *out: Any) -> Any:
        place = [i * n - first for i, n, first in zip(out, shape.strides, shape.before)]
        return or_zero(data(b, c, *place), within(place, shape))

    return te.compute((shape.batch, shape.ci, *shape.out), element, name="picked")


def _place(shape: ConvShape, p: Any) -> list[Any]:
    """Where pixel ``p`` of the result is."""
    place: list[Any] = []
    for n in reversed(shape.out):
        place.insert(0, p % n)
        p = p // n
    return place


def _columns(shape: ConvShape, data: Tensor, nr: int) -> Tensor:
    """The pixels that the windows of ``nr`` neighbours cover: [panels][window ...][C][nr]."""
    pixels = prod(shape.out)

    def element(b: Any, j: Any, *rest: Any) -> Any:
        *window, c, lane = rest
        p = j * nr + lane
        place = [
            i * n + r * d - first
            for i, n, r, d, first in zip(
                _place(shape, p), shape.strides, window, shape.dilation, shape.before
            )
        ]
        tests = [p < pixels] if pixels % nr else []
        return or_zero(data(b, c, *place), tests + within(place, shape))

    extents = (shape.batch, -(-pixels // nr), *shape.window, shape.ci, nr)
    return te.compute(extents, element, name="columns")


def _loops(out: Stage, cfg: Any, is_pixels: bool, share: bool) -> tuple[IterVar, IterVar]:
    """The result's loops, pixels or channels outermost: the outermost one, and that over tiles.

    Args:
        share: put the images in the outermost loop, so that threads share them, too.
    """
    mr, nr = cfg["columns.tile"].val
    b, o, *place = out.op.axis
    oo, oi = out.split(o, factor=mr)
    po, pi = out.split(out.fuse(*place) if len(place) > 1 else place[0], factor=nr)
    first, second = (po, oo) if is_pixels else (oo, po)
    outer, tile = out.split(first, factor=cfg["columns.block"].val)
    register_tile(out, [b, outer, second, tile], [oi, pi])
    return out.fuse(b, outer) if share else outer, tile


def _reads_picked(c: Any) -> bool:
    """What is read in place is read pixel by pixel, or picked."""
    return bool(c["copy"].val or c["pick"].val)


def _whole_tiles(c: Any, pixels: int) -> bool:
    """An image that is read in place has whole tiles of pixels."""
    return c["copy"].val or pixels % c["tile"].val[1] == 0
