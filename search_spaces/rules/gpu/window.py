"""The rule for windows that slide over images on a GPU: depthwise convolutions, pooling, filters.

    bind b, t:                             # neighbours along the last axis of the result
        patch[y, x] = X[...] or 0          # what the thread's pixels read, in registers
        for ry, rx: acc[yi, xi] += patch[yi*sh + ry*dh, xi*sw + rx*dw] * W[c, ry, rx]
        C[...] = acc

Rows that neighbouring threads share come from the cache. Channels last, a thread has
neighbouring channels, as many as it reads at once. Of a window too large for registers, the patch
is what one row of it reads, or one place.
"""

from __future__ import annotations

from whet.compiler.te import Stage
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.widened_sum import of_widened, widened
from whet.search_spaces.graph.cost import EXPENSIVE
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, TILED, Group
from whet.search_spaces.rules.cpu.tiling.tiled import staged_for_operands
from whet.search_spaces.rules.gpu.hardware.threads import (
    bind_fused,
    schedule_staged,
    split_lanes,
    unroll,
    unroll_elements,
)
from whet.search_spaces.rules.gpu.window_spec import Tile, Window, window_of

_TILES = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (4, 2), (1, 4), (2, 4), (4, 4))
_THREADS = (64, 128, 256)
# Rows of a thread where windows overlap most and images are large, and elsewhere.
_TALL, _SHORT, _MANY = 8, 4, 14


class GpuWindow(Rule):
    """A few neighbouring pixels for each thread, and what they read in its registers."""

    def applies(self, group: Group) -> bool:
        """A reduction over windows of one tensor, with at most what pads that before it."""
        found = window_of(group.anchor) if group.role in (REDUCTION, TILED) else None
        return found is not None and all(n.op is found.read.tensor.op for n in group.members)

    def rewrite(self, group: Group) -> Tensor | None:
        """Accumulate float16 in float32."""
        return widened(group)

    def schedule(self, s: Schedule, group: Group) -> None:
        """Bind the pixels; what prepares an operand is computed in them, unless it is dear."""
        within = staged_for_operands(group)
        group = of_widened(s, group)
        window = window_of(group.anchor)
        assert window is not None
        cheap = {
            node.op
            for node in group.staged
            if node.op is window.read.tensor.op or node.is_guarded or node.cost < EXPENSIVE
        }
        schedule_staged(s, group, cheap & set(within))
        for node in group.members:
            s[node.op].compute_inline()
        tile, threads = _define(group, window)
        out, sums = group.last.tensor, group.anchor.tensor
        if group.last is group.anchor:
            sums = s.cache_write(out, "local")
        s[sums].set_scope("local")
        patch = _patch(s, sums, window.read.tensor)
        thread = _store(s[out], window, tile, threads)
        s[sums].compute_at(s[out], thread)
        steps = _sum(s[sums], window)
        if window.around:
            s[patch].compute_at(s[sums], steps[window.around - 1])
        else:
            s[patch].compute_at(s[out], thread)
        unroll_elements(s[patch], list(s[patch].op.axis), window.lanes)


def _define(group: Group, window: Window) -> tuple[Tile, int]:
    """The knobs: pixels of a thread, threads of a block."""
    extents = [group.anchor.extents[x.data] for x in window.slides[-2:]]
    rows, columns = extents if len(extents) == 2 else (1, *extents)
    tiles = [t for t in _TILES if t[0] < 2 * rows and t[1] < 2 * columns]
    tiles = [t for t in tiles if window.patch(t) <= window.most] or [(1, 1)]
    flat = len(extents) == 1 or window.around == len(window.slides) - 1 > 0
    tall = _TALL if rows >= _MANY and window.slides[-2:][0].stride == 1 else _SHORT
    wanted = (1, 4) if flat else (1, 2) if window.lanes > 1 else (tall, 1)
    fits = [t for t in tiles if t[0] <= wanted[0] and t[1] <= wanted[1]]
    default = max(fits, key=lambda t: t[0] * t[1])
    return group.choose("tile", tiles, default), group.choose("threads", _THREADS, 128)


def _patch(s: Schedule, sums: Tensor, read: Tensor) -> Tensor:
    """The stage of what is read, in registers: what pads the image, else a copy of the image."""
    readers = [stage for stage in s.stages if read in stage.op.input_tensors]
    inlined = isinstance(read.op, ComputeOp) and s[read].attach_type == INLINE
    if not inlined or len(readers) > 1:
        return s.cache_read(read, "local", [sums])
    s[read].set_scope("local")
    return read


def _store(stage: Stage, window: Window, tile: Tile, threads: int) -> IterVar:
    """The loops of the result; returns a thread's."""
    own = window.pixels(tile)
    outer: list[IterVar] = []
    inner: list[IterVar] = []
    for k, axis in enumerate(list(stage.op.axis)):
        if k in own:
            axis, pixel = stage.split(axis, factor=own[k])
            inner.append(pixel)
        outer.append(axis)
    outer[-1], lanes = split_lanes(stage, outer[-1], window.lanes)
    for lane in lanes:
        stage.vectorize(lane)
    stage.reorder(*outer, *inner, *lanes)
    thread = bind_fused(stage, outer, threads)
    unroll(stage, inner)
    return thread


def _sum(stage: Stage, window: Window) -> list[IterVar]:
    """The loops of a thread's sums: pixels within the window; returns those over the window."""
    every = list(stage.op.reduce_axis)
    steps = [every[x.step] for x in window.slides]
    axes = list(stage.op.axis)
    stage.reorder(*(a for a in every if a not in steps), *steps, *axes)
    unroll(stage, steps[window.around :])
    unroll_elements(stage, axes, window.lanes)
    return steps
