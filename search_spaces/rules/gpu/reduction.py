"""The rule for one reduction on a GPU: sums of rows and of columns, maxima, pooling, argmax.

Along rows (what is reduced lies side by side): a block, a warp of it or a part of a warp for each
element.

    bind row:
        bind t, for u: R = X[row, u*T*4 + t*4 + ramp(4)];  B[row] += R[0..3]     across the threads

Across them: neighbours have neighbouring elements, and rows of threads parts of the reduction.

    bind y, x, for u:  R = X[u*Y + y, x*4 + ramp(4)];  P[y, x*4 + 0..3] += R[0..3]
    bind column:       B[column] = sum of P[.., column]                 in shared memory

Of few elements, blocks reduce parts of the reduction, which a kernel of its own reduces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.te import Stage
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import IterVar
from whet.search_spaces.forms.widened_sum import of_widened, widened
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, TILED, Group
from whet.search_spaces.rules.cpu.sums import ACROSS, ALONG, Way, first_of, way_of
from whet.search_spaces.rules.cpu.tiling.tiled import computed_as_read
from whet.search_spaces.rules.gpu.hardware.threads import (
    attach,
    bind,
    bind_fused,
    schedule_staged,
    split_lanes,
    unroll,
    vectorize_last,
)
from whet.search_spaces.rules.gpu.reduction_plan import SHARES, WIDTH, Plan, is_shared, plan_of


class GpuReduction(Rule):
    """A block for an element, threads across elements, or an element a thread."""

    def applies(self, group: Group) -> bool:
        """A reduction that is not a part of a chain of rows."""
        return group.role in (REDUCTION, TILED) and not group.members

    def rewrite(self, group: Group) -> Tensor | None:
        """Accumulate float16 in float32, and store the result in float16."""
        return widened(group)

    def schedule(self, s: Schedule, group: Group) -> None:
        """Bind the reduction, its epilogue and the producers that it alone reads."""
        as_read = computed_as_read(group)
        group = of_widened(s, group)
        node = group.anchor
        way = way_of(node, 4)
        shared = is_shared(node, way)
        plan = plan_of(group, way)
        # a vector of what has edges would be read lane by lane
        schedule_staged(s, group, as_read if plan.vector == 1 else ())
        if way.kind == ALONG and shared:
            _along(s, group, way, plan)
        elif way.kind == ACROSS and shared:
            _across(s, group, way, plan)
        else:  # each element by a thread of its own
            stage = s[group.last.tensor]
            thread = bind_fused(stage, threads=plan.threads)
            if node is not group.last:
                attach(s[node.tensor], stage, thread)


def _split(s: Schedule, tensor: Tensor, axes: Sequence[IterVar], parts: int) -> Tensor | None:
    """The stage of partial results, their axis first, of a reduction split over its outermost axes;
    None: there is one part."""
    if parts == 1:
        return None
    outer, _ = s[tensor].split(s[tensor].fuse(*axes), nparts=parts)
    return first_of(s.rfactor(tensor, outer, factor_axis=0))


def _along(s: Schedule, group: Group, way: Way, plan: Plan) -> None:
    """Rows to blocks, or to rows of their threads."""
    tensor = group.anchor.tensor
    partial = _split(s, tensor, s[tensor].op.reduce_axis[:1], plan.parts)
    if partial is None:
        _rows(s, tensor, group.last.tensor, way.axes, plan)
        return
    count = len(s[partial].op.reduce_axis)  # the axis that was cut comes last
    run = tuple(count - 1 if k == 0 else k - 1 for k in way.axes)
    _rows(s, partial, partial, run, plan)
    few = Plan(min(32, plan.parts), 1)
    _rows(s, tensor, group.last.tensor, (), few)


def _rows(s: Schedule, reduced: Tensor, last: Tensor, run: tuple[int, ...], plan: Plan) -> None:
    """Each element by the threads of a row of its block.

    Args:
        reduced: the reduction.
        last: what is stored: the reduction, or what is computed of its elements one by one.
        run: places of the reduction's axes that lie side by side together, outermost first.
    """
    stage = s[last]
    inner = s[reduced]
    axes = list(stage.op.axis)
    block, row = stage.split(stage.fuse(*axes), factor=plan.rows)
    bind(stage, block=block, y=row)
    if inner is not stage:
        attach(inner, stage, row)
    read = _read_ahead(s, reduced) if plan.vector > 1 else []
    steps = list(inner.op.reduce_axis)
    side_by_side = [steps[k] for k in run]
    rest = [a for a in steps if a not in side_by_side]
    inner.reorder(*rest, *side_by_side)
    whole, lanes = split_lanes(inner, inner.fuse(*rest, *side_by_side), plan.vector)
    turn, thread = inner.split(whole, factor=plan.threads)
    turn, unrolled = inner.split(turn, factor=plan.unroll)
    own = [unrolled, *lanes]
    inner.reorder(thread, turn, *own)
    bind(inner, x=thread)
    unroll(inner, own)
    for t in read:
        s[t].compute_at(inner, unrolled)
        if int(t.shape[-1]) > 1:
            vectorize_last(s[t])


def _read_ahead(s: Schedule, reduced: Tensor) -> list[Tensor]:
    """The operands in registers, so that they are read in vectors.

    A producer that is inlined into other stages, too, is an operand itself.
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


def _across(s: Schedule, group: Group, way: Way, plan: Plan) -> None:
    """Neighbours to neighbouring threads, parts of the reduction to rows of them."""
    tensor = group.anchor.tensor
    partial = _split(s, tensor, s[tensor].op.reduce_axis, plan.parts)
    if partial is None:
        _columns(s, tensor, group.last.tensor, way.axes[0], plan)
        return
    _columns(s, partial, partial, way.axes[0] + 1, plan)
    rows = min(SHARES[-1], plan.parts)
    few = Plan(WIDTH, rows, unroll=min(8, plan.parts // rows))
    _columns(s, tensor, group.last.tensor, way.axes[0], few)


def _columns(s: Schedule, reduced: Tensor, last: Tensor, axis: int, plan: Plan) -> None:
    """Each element by a row of threads, which reduce neighbours, too, and add up what they have.

    Args:
        reduced, last: as in :func:`_rows`.
        axis: the place of the axis along which neighbours lie side by side.
        plan: what the config says.
    """
    stage, inner = s[last], s[reduced]
    _, y = inner.split(inner.fuse(*inner.op.reduce_axis), factor=plan.rows)
    partial = s.rfactor(reduced, y, factor_axis=0)
    tensors = partial if isinstance(partial, list) else [partial]
    shared = s[tensors[0]]
    # in units of vectors, so that at an edge whole ones are read again, which stay vectors
    shared.split(shared.op.axis[axis + 1], factor=plan.vector)
    sums = s.cache_write(tensors, "local")
    if inner is stage:
        outputs = [inner.op.output(k) for k in range(inner.op.num_outputs)]
        inner = s[s.cache_write(outputs, "local")[0]]
    axes = list(stage.op.axis)
    others = [a for k, a in enumerate(axes) if k != axis]
    outer, place = stage.split(axes[axis], factor=plan.threads * plan.vector)
    turn, x = stage.split(place, factor=plan.threads)
    turn, row = stage.split(turn, factor=min(plan.rows, plan.vector))
    stage.reorder(*others, outer, turn, row, x)
    block = stage.fuse(*others, outer)
    bind(stage, block=block, y=row, x=x)
    attach(inner, stage, x)
    inner.unroll(inner.op.reduce_axis[0])
    attach(shared, stage, block, "shared")
    _partial_sums(shared, s[sums[0]], axis + 1, plan)


def _partial_sums(stage: Stage, inner: Stage, axis: int, plan: Plan) -> None:
    """A thread's part of some neighbours' reductions, in registers and then in shared memory."""
    x, lanes = stage.split(stage.op.axis[axis], factor=plan.vector)
    bind(stage, y=stage.op.axis[0], x=x)
    inner.compute_at(stage, x)
    own = inner.op.axis[axis + 1]
    turn, unrolled = inner.split(inner.op.reduce_axis[0], factor=plan.unroll)
    inner.reorder(turn, unrolled, *(a for a in inner.op.axis if a is not own), own)
    inner.unroll(unrolled)
    if plan.vector > 1:
        stage.vectorize(lanes)
        inner.vectorize(own)
