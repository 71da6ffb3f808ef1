"""How images with the channels last are read and written, pixel by pixel: NHWC and NCHWc.

Pixels of the result are numbered through, ``p = (n * OH + y) * OW + x``, so that a register tile
may go on from one row to the next: an image of 7x7 is 49 pixels, not seven rows of one tile each.
Or column by column, ``p = (n * OW + x) * OH + y``: a tile then has few columns, and the window's
columns that lie in the padding for all of them are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.rules.cpu.conv.estimate.kept import tests_across
from whet.search_spaces.rules.cpu.conv.skipping import met, zeros_met
from whet.search_spaces.rules.cpu.conv.weights import At, panels


@dataclass(frozen=True)
class Steps:
    """The terms that one element of the result sums up, and their places in the image.

    A row of the window is one run of pixels and their channels where they lie side by side; the
    steps of a sum are then (rows, run), and else (rows, columns, channels).

    Attributes:
        shape: the convolution.
        data: the image, (N, H, W, C) or (N, C / block, H, W, block).
        padded: its lines with zeros around them (:func:`~conv_image.padded_lines`), or None.
        block: channels of a block; of NHWC all of them.
        skip: the taps that are left out where a whole tile meets zeros: ``"none"``, of ``"rows"``,
            of ``"columns"``; pixels are numbered along these.
        tile: pixels of a tile.
    """

    shape: ConvShape
    data: Tensor
    padded: Tensor | None
    block: int
    skip: str = "none"
    tile: int = 1

    @property
    def is_blocked(self) -> bool:
        """True if the layout is NCHWc."""
        return self.shape.layout == "NCHWc"

    @property
    def in_runs(self) -> bool:
        """True if a row of the window is one run."""
        s = self.shape
        whole = self.is_blocked or s.groups == 1
        apart = self.skip == "columns" or s.dilation[1] > 1
        return whole and (not apart or s.window[1] == 1)

    @property
    def by_columns(self) -> bool:
        """True if pixels are numbered column by column."""
        return self.skip == "columns"

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the sum's steps: blocks of channels (NCHWc only), rows, columns, a run."""
        (kh, kw), s = self.shape.window, self.shape
        channels = self.block if self.is_blocked else s.ci_group
        blocks = (s.ci_group // self.block,) if self.is_blocked else ()
        return (*blocks, kh, 1, kw * channels) if self.in_runs else (*blocks, kh, kw, channels)

    def axes(self) -> list[IterVar]:
        """New axes of a sum."""
        names = ("rb", "ry", "rx", "rc")[-len(self.extents) :]
        return [te.reduce_axis((0, n), name=m) for n, m in zip(self.extents, names)]

    def read(self, p: Any, o: Any, steps: Any) -> Any:
        """The element of the image that pixel ``p`` of channel ``o`` meets at a step."""
        s = self.shape
        (oh, ow), (sh, sw), (dh, dw) = s.out, s.strides, s.dilation
        if self.skip != "none":
            p = te.min(p, s.batch * oh * ow - 1)  # a clamp of the axis would be in the test, too
        *before, ry, rx, r = steps
        group = s.group_of(o) if s.groups > 1 else 0
        width = max(1, self.block if self.is_blocked else s.ci)
        row, column = (p % oh, p // oh % ow) if self.by_columns else (p // ow % oh, p % ow)
        y = row * sh + ry * dh
        i = (column * sw + rx * dw) * width + r
        lead = [p // (oh * ow)]
        if self.is_blocked:
            lead.append(group * (s.ci_group // self.block) + before[0])
        else:
            i = i + group * s.ci_group
        if self.padded is not None:
            return self.padded(*lead, y, i)
        return self.data(*lead, y, i // width, i % width)

    def meets(self, p: Any, steps: Any) -> Any:
        """True where a tap meets the image for any pixel of the tile of ``p``; None: it does.

        One test a tile, and the same for all of it: a branch around the loops over the channels.
        """
        if self.skip == "none":
            return None
        s, line = self.shape, 1 if self.by_columns else 0
        across, total = s.out[1 - line], s.out[0] * s.out[1]
        first = p // self.tile * self.tile
        last = first + (self.tile - 1)
        begin = first // across % s.out[line]
        end = begin + (last // across - first // across)
        taps = steps[-3], steps[-2]
        wraps = s.batch > 1 and total % self.tile > 0
        beyond = zeros_met(s, line, taps[line], begin, end, wraps)
        if not self.in_runs and tests_across(s, line, self.tile):
            begin, wraps = first % across, across % self.tile > 0
            end = begin + (self.tile - 1)
            beyond += zeros_met(s, 1 - line, taps[1 - line], begin, end, wraps)
        return met(beyond)

    def columns(self) -> Tensor:
        """The pixels that each window covers, side by side: (pixels, steps ...)."""
        oh, ow = self.shape.out
        return te.compute(
            (self.shape.batch * oh * ow, *self.extents),
            lambda p, *steps: self.read(p, 0, steps),
            name="columns",
        )

    def panels(self, weight: At, width: int) -> Tensor:
        """The weights in panels of ``width`` channels, step by step.

        Args:
            weight: from an output channel, an input channel and a place in the window to a weight.
        """
        many = max(1, self.block if self.is_blocked else self.shape.ci_group)

        def at(o: Any, *steps: Any) -> Any:
            *before, ry, rx, r = steps
            c = before[0] * self.block + r % many if before else r % many
            return weight(o, c, ry, rx + r // many)

        return panels(at, self.shape.co, self.extents, width)

    def result(self, product: Tensor, name: str) -> Tensor:
        """The result in its layout, of sums by pixel and channel."""
        (oh, ow), n = self.shape.out, self.shape.batch

        def pixel(b: Any, y: Any, x: Any) -> Any:
            return (b * ow + x) * oh + y if self.by_columns else (b * oh + y) * ow + x

        if not self.is_blocked:
            return te.compute(
                (n, oh, ow, self.shape.co),
                lambda b, y, x, o: product[pixel(b, y, x), o],
                name=name,
            )
        block = self.block
        return te.compute(
            (n, self.shape.co // block, oh, ow, block),
            lambda b, f, y, x, c: product[pixel(b, y, x), f * block + c],
            name=name,
        )
