"""Convolutions as implicit GEMM: a tile of the im2col matrix is read as it is needed.

    channels first:  result (CO, pixels)  = weights (CO, steps)    x windows (steps, pixels)
    channels last:   result (pixels, CO)  = windows (pixels, steps) x weights (steps, CO)

The K iterations are the channels, for each place of the window one after the other ("loops"),
or channels and places together ("steps"): then tiles are fetched ahead without a break, and weights
lie side by side with the channels first, too, but each pixel's address is worked out anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import dtype as dt
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
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.gpu.contraction.gemm import GemmStages, Operand, gemm_stages
from whet.search_spaces.rules.gpu.contraction.gemm_loops import (
    Result,
    store_result,
    vectors,
)
from whet.search_spaces.rules.gpu.contraction.gemm_plan import STEPS, TILES, GemmShape, Plan, Tile
from whet.search_spaces.rules.gpu.conv.operands import GpuConv
from whet.search_spaces.rules.gpu.hardware.lanes import lanes_of

# With fewer channels than this, blocks of steps would be mostly zeros.
_FEW = 6
# Registers for addresses, and what a copy costs in multiply-adds: of pixels as they lie in memory,
# of windows, whose places and edges are worked out for each copy, and of those whose steps are
# counted through the window, too.
_PLAIN, _WINDOWS, _COUNTED = (30, 5.6), (42, 9.0), (42, 24.0)


@dataclass(frozen=True)
class Steps:
    """The order of the K iterations of a convolution.

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


def implicit_gemm_shape(shape: ConvShape) -> GemmShape:
    """The sizes of a convolution as a GEMM."""
    steps = implicit_steps(shape)
    sides = (shape.co_group, shape.batch * prod(shape.out))
    rows, columns = reversed(sides) if shape.channels_last else sides
    windows = _COUNTED if steps.together else _WINDOWS
    others, copying = _PLAIN if shape.is_pointwise else windows
    outer = prod(extent for _, extent in steps.outer)
    size = dt.itemsize(summed_in(shape.dtype))
    return GemmShape(shape.groups, rows, columns, steps.count, outer, size, others, copying)


def define_steps(knobs: Prefixed, shape: ConvShape) -> Steps:
    """Define the knob that says how steps are counted, where there is a choice, and read it.

    Args:
        knobs: where it is defined.
    """
    steps = implicit_steps(shape)
    if not steps.outer:
        return steps
    order = "steps" if shape.channels_last else "loops"
    return Steps(shape, knobs.choose("window", ("loops", "steps"), order) == "steps")


def implicit_tiles(shape: ConvShape) -> list[Tile]:
    """Tiles of blocks and threads; they divide a group's channels: others would
    reach into the next group."""
    along = 1 if shape.channels_last else 0
    return [t for t in TILES if shape.groups == 1 or shape.co_group % t[along] == 0]


@dataclass(frozen=True, eq=False)
class Implicit:
    """The stages of a convolution as implicit GEMM.

    Attributes:
        shape: the convolution. sums: the tiles.
        conv: the result.
    """

    shape: ConvShape
    sums: GemmStages
    conv: Tensor

    @staticmethod
    def stages(of: GpuConv, plan: Plan, steps: Steps) -> Implicit:
        """The stages under a config."""
        shape = steps.shape
        lead = (shape.groups,) if shape.groups > 1 else ()
        pixels = shape.batch * prod(shape.out)
        left, right = _weights(steps, of), _windows(steps, of.data, pixels)
        if shape.channels_last:
            left, right = right, left
        sums = gemm_stages(left, right, lead, steps.outer, steps.count, plan, of.kind)
        oh, ow = shape.out

        def element(*index: Any) -> Any:
            n, o, y, x = channels_first(shape, index)
            group, own = split_channel(shape, o)
            places = in_layout(shape, own, (n * oh + y) * ow + x)
            return sums.total(*((group,) if lead else ()), *places).astype(of.dtype)

        return Implicit(shape, sums, te.compute(shape.result_shape, element, name=of.name))

    def schedule(self, s: Schedule, out: Stage) -> None:
        """Schedule the stages, and the one that stores the result."""
        store_result(s, self.sums, _loops(self.shape, out, self.sums.plan))


def _weights(steps: Steps, of: GpuConv) -> Operand:
    """The weights, which lie side by side along the result or along the steps."""
    shape = steps.shape
    along_steps = not of.channels_inside
    lanes = _lanes_along(steps, of) if along_steps else 1
    if not along_steps and of.strides()[0] == 1:
        lanes = lanes_of(shape.dtype, shape.co_group, 8)

    def read(x: tuple, outer: tuple, place: Any, step: Any, lane: Any) -> Any:
        if along_steps:
            c, ry, rx = steps.parts(outer, step, lanes, lane)
        else:
            c, ry, rx = steps.parts(outer, step, 1, 0)
            place = place * lanes + lane
        out = channel_of(shape, x[0] if x else 0, shape.co_group, place)
        return of.weight(out, c, ry, rx)

    return Operand("weight", shape.co_group, lanes, along_steps, read)


def _lanes_along(steps: Steps, of: GpuConv) -> int:
    """The weights that lie side by side along the steps."""
    shape = steps.shape
    _, c, ry, rx = of.strides()
    if shape.channels_last or not steps.together:
        return lanes_of(shape.dtype, shape.ci_group, STEPS[0]) if c == 1 else 1
    kh, kw = shape.window
    if (c, ry, rx) == (kh * kw, kw, 1):
        return lanes_of(shape.dtype, steps.count, STEPS[0])
    return 1


def _windows(steps: Steps, data: Tensor, pixels: int) -> Operand:
    """The pixels that each pixel of the result reads, zero outside the image."""
    shape = steps.shape
    (oh, ow), (sh, sw), (dh, dw) = shape.out, shape.strides, shape.dilation
    top, left = shape.before
    if shape.channels_last:
        lanes = lanes_of(shape.dtype, shape.ci_group, STEPS[0])
    else:
        lanes = lanes_of(shape.dtype, oh * ow, 8) if shape.is_pointwise else 1

    def read(x: tuple, outer: tuple, place: Any, step: Any, lane: Any) -> Any:
        if shape.channels_last:
            c, ry, rx = steps.parts(outer, step, lanes, lane)
            image, at = place // (oh * ow), place % (oh * ow)
        else:
            c, ry, rx = steps.parts(outer, step, 1, 0)
            per = oh * ow // lanes
            image, at = place // per, place % per * lanes + lane
        channel = channel_of(shape, x[0] if x else 0, shape.ci_group, c)
        row, column = at // ow * sh + ry * dh - top, at % ow * sw + rx * dw - left
        padded = shape.is_padded
        return pixel(shape, data, (image, channel, row, column), data.dtype, padded=padded)

    return Operand("data", pixels, lanes, shape.channels_last, read)


def _loops(shape: ConvShape, stage: Stage, plan: Plan) -> Result:
    """The loops of the result as a matrix's."""
    n, o, y, x = channels_first(shape, stage.op.axis)
    groups, o = split_groups(shape, stage, o)
    lead = [(g, shape.groups) for g in groups]
    pixels = shape.batch * prod(shape.out)
    if shape.channels_last:
        o, lanes = vectors(stage, o, shape.co_group, plan)
        counts = (pixels, shape.co_group)
        return Result(stage, lead, stage.fuse(n, y, x), o, lanes, counts)
    plane, lanes = vectors(stage, stage.fuse(y, x), prod(shape.out), plan)
    stage.reorder(*groups, o, n, plane, *lanes)
    return Result(stage, lead, o, stage.fuse(n, plane), lanes, (shape.co_group, pixels))
