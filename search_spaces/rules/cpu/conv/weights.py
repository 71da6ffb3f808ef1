"""The weights of a convolution in panels: the channels of a register tile side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir import IterVar
from whet.compiler.tir.expr import ProducerLoad
from whet.search_spaces.graph.access import accesses
from whet.search_spaces.graph.stages import extent_of
from whet.search_spaces.rules.cpu.gemm.stages import or_zero
from whet.search_spaces.rules.threads import Threads
from whet.search_spaces.rules.vectors import SIDES, register_tile

At = Callable[..., Any]
"""From an output channel and the steps of a sum to the weight that they meet."""


@dataclass(frozen=True, eq=False)
class Storing:
    """How the stages of a convolution are run.

    Attributes:
        out: the stage that stores the result: an epilogue, or the convolution itself.
        ahead: whether the weights are packed ahead of the kernel's calls.
        threads: whether the outer loops run on the target's threads.
        lanes: elements in a vector.
    """

    out: Stage
    ahead: bool
    threads: Threads
    lanes: int


def panels(weight: At, channels: int, steps: tuple[int, ...], width: int) -> Tensor:
    """Weights as [panels][steps ...][width]; zero beyond the last channel.

    Args:
        weight: the weight of a channel at a step.
        channels: how many output channels there are.
        steps: extents of the steps of a sum.
        width: channels of a panel.
    """

    def element(j: Any, *place: Any) -> Any:
        *step, lane = place
        o = j * width + lane
        return or_zero(weight(o, *step), [o < channels] if channels % width else [])

    return te.compute((-(-channels // width), *steps, width), element, name="packed")


def pack(s: Schedule, packed: Tensor, how: Storing) -> None:
    """Schedule the copy in panels: ahead of the kernel's calls, or in each of them.

    It reads the weights in the order in which they are stored, so that each line is read once.
    """
    stage, op = s[packed], packed.op
    assert isinstance(op, ComputeOp)
    panel, *steps, lane = op.axis
    read, *_ = accesses(op)
    strides = {axis: read.stride(axis.var) or 0 for axis in (*steps, lane)}
    if read.is_affine and strides[lane] > 1:
        run = _run(steps, strides)
        near = bool(run) and type(op.body[0]) is ProducerLoad
        sizes = extent_of(lane), prod(extent_of(axis) for axis in run)
        side = next((n for n in SIDES if near and n <= min(how.lanes, *sizes)), 0)
        if side:
            others = [axis for axis in steps if axis not in run]
            last = run[0]
            for axis in run[1:]:
                last = stage.fuse(last, axis)
            outer, inner = stage.split(last, factor=side, tail="shift")
            lanes, lane = stage.split(lane, factor=side, tail="shift")
            register_tile(stage, [panel, *others, outer, lanes], [inner, lane])
        else:
            steps.sort(key=lambda axis: -strides[axis])
            stage.reorder(panel, *steps, lane)
            stage.vectorize(lane)
    else:
        stage.vectorize(lane)
    if how.ahead:
        stage.compute_ahead()
    elif how.threads.parallel:
        stage.parallel(panel)


def _run(steps: Sequence[IterVar], strides: Mapping[IterVar, int]) -> list[IterVar]:
    """The last neighbouring steps whose weights lie side by side; none where the last do not."""
    run: list[IterVar] = []
    length = 1
    for axis in reversed(steps):
        if strides[axis] != length and extent_of(axis) > 1:
            break
        run.insert(0, axis)
        length *= extent_of(axis)
    return run
