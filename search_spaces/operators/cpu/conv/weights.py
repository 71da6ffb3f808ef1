"""The weights of a convolution in panels: the channels of a register tile side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.cpu.gemm.stages import or_zero

At = Callable[..., Any]
"""From an output channel and the steps of a sum to the weight that they meet."""


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


def pack(s: Schedule, packed: Tensor, ahead: bool, parallel: bool) -> None:
    """Schedule the copy in panels: ``ahead`` of the kernel's calls, or in each of them."""
    s[packed].vectorize(packed.op.axis[-1])
    if ahead:
        s[packed].compute_ahead()
    elif parallel:
        s[packed].parallel(packed.op.axis[0])
