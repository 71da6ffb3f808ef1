"""How images with the channels last are read and written, pixel by pixel: NHWC and NCHWc.

Pixels of the result are numbered through, ``p = (n * OH + y) * OW + x``, so that a register tile
may go on from one row to the next: an image of 7x7 is 49 pixels, not seven rows of one tile each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.conv_shape import ConvShape
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
    """

    shape: ConvShape
    data: Tensor
    padded: Tensor | None
    block: int

    @property
    def is_blocked(self) -> bool:
        """True if the layout is NCHWc."""
        return self.shape.layout == "NCHWc"

    @property
    def in_runs(self) -> bool:
        """True if a row of the window is one run."""
        s = self.shape
        whole = self.is_blocked or s.groups == 1
        return whole and (s.dilation[1] == 1 or s.window[1] == 1)

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
        *before, ry, rx, r = steps
        group = s.group_of(o) if s.groups > 1 else 0
        width = max(1, self.block if self.is_blocked else s.ci)
        y = p // ow % oh * sh + ry * dh
        i = (p % ow * sw + rx * dw) * width + r
        lead = [p // (oh * ow)]
        if self.is_blocked:
            lead.append(group * (s.ci_group // self.block) + before[0])
        else:
            i = i + group * s.ci_group
        if self.padded is not None:
            return self.padded(*lead, y, i)
        return self.data(*lead, y, i // width, i % width)

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
        if not self.is_blocked:
            return te.compute(
                (n, oh, ow, self.shape.co),
                lambda b, y, x, o: product[(b * oh + y) * ow + x, o],
                name=name,
            )
        block = self.block
        return te.compute(
            (n, self.shape.co // block, oh, ow, block),
            lambda b, f, y, x, c: product[(b * oh + y) * ow + x, f * block + c],
            name=name,
        )
