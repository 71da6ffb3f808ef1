"""Convolutions with the channels first, computed with the channels last.

    image[n, y, x, c] = data[n, c, y, x]                    # squares, transposed in registers
    sums[n, y, x, o] = the convolution of image             # as whet's kernels for NHWC do
    conv[n, o, y, x] = sums[n, y, x, o]                     # with the epilogue

Two passes over image and result buy tiles of pixels that go on from one row to the next, and
channels that lie side by side: strides, dilation and odd rows cost nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv import channels_last
from whet.search_spaces.rules.cpu.conv.estimate.space import Space
from whet.search_spaces.rules.cpu.conv.transposed import (
    image_last,
    schedule_across,
    schedule_transposed,
    weights_last,
)
from whet.search_spaces.rules.cpu.conv.weights import Storing
from whet.search_spaces.rules.threads import NO_THREADS

PREFIX = "last."
"""Of the knobs, whose names are those of :mod:`channels_last`."""


def fits(shape: ConvShape) -> bool:
    """True for rows and images with the channels first, which are not empty."""
    return shape.layout in ("NCW", "NCHW") and not shape.is_empty


def shape_last(shape: ConvShape) -> ConvShape:
    """The same convolution with the channels last; a row is an image of one."""
    ones: tuple[int, ...] = (1,) * (2 - len(shape.image))
    zeros = (0,) * len(ones)
    return replace(
        shape,
        layout="NHWC",
        image=(*ones, *shape.image),
        window=(*ones, *shape.window),
        strides=(*ones, *shape.strides),
        before=(*zeros, *shape.before),
        after=(*zeros, *shape.after),
        dilation=(*ones, *shape.dilation),
    )


def space(shape: ConvShape, target: Target) -> Space:
    """The knobs ``last.*``."""
    return channels_last.space(shape_last(shape), target, 0, PREFIX)


@dataclass(frozen=True, eq=False)
class Converted:
    """The stages of a convolution under the knobs of :func:`space`.

    Attributes:
        image, weights: the copies with the channels last.
        inner: the convolution of these. conv: the result.
    """

    image: Tensor
    weights: Tensor
    inner: channels_last.ChannelsLast
    conv: Tensor

    @property
    def copied(self) -> bool:
        """True: each pixel of the image is read once."""
        return True

    @staticmethod
    def of(cfg: Prefixed, given: ConvOperands, name: str) -> Converted:
        """The computation.

        Args:
            given: the operands, the image (N, C, spatial ...).
            name: of the result.
        """
        shape = given.form.shape
        own = Prefixed(cfg, PREFIX)
        ones = 2 - len(shape.image)
        image, weights = image_last(given, ones), weights_last(given)

        def weight(o: Any, c: Any, *window: Any) -> Any:
            return weights(c, *window[ones:], o)

        last = replace(given.form, shape=shape_last(shape))
        operands = replace(given, form=last, data=image)
        inner = channels_last.ChannelsLast.of(own, operands, "sums", weight=weight)
        lead = (0,) * ones
        conv = te.compute(
            shape.result_shape, lambda b, o, *at: inner.conv(b, *lead, *at, o), name=name
        )
        return Converted(image, weights, inner, conv)

    def schedule(self, s: Schedule, how: Storing) -> None:
        """Schedule all stages but the inlined ones."""
        spatial = range(1, len(self.image.shape) - 1)
        schedule_transposed(s, self.image, spatial, how.lanes, how.threads)
        self.inner.schedule(s, replace(how, out=s[self.inner.conv]))
        alone = NO_THREADS if how.ahead else how.threads
        steps = range(len(self.weights.shape) - 1)
        schedule_transposed(s, self.weights, steps, how.lanes, alone)
        places = range(2, len(self.conv.shape))
        schedule_across(how.out, (1,), places, how.lanes, how.threads)
