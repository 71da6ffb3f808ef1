"""The rule for one reduction on a GPU: sums of rows and of columns, maxima, pooling, argmax.

Along rows (what is reduced lies side by side): a block, or a warp of it, for each element.

    bind row:
        bind t, for u: R = X[row, u*T*4 + t*4 + ramp(4)];  B[row] += R[0..3]     across the threads

Across them: neighbours have neighbouring elements, and rows of threads parts of the reduction. Of
few elements, blocks reduce parts of the reduction, which a kernel of its own reduces.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.target import Target
from whet.compiler.te import Stage
from whet.compiler.te.relations import INLINE
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.tensor import ComputeOp, Tensor
from whet.compiler.tir import IterVar
from whet.search_spaces.define import DefineKnobs
from whet.search_spaces.derived.graph import REDUCTION, TILED, Group
from whet.search_spaces.derived.sums import ACROSS, ALONG, Way, way_of
from whet.search_spaces.gpu.device import processors
from whet.search_spaces.gpu.lanes import lanes_of
from whet.search_spaces.gpu.spread import spread
from whet.search_spaces.gpu.threads import bind
from whet.search_spaces.gpu.widened_sum import of_widened, widened

_THREADS = (32, 64, 128, 256, 512)
_ROWS = (1, 2, 4, 8)
_VECTORS = (1, 2, 4, 8)
_PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Elements that a thread should reduce: enough loads at once to wait for memory only once.
_OWN = 32
# Steps of a reduction that are worth sharing among threads.
_LONG = 32
# Blocks of a multiprocessor that keep its memory busy.
_BUSY = 8


class GpuReduction:
    """A block for an element, threads across elements, or an element a thread."""

    name = "gpu reduction"

    def applies(self, group: Group) -> bool:
        """A reduction that is not a part of a chain of rows."""
        return group.role in (REDUCTION, TILED) and not group.members

    def rewrite(self, group: Group, cfg: DefineKnobs, target: Target) -> Tensor | None:
        """Sum halves up in float32, and store the sums in halves."""
        return widened(group)

    def schedule(self, s: Schedule, group: Group, cfg: DefineKnobs, target: Target) -> None:
        """Bind the reduction, what is made of it, and what is made for it alone."""
        group = of_widened(s, group)
        for node in group.staged:
            spread(s[node.tensor], list(s[node.tensor].op.axis))
        node = group.anchor
        way = way_of(node, 4)
        steps = prod(node.reduce_extents)
        plan = _plan(group, way, steps, cfg, target)
        if way.kind == ALONG and steps >= _LONG:
            _along(s, group, way, plan)
        elif way.kind == ACROSS and steps >= _LONG:
            _across(s, group, way, plan)
        else:
            _alone(s, group, plan)


@dataclass(frozen=True)
class _Plan:
    """What a config says.

    Attributes:
        threads: that share a reduction (along), or neighbours of a block (across, alone).
        rows: elements of a block (along), or threads that share a reduction (across).
        vector: elements that a thread reads at once.
        parts: of the reduction that different blocks reduce.
        unroll: reads that are written out.
    """

    threads: int
    rows: int = 1
    vector: int = 1
    parts: int = 1
    unroll: int = 1


def _plan(group: Group, way: Way, steps: int, cfg: DefineKnobs, target: Target) -> _Plan:
    node = group.anchor
    chosen: dict[str, Any] = {}

    def choose(name: str, choices: list, default: Any) -> None:
        cfg.define_knob(group.knob(name), choices, default=default)
        chosen[name] = cfg[group.knob(name)].val

    if way.kind not in (ALONG, ACROSS) or steps < _LONG:
        choose("threads", [64, 128, 256], 128)
        return _Plan(**chosen)
    busy = processors(target) * _BUSY
    if way.kind == ALONG:
        dtype = next((a.tensor.dtype for a in node.reads), node.dtype)
        most = min(_VECTORS[-1], lanes_of(dtype, node.reduce_extents[way.axes[-1]]))
        own = steps
        parts = [p for p in _PARTS if p == 1 or _can_part(node.reduce_extents[0], p, node, steps)]
        wanted = min(parts, key=lambda p: (p * node.points < busy and p != parts[-1], p))
        choose("parts", parts, wanted)
        own = -(-steps // wanted)
        threads = [t for t in _THREADS if t == _THREADS[0] or t < 2 * own // most]
        best = next((t for t in threads if t * _OWN >= own), threads[-1])
        choose("threads", threads, best)
        each = [r for r in _ROWS if node.points % r == 0]
        choose("rows", each, max(r for r in each if r == 1 or r * best <= 128))
        choose("vector", [v for v in _VECTORS if v <= most], most)
        choose("unroll", [1, 2, 4, 8], 4)
        cfg.multi_filter(_AtMost(group.knob("rows"), group.knob("threads")))
        return _Plan(**chosen)
    parts = [p for p in _PARTS if p == 1 or _can_part(node.reduce_extents[0], p, node, steps)]
    blocks = -(-node.points // 32)
    wanted = min(parts, key=lambda p: (p * blocks < busy and p != parts[-1], p))
    choose("parts", parts, wanted)
    choose("threads", [32, 64, 128], 32)
    choose("rows", [r for r in (1, 2, 4, 8, 16) if r <= steps], 8)
    choose("unroll", [1, 2, 4, 8], 8)  # of 4 bytes each: half of what rows have under way
    cfg.multi_filter(_AtMost(group.knob("rows"), group.knob("threads")))
    return _Plan(**chosen)


def _can_part(outermost: int, parts: int, node: Any, steps: int) -> bool:
    """Whether the outermost axis of a reduction may be cut, and pieces are worth a block."""
    return outermost % parts == 0 and steps // parts >= 8 * _LONG and node.op.num_outputs == 1


@dataclass(frozen=True)
class _AtMost:
    """A constraint: a block has at most 1024 threads."""

    rows: str
    threads: str

    def __call__(self, view: Any) -> bool:
        return view[self.rows].val * view[self.threads].val <= 1024

    def __repr__(self) -> str:
        return f"{self.rows} times {self.threads} is at most 1024"


def _in_parts(s: Schedule, tensor: Tensor, parts: int) -> Tensor | None:
    """A stage that reduces parts of the outermost axis, the parts first; None: there is one."""
    if parts == 1:
        return None
    outer, _ = s[tensor].split(s[tensor].op.reduce_axis[0], nparts=parts)
    made = s.rfactor(tensor, outer, factor_axis=0)
    return made[0] if isinstance(made, list) else made


def _along(s: Schedule, group: Group, way: Way, plan: _Plan) -> None:
    """Rows to blocks, or to rows of their threads."""
    tensor = group.anchor.tensor
    partial = _in_parts(s, tensor, plan.parts)
    if partial is None:
        _rows(s, tensor, group.last.tensor, way.axes, plan)
        return
    count = len(s[partial].op.reduce_axis)  # the axis that was cut comes last
    run = tuple(count - 1 if k == 0 else k - 1 for k in way.axes)
    _rows(s, partial, partial, run, plan)
    few = _Plan(min(32, plan.parts), 1)
    _rows(s, tensor, group.last.tensor, (), few)


def _rows(s: Schedule, reduced: Tensor, last: Tensor, run: tuple[int, ...], plan: _Plan) -> None:
    """Each element by the threads of a row of its block.

    Args:
        reduced: the reduction.
        last: what is stored: the reduction, or what is computed of its elements one by one.
        run: places of the reduction's axes that lie side by side together, outermost first.
    """
    stage = s[last]
    inner = s[reduced]
    axes = list(stage.op.axis)
    row = stage.fuse(*axes)
    block, row = stage.split(row, factor=plan.rows)
    bind(stage, block, "blockIdx.x")
    bind(stage, row, "threadIdx.y")
    if inner is not stage:
        inner.set_scope("local")
        inner.compute_at(stage, row)
    read = _read_ahead(s, reduced) if plan.vector > 1 else []
    steps = list(inner.op.reduce_axis)
    side_by_side = [steps[k] for k in run]
    rest = [a for a in steps if a not in side_by_side]
    inner.reorder(*rest, *side_by_side)
    whole = inner.fuse(*rest, *side_by_side)
    lanes = None
    if plan.vector > 1:
        whole, lanes = inner.split(whole, factor=plan.vector)
    turn, thread = inner.split(whole, factor=plan.threads)
    turn, written = inner.split(turn, factor=plan.unroll)
    inner.reorder(thread, turn, written, *([] if lanes is None else [lanes]))
    bind(inner, thread, "threadIdx.x")
    inner.unroll(written)
    if lanes is not None:
        inner.unroll(lanes)
    for t in read:
        s[t].compute_at(inner, written)
        if int(t.shape[-1]) > 1:
            s[t].vectorize(s[t].op.axis[-1])


def _read_ahead(s: Schedule, reduced: Tensor) -> list[Tensor]:
    """The operands in registers, so that they are read in vectors.

    What is computed in other stages, too, is an operand itself: what it reads is theirs as well.
    """
    found: dict[Tensor, list[ComputeOp]] = {}
    waiting: list[Any] = [reduced.op]
    while waiting:
        at = waiting.pop()
        for t in at.input_tensors:
            readers = sum(t in stage.op.input_tensors for stage in s.stages)
            if s[t].attach_type == INLINE and readers == 1:
                waiting.append(t.op)
            elif t.ndim:
                found.setdefault(t, []).append(at)
    return [s.cache_read(t, "local", [x.output(0) for x in ops]) for t, ops in found.items()]


def _across(s: Schedule, group: Group, way: Way, plan: _Plan) -> None:
    """Neighbours to neighbouring threads, parts of the reduction to rows of them."""
    tensor = group.anchor.tensor
    partial = _in_parts(s, tensor, plan.parts)
    if partial is None:
        _columns(s, tensor, group.last.tensor, way.axes[0], plan)
        return
    _columns(s, partial, partial, way.axes[0] + 1, plan)
    few = _Plan(32, min(8, plan.parts))
    _columns(s, tensor, group.last.tensor, way.axes[0], few)


def _columns(s: Schedule, reduced: Tensor, last: Tensor, axis: int, plan: _Plan) -> None:
    stage, inner = s[last], s[reduced]
    axes = list(stage.op.axis)
    column = axes[axis]
    others = [a for a in axes if a is not column]
    outer, x = stage.split(column, factor=plan.threads)
    reduces = [] if inner is not stage else list(stage.op.reduce_axis)
    stage.reorder(*others, outer, x, *reduces)
    block = stage.fuse(*others, outer)
    bind(stage, block, "blockIdx.x")
    bind(stage, x, "threadIdx.x")
    if inner is not stage:
        inner.set_scope("local")
        inner.compute_at(stage, x)
    whole = inner.fuse(*inner.op.reduce_axis)
    turn, y = inner.split(whole, factor=plan.rows)
    turn, written = inner.split(turn, factor=plan.unroll)
    inner.reorder(y, turn, written)
    bind(inner, y, "threadIdx.y")
    inner.unroll(written)


def _alone(s: Schedule, group: Group, plan: _Plan) -> None:
    """Each element by a thread of its own."""
    stage: Stage = s[group.last.tensor]
    axes: list[IterVar] = list(stage.op.axis)
    thread = spread(stage, axes, plan.threads)
    if group.anchor is not group.last:
        s[group.anchor.tensor].set_scope("local")
        s[group.anchor.tensor].compute_at(stage, thread)
