"""im2col with the channels first: tiles of channels by vectors of pixels, numbered through.

    for blocks of pixels:                                # or of channels ("columns.order")
        columns[j, rc, ry, rx, l] = data[rc, y(j, l) * sh + ry - ph, x(j, l) * sw + rx - pw]
        for panels of channels, vectors of pixels of the block:
            acc[cr, nr] += packed[o, rc, ry, rx, cr] * columns[j, rc, ry, rx, l]
        conv[o, p] = acc

Weights are broadcast and meet vectors of pixels, which go on from one row of the image to the next:
an image of 7x7 is 49 pixels, six vectors and a bit. The copy of a panel of pixels is read once for
each panel of channels; a 1x1 window at stride 1 may read the image itself.
"""

from __future__ import annotations

from functools import partial, reduce
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.operators.cpu.conv.tiles import channel_tiles
from whet.search_spaces.operators.cpu.conv.weights import pack, panels
from whet.search_spaces.operators.cpu.gemm.stages import on_threads, or_zero, with_epilogue, within
from whet.search_spaces.rules.vectors import lanes_of, register_tile

_CHANNELS = [(m,) for m in (*range(1, 15), 16, 20, 24, 28)]
_BLOCKS = (1, 2, 4, 8, 16, 32)


def define(cfg: Any, shape: ConvShape, target: Target) -> None:
    """Define the knobs ``columns.*``."""
    lanes = lanes_of(target, shape.dtype)
    pixels = prod(shape.out)
    tiles = channel_tiles(target, lanes, _CHANNELS, (shape.co,), pixels)
    cfg.define_knob("columns.tile", tiles, default=tiles[0])
    cfg.define_knob("columns.order", ["pixels", "channels"], default="pixels")
    blocks = [b for b in _BLOCKS if b == 1 or b < max(pixels // lanes, shape.co)]
    cfg.define_knob("columns.block", blocks, default=1)
    # What is read in place has to be whole vectors: others would be gathered lane by lane.
    in_place = shape.is_pointwise and not pixels % lanes
    cfg.define_knob("columns.copy", [True, False] if in_place else [True])
    if in_place:
        cfg.multi_filter(partial(_whole_tiles, pixels=pixels))
    cfg.define_knob("columns.unroll", [u for u in (1, 2, 4) if shape.ci % u == 0], default=1)


def schedule(
    cfg: Any, shape: ConvShape, data: Tensor, weight: Tensor, epilogue: tuple, packed: bool
) -> tuple[Schedule, list[Tensor]]:
    """The schedule under the knobs ``columns.*``, and its arguments.

    Args:
        data, weight: (N, C, spatial ...) and (O, I, window ...).
        epilogue: applied to the result's tiles as they are stored.
        packed: pack the weights ahead of the kernel's calls.
    """
    mr, nr = cfg["columns.tile"].val
    pixels, extents = prod(shape.out), (*shape.window, shape.ci)
    weights = panels(lambda o, *step: weight(o, step[-1], *step[:-1]), shape.co, extents, mr)
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
        lambda b, o, *place: flat(
            b, o, reduce(lambda p, at: p * at[0] + at[1], zip(shape.out[1:], place[1:]), place[0])
        ),
        name="conv",
    )
    s, out, extras = with_epilogue(conv, epilogue, channel_axis=1)
    is_pixels = cfg["columns.order"].val == "pixels"
    outer, tile = _loops(s[out], cfg, is_pixels)
    stage = s[flat]
    stage.set_scope("local")
    stage.compute_at(s[out], tile)
    *window, channel = steps
    channel, inner = stage.split(channel, factor=cfg["columns.unroll"].val)
    b, *own = stage.op.axis
    register_tile(stage, [b, *window, channel], [inner, *own])
    parallel = on_threads(s[out], outer, cfg)
    pack(s, weights, packed, parallel)
    if columns is not None:
        s[columns].vectorize(columns.op.axis[-1])
        if is_pixels:
            s[columns].compute_at(s[out], outer)
        elif parallel:
            s[columns].parallel(columns.op.axis[1])
    return s, [data, weight, *extras, out]


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


def _loops(out: Stage, cfg: Any, is_pixels: bool) -> tuple[IterVar, IterVar]:
    """The result's loops, pixels or channels outermost: the outermost one, and that over tiles."""
    mr, nr = cfg["columns.tile"].val
    b, o, *place = out.op.axis
    oo, oi = out.split(o, factor=mr)
    po, pi = out.split(out.fuse(*place) if len(place) > 1 else place[0], factor=nr)
    first, second = (po, oo) if is_pixels else (oo, po)
    outer, tile = out.split(first, factor=cfg["columns.block"].val)
    register_tile(out, [b, outer, second, tile], [oi, pi])
    return outer, tile


def _whole_tiles(c: Any, pixels: int) -> bool:
    """An image that is read in place has whole tiles of pixels."""
    return c["columns.copy"].val or pixels % c["columns.tile"].val[1] == 0
