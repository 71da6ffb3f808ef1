"""Images and weights in the order that lanes along the channels read: squares in registers.

    for p, c in steps of a square:                # pixels; the last step begins earlier
        for v in unrolled(side):
            image[p + v, c + ramp(side)] = data[c + ramp(side), p + v]

A kernel with the channels first whose vectors lie along the channels would gather each of them,
lane by lane and window by window. It reads such a copy in whole vectors instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.graph.stages import extent_of
from whet.search_spaces.rules.threads import Threads
from whet.search_spaces.rules.vectors import SIDES, register_tile


def image_last(given: ConvOperands, ones: int = 0) -> Tensor:
    """The image of a convolution with its channels last: (N, spatial ..., C).

    Args:
        given: the operands, the image (N, C, spatial ...).
        ones: so many spatial dimensions of one element are put in front of the others.
    """
    shape, data = given.form.shape, given.data
    return te.compute(
        (shape.batch, *(1,) * ones, *shape.image, shape.ci),
        lambda b, *at: data(b, at[-1], *at[ones:-1]),
        name="image",
    )


def weights_last(given: ConvOperands) -> Tensor:
    """The weights with the output channels last: (CI / groups, window ..., CO)."""
    shape = given.form.shape
    return te.compute(
        (shape.ci_group, *shape.window, shape.co),
        lambda c, *at: given.weight(at[-1], c, *at[:-1]),
        name="weights",
    )


def schedule_transposed(
    s: Schedule, copy: Tensor, across: Sequence[int], lanes: int, threads: Threads
) -> None:
    """Schedule a copy whose last axis lies across what it reads.

    Args:
        s: the schedule. copy: of :func:`image_last` or :func:`weights_last`.
        across: the places of neighbouring axes along which it reads in order.
        lanes: elements in a vector.
        threads: that share it.
    """
    schedule_across(s[copy], across, [len(copy.shape) - 1], lanes, threads)


def schedule_across(
    stage: Stage, across: Sequence[int], along: Sequence[int], lanes: int, threads: Threads
) -> None:
    """Schedule a stage that reads in order along other axes than its last ones.

    Args:
        stage: the stage.
        across, along: the places of neighbouring axes along which it reads in order, and of its
            last axes.
        lanes: elements in a vector.
        threads: that share it.
    """
    axes = list(stage.op.axis)
    lead = [a for k, a in enumerate(axes) if k not in (*across, *along)]
    sizes = [prod(extent_of(axes[k]) for k in places) for places in (across, along)]
    rows, lane = (_fused(stage, [axes[k] for k in places]) for places in (across, along))
    side = next((n for n in SIDES if n <= min(lanes, *sizes)), 0)
    if side:
        outer, inner = stage.split(rows, factor=side, tail="shift")
        more, lane = stage.split(lane, factor=side, tail="shift")
        register_tile(stage, [*lead, outer, more], [inner, lane])
    else:
        outer = rows
        if sizes[1] > lanes > 1:
            _, lane = stage.split(lane, factor=lanes)
        if sizes[1] > 1:
            stage.vectorize(lane)
    if threads.parallel:
        threads.run(stage, _fused(stage, [*lead, outer]))


def _fused(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    fused = axes[0]
    for axis in axes[1:]:
        fused = stage.fuse(fused, axis)
    return fused
