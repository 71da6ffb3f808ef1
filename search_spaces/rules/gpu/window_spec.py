"""Reductions over windows that slide: in which dimensions, how far, what their pixels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from whet.compiler.arith import Affine
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir.expr import Reduce
from whet.search_spaces.graph.access import Access
from whet.search_spaces.graph.stages import Node, constant_extents
from whet.search_spaces.rules.gpu.hardware.lanes import lanes_of

Tile = tuple[int, int]
"""Pixels of a thread along the last but one dimension of a window, and along the last."""

# Elements of a patch that a thread has registers for, besides those of its sums.
_PATCH, _WIDE_PATCH = 96, 144
# Larger windows are reductions whose neighbours have some terms in common.
_LARGEST = 4096


@dataclass(frozen=True)
class Slide:
    """A dimension in which a window slides: its index is ``stride * data + dilation * step``.

    Attributes:
        data: the place of the data axis.
        step: the place of the reduction's axis.
        stride: of the window.
        reach: elements from the window's first to its last.
        dilated: whether a window leaves elements out.
    """

    data: int
    step: int
    stride: int
    reach: int
    dilated: bool


@dataclass(frozen=True)
class Window:
    """A reduction over windows.

    Attributes:
        read: of the tensor that it slides over.
        slides: by data axes.
        lanes: neighbouring channels that a thread has, where channels come last.
    """

    read: Access
    slides: tuple[Slide, ...]
    lanes: int

    @property
    def most(self) -> int:
        """Elements of a patch that a thread may have."""
        return _PATCH if self.lanes == 1 else _WIDE_PATCH

    @property
    def around(self) -> int:
        """Loops over the window around the patch: of its rows, then of its columns."""
        for count in range(len(self.slides)):
            inner = self.slides[count:]
            whole = not count or not any(x.dilated for x in inner)
            if whole and prod(x.reach for x in inner) * self.lanes <= self.most:
                return count
        return len(self.slides)

    def pixels(self, tile: Tile) -> dict[int, int]:
        """Data axis in which the window slides -> a thread's pixels along it."""
        own = {x.data: 1 for x in self.slides}
        for x, size in zip(reversed(self.slides), reversed(tile)):
            own[x.data] = size
        return own

    def patch(self, tile: Tile) -> int:
        """Elements that a thread's pixels read."""
        own, around = self.pixels(tile), self.around
        sizes = (
            (own[x.data] - 1) * x.stride + (x.reach if k >= around else 1)
            for k, x in enumerate(self.slides)
        )
        return prod(sizes) * self.lanes


def window_of(node: Node) -> Window | None:
    """The windows that a reduction goes over; None: it goes over anything else."""
    op = node.op
    if not isinstance(op, ComputeOp) or len(op.body) != 1 or not constant_extents(op):
        return None
    (body,) = op.body
    steps = [k for k, n in enumerate(node.reduce_extents) if n > 1]
    if not isinstance(body, Reduce) or not steps or prod(node.reduce_extents) > _LARGEST:
        return None
    found = [(a, slides) for a in node.reads if (slides := _slides(node, a, steps)) is not None]
    if not found:
        return None
    read, slides = max(found, key=lambda x: x[0].size)
    last, inner = len(node.extents) - 1, read.indices[-1]
    is_channel = inner is not None and inner.variable is op.axis[last].var
    lanes = min(4, lanes_of(read.tensor.dtype, node.extents[last])) if is_channel else 1
    return Window(read, slides, lanes)


def _slides(node: Node, read: Access, steps: Sequence[int]) -> tuple[Slide, ...] | None:
    """The dimensions in which a read slides, if their steps are all that is reduced over."""
    found = [x for x in (_slide(node, i) for i in read.indices) if x is not None]
    apart = len({x.data for x in found}) == len(found)
    if not apart or sorted(x.step for x in found) != list(steps):
        return None
    return tuple(sorted(found, key=lambda x: x.data))


def _slide(node: Node, index: Affine | None) -> Slide | None:
    """One dimension of a read, if a window slides along it."""
    if index is None or len(index.terms) != 2:
        return None
    places = {a.var: k for k, a in enumerate(node.op.reduce_axis)}
    moved = [(k, c) for v, c in index.terms.values() if (k := node.axis_of(v)) is not None]
    summed = [(places[v], c) for v, c in index.terms.values() if v in places]
    if len(moved) != 1 or len(summed) != 1:
        return None
    (data, stride), (step, dilation) = moved[0], summed[0]
    if min(stride, dilation) < 1 or node.extents[data] == 1:
        return None
    reach = (node.reduce_extents[step] - 1) * dilation + 1
    return Slide(data, step, stride, reach, dilation > 1)
