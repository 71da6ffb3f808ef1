"""Convolutions as products of matrices that are never made: a tile of one is read as it is needed.

    channels first:  result (CO, pixels)  = weights (CO, steps)    x windows (steps, pixels)
    channels last:   result (pixels, CO)  = windows (pixels, steps) x weights (steps, CO)

The steps of the sum are the channels, for each place of the window one after the other ("loops"),
or channels and places together ("steps"): then tiles are fetched ahead without a break, and weights
lie side by side with the channels first, too, but each pixel's address is worked out anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.operators.gpu.matmul import store_rows
from whet.search_spaces.rules.gpu.contraction.gemm import Factor, added, sums_of
from whet.search_spaces.rules.gpu.contraction.gemm_loops import (
    Result,
    schedule_parts,
    schedule_sums,
)
from whet.search_spaces.rules.gpu.contraction.gemm_plan import STEPS, TILES, Plan, Product, Tile
from whet.search_spaces.rules.gpu.lanes import lanes_of, summed_in

# With fewer channels than this, blocks of steps would be mostly zeros.
_FEW = 6
# Registers for addresses, and what a copy costs in multiply-adds: of pixels as they lie in memory,
# of windows, whose places and edges are worked out for each copy, and of those whose steps are
# counted through the window, too.
_PLAIN, _WINDOWS, _COUNTED = (30, 5.6), (42, 9.0), (42, 24.0)


@dataclass(frozen=True)
class Steps:
    """How the steps of a convolution's sum are counted.

    Attributes:
        shape: the convolution.
        together: whether a step is a channel and a place of the window; else there is a loop over
            the places around them.
    """

    shape: ConvShape
    together: bool

    @property
    def outer(self) -> tuple[tuple[str, int], ...]:
        """Loops over the window around the steps."""
        if self.together or self.shape.window == (1, 1):
            return ()
        return tuple(zip(("ry", "rx"), self.shape.window, strict=True))

    @property
    def count(self) -> int:
        """The steps."""
        return self.shape.ci_group * (prod(self.shape.window) if self.together else 1)

    def parts(self, outer: tuple, step: Any, lanes: int, lane: Any) -> tuple[Any, Any, Any]:
        """A step's channel and its place in the window; ``step`` counts vectors of channels."""
        if not self.together:
            ry, rx = outer or (0, 0)
            return step * lanes + lane, ry, rx
        kh, kw = self.shape.window
        if self.shape.channels_last:
            per = self.shape.ci_group // lanes
            place = step // per
            return step % per * lanes + lane, place // kw, place % kw
        k = step * lanes + lane
        return k // (kh * kw), k // kw % kh, k % kw


def implicit_steps(shape: ConvShape) -> Steps:
    """The steps that a plan cuts: channels, or with few of them channels and places together."""
    return Steps(shape, shape.ci_group < _FEW and prod(shape.window) > 1)


def implicit_of(shape: ConvShape) -> Product:
    """A convolution as a product."""
    steps = implicit_steps(shape)
    sides = (shape.co_group, shape.batch * prod(shape.out))
    rows, columns = reversed(sides) if shape.channels_last else sides
    windows = _COUNTED if steps.together else _WINDOWS
    others, copying = _PLAIN if shape.is_pointwise else windows
    outer = prod(extent for _, extent in steps.outer)
    size = dt.itemsize(summed_in(shape.dtype))
    return Product(shape.groups, rows, columns, steps.count, outer, size, others, copying)


def define_steps(cfg: Any, define: Any, shape: ConvShape) -> Steps:
    """Define the knob that says how steps are counted, where there is a choice, and read it.

    Args:
        cfg: what the template talks to.
        define: what the knob is defined through.
    """
    steps = implicit_steps(shape)
    if not steps.outer:
        return steps
    order = "steps" if shape.channels_last else "loops"
    define.define_knob("window", ["loops", "steps"], default=order)
    return Steps(shape, cfg["window"].val == "steps")


def implicit_tiles(shape: ConvShape) -> list[Tile]:
    """Tiles of blocks and threads; those of a group's channels are whole: others hang over into
    the next group."""
    along = 1 if shape.channels_last else 0
    return [t for t in TILES if shape.groups == 1 or shape.co_group % t[along] == 0]


def implicit_product(
    plan: Plan, steps: Steps, data: Tensor, weight: Tensor, epilogue: Epilogue
) -> tuple[Schedule, list[Tensor]]:
    """The schedule of a convolution as a product, and the kernel's arguments."""
    shape = steps.shape
    summed = summed_in(shape.dtype)
    lead = (shape.groups,) if shape.groups > 1 else ()
    pixels = shape.batch * prod(shape.out)
    left, right = _weights(steps, weight), _windows(steps, data, pixels)
    if shape.channels_last:
        left, right = right, left
    sums = sums_of(left, right, lead, steps.outer, steps.count, plan, summed)
    total = added(sums, plan)
    plain = _result(shape, total)
    out, extras = epilogue.apply(plain, shape.channel_axis, stored=shape.dtype)
    s = te.create_schedule(out.op)
    if out.op is not plain.op:
        s[plain].compute_inline()
    loops = _loops(shape, s[out], plan)
    if sums.partial is None:
        schedule_sums(s, sums, plan, loops)
    else:
        store_rows(s, sums, plan, sums.partial)
        front = [axis for axis, _ in loops.lead]
        every = [*front, loops.rows, loops.columns]
        schedule_parts(s, total, s[out], every, loops.lanes)
    return s, [data, weight, *extras, out]


def _weights(steps: Steps, weight: Tensor) -> Factor:
    """The weights: channels last they lie side by side along the result, else along the steps."""
    shape = steps.shape

    def channel(x: tuple, place: Any) -> Any:
        return x[0] * shape.co_group + place if x else place

    if shape.channels_last:
        many = lanes_of(shape.dtype, shape.co_group, 8)

        def from_hwio(x: tuple, outer: tuple, place: Any, step: Any, lane: Any) -> Any:
            c, ry, rx = steps.parts(outer, step, 1, 0)
            return weight(ry, rx, c, channel(x, place * many + lane))

        return Factor("weight", shape.co_group, many, False, from_hwio)
    side_by_side = steps.together or shape.window == (1, 1)
    lanes = lanes_of(shape.dtype, steps.count, STEPS[0]) if side_by_side else 1

    def from_oihw(x: tuple, outer: tuple, place: Any, step: Any, lane: Any) -> Any:
        c, ry, rx = steps.parts(outer, step, lanes, lane)
        return weight(channel(x, place), c, ry, rx)

    return Factor("weight", shape.co_group, lanes, True, from_oihw)


def _windows(steps: Steps, data: Tensor, pixels: int) -> Factor:
    """The pixels that each pixel of the result reads, zero outside the image."""
    shape = steps.shape
    (oh, ow), (sh, sw), (dh, dw) = shape.out, shape.strides, shape.dilation
    (h, w), (top, left) = shape.image, shape.before
    if shape.channels_last:
        lanes = lanes_of(shape.dtype, shape.ci_group, STEPS[0])
    else:
        lanes = lanes_of(shape.dtype, oh * ow, 8) if shape.is_pointwise else 1

    def read(x: tuple, outer: tuple, place: Any, step: Any, lane: Any) -> Any:
        if shape.channels_last:
            c, ry, rx = steps.parts(outer, step, lanes, lane)
            image, pixel = place // (oh * ow), place % (oh * ow)
        else:
            c, ry, rx = steps.parts(outer, step, 1, 0)
            per = oh * ow // lanes
            image, pixel = place // per, place % per * lanes + lane
        channel = x[0] * shape.ci_group + c if x else c
        row, column = pixel // ow * sh + ry * dh - top, pixel % ow * sw + rx * dw - left
        index = (row, column, channel) if shape.channels_last else (channel, row, column)
        value = data(image, *index)
        if not shape.is_padded:
            return value
        inside = te.all(row >= 0, row < h, column >= 0, column < w)
        return te.if_then_else(inside, value, te.const(0, data.dtype))

    return Factor("data", pixels, lanes, shape.channels_last, read)


def _result(shape: ConvShape, total: Tensor) -> Tensor:
    """The sums in the layout of the result."""
    oh, ow = shape.out

    def element(*index: Any) -> Any:
        if shape.channels_last:
            n, y, x, o = index
        else:
            n, o, y, x = index
        pixel = (n * oh + y) * ow + x
        lead = (o // shape.co_group,) if shape.groups > 1 else ()
        own = o % shape.co_group if shape.groups > 1 else o
        return total(*lead, *((pixel, own) if shape.channels_last else (own, pixel)))

    return te.compute(shape.result_shape, element, name="conv")


def _loops(shape: ConvShape, stage: Stage, plan: Plan) -> Result:
    """The loops of the result as a matrix's."""
    run = plan.column_run
    lanes: IterVar | None = None
    lead: list[tuple[IterVar, int]] = []
    pixels = shape.batch * prod(shape.out)
    if shape.channels_last:
        n, y, x, o = stage.op.axis
        if shape.groups > 1:
            g, o = stage.split(o, factor=shape.co_group)
            lead = [(g, shape.groups)]
        if run > 1 and shape.co_group % run == 0:
            o, lanes = stage.split(o, factor=run)
        counts = (pixels, shape.co_group)
        return Result(stage, lead, stage.fuse(n, y, x), o, lanes, counts)
    n, o, y, x = stage.op.axis
    if shape.groups > 1:
        g, o = stage.split(o, factor=shape.co_group)
        lead = [(g, shape.groups)]
    pixel = stage.fuse(y, x)
    rest = []
    if run > 1 and prod(shape.out) % run == 0:
        pixel, lanes = stage.split(pixel, factor=run)
        rest = [lanes]
    stage.reorder(*(axis for axis, _ in lead), o, n, pixel, *rest)
    return Result(stage, lead, o, stage.fuse(n, pixel), lanes, (shape.co_group, pixels))
