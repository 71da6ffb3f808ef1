"""The primitives of a ``tir.Schedule`` that say where a block is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.errors import ScheduleError
from whet.compiler.te.blocks.handles import BlockRV, LoopRV
from whet.compiler.te.blocks.record import primitive
from whet.compiler.te.blocks.state import FunctionState
from whet.compiler.te.lang.relations import ROOT, Fuse, Split
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.stage import Stage
from whet.compiler.tir.expr import COMM_REDUCE, IterVar, Var

if TYPE_CHECKING:
    from whet.compiler.te.blocks.schedule import Schedule

_SAYS = ("bind", "parallel", "pragma", "unroll", "vectorize")


@primitive
def compute_at(
    self: Schedule,
    block: BlockRV,
    loop: LoopRV,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Compute a block in a loop of one that reads it, as much as is needed there.

    >>> A = te.placeholder((16,), name="A")
    >>> T = te.compute((16,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((16,), lambda i: T[i] + 1.0, name="U")
    >>> sch = tir.Schedule(te.create_prim_func([A, U]))
    >>> print(loops(sch))
    for i in range(16):
        with T.block("T"):
            vi = T.axis.spatial(16, i)
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)
    >>> outer, inner = sch.split(sch.get_loops(sch.get_block("U"))[0], factors=[4, 4])
    >>> sch.compute_at(sch.get_block("T"), outer)
    >>> print(loops(sch))
    for i_0 in range(4):
        for i in range(4):
            with T.block("T"):
                vi = T.axis.spatial(16, i_0 * 4 + i)
        for i_1 in range(4):
            with T.block("U"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)

    Args:
        block: the block; ``loop``: of a block that reads it.
        preserve_unit_loops: loops of one step are left out in any case.
        index: the order in a loop follows from what reads what.

    Raises:
        ScheduleError: if nothing in the loop reads the block, something outside does, or it is a
            result.
    """
    _, stage = self.block(block)
    _, parent, axis = self.loop(loop)
    stage.compute_at(parent, axis)


@primitive
def reverse_compute_at(
    self: Schedule,
    block: BlockRV,
    loop: LoopRV,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Compute a block in a loop of one that it reads, as soon as what it reads is there.

    >>> A = te.placeholder((16, 8), name="A")
    >>> k = te.reduce_axis((0, 8), name="k")
    >>> S = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="S")
    >>> U = te.compute((16,), lambda i: S[i] + 1.0, name="U")
    >>> sch = tir.Schedule(te.create_prim_func([A, U]))
    >>> i, k = sch.get_loops(sch.get_block("S"))
    >>> outer, inner = sch.split(i, factors=[None, 4])
    >>> print(loops(sch))
    for i_0, i_1, k in T.grid(4, 4, 8):
        with T.block("S"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vk = T.axis.reduce(8, k)
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)
    >>> sch.reverse_compute_at(sch.get_block("U"), outer)
    >>> print(loops(sch))
    for i_0 in range(4):
        for i_1, k in T.grid(4, 8):
            with T.block("S"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)
                vk = T.axis.reduce(8, k)
        for i_1 in range(4):
            with T.block("U"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)

    Args:
        block: reads the result of the loop's block at its own axes, and has plain loops.
        loop: the loop, and those around it, become loops of both.
        preserve_unit_loops: loops of one step are left out in any case.
        index: the order in a loop follows from what reads what.

    Raises:
        ScheduleError: for a block that reads otherwise or has been scheduled already, and for a
            loop of a reduction.
    """
    state, stage = self.block(block)
    _, made, axis = self.loop(loop)
    request = f"reverse_compute_at({state.names()[stage]}, {loop.name})"
    leaves = made.leaf_iter_vars
    path = leaves[: leaves.index(axis) + 1]
    _check_outside(state, made, path, request)
    _check_plain(state, stage, request, "it has loops of its own making, or stands in others")
    twins = _replayed(request, made, stage, _same_axes(state, request, made, stage), path)
    _join(self, state, made, stage, path, twins)


def _join(
    sch: Schedule,
    state: FunctionState,
    made: Stage,
    stage: Stage,
    path: list[IterVar],
    twins: dict[IterVar, IterVar],
) -> None:
    """Put a block into the innermost of its reader's loops that stand for a path of its own."""
    ahead = [twins[a] for a in path]
    stage.reorder(*ahead, *(a for a in stage.leaf_iter_vars if a not in ahead))
    for a in path:
        for s in state.attached(made, a):
            s.compute_at(stage, twins[a])
        _said_again(made, a, stage, twins[a])
        state.view.notes[twins[a]] = state.view.notes.pop(a, {})
    for old, new in twins.items():
        state.view.names[new] = state.loop_name(old)
    made.compute_at(stage, twins[path[-1]])
    sch.rename(state, {}, {a: (stage.origin_op, twins[a]) for a in path})


def _check_outside(state: FunctionState, made: Stage, path: list[IterVar], request: str) -> None:
    """Refuse loops in which a block's result is not there yet, or that others are around."""
    names = state.names()
    if any(a.iter_type == COMM_REDUCE for a in path):
        raise ScheduleError(
            request,
            f"it is a loop of {names[made]} that is reduced or stands within one: the result is "
            "there behind it",
            "name a loop outside of the reduction, or reorder it",
        )
    if made.attach_type != ROOT:
        raise ScheduleError(
            request,
            f"{names[made]} is computed in loops of another block",
            f"do it before compute_at({names[made]}, ...)",
        )


def _check_plain(state: FunctionState, stage: Stage, request: str, why: str) -> None:
    plain = not stage.relations and not stage.iter_var_attrs and stage.attach_type == ROOT
    if not plain or stage.leaf_iter_vars != [*stage.op.axis, *stage.op.reduce_axis]:
        raise ScheduleError(
            request, f"{state.names()[stage]}: {why}", "do it before its loops are changed"
        )


def _same_axes(
    state: FunctionState, request: str, made: Stage, reader: Stage
) -> dict[IterVar, IterVar]:
    """Axis of a block -> the axis of its reader that is the index there."""
    of = {a.var: a for a in reader.op.axis}
    names = state.names()
    found: list[dict[IterVar, IterVar]] = []
    for stage, n in state.bounds.reads(reader):
        if stage is not made:
            continue
        direct = [(a, of.get(i)) for a, i in zip(made.op.axis, n.indices) if isinstance(i, Var)]
        found.append({a: b for a, b in direct if b is not None})
    if not found:
        raise ScheduleError(
            request, f"{names[reader]} does not read {names[made]}", "name a loop of what it reads"
        )
    if any(set(x.items()) != set(found[0].items()) for x in found[1:]):
        raise ScheduleError(
            request,
            f"{names[reader]} reads several elements of {names[made]} in a step",
            f"schedule the loops of {names[reader]}, and compute_at({names[made]}, loop)",
        )
    return found[0]


def _replayed(
    request: str, made: Stage, reader: Stage, twins: dict[IterVar, IterVar], path: list[IterVar]
) -> dict[IterVar, IterVar]:
    """Split and fuse a reader's axes as those of what it reads were, as far as loops need it."""
    needed = set(path)
    for r in reversed(made.relations):
        if needed.intersection(r.members):
            needed.update(r.members)
    for r in made.relations:
        if not needed.issuperset(r.members):
            continue
        if isinstance(r, Split) and r.parent in twins:
            how = {"factor": r.factor} if r.nparts is None else {"nparts": r.nparts}
            twins[r.outer], twins[r.inner] = reader.split(twins[r.parent], **how)
        elif isinstance(r, Fuse) and r.outer in twins and r.inner in twins:
            outer, inner = twins[r.outer], twins[r.inner]
            order = [a for a in reader.leaf_iter_vars if a is not inner]
            order.insert(order.index(outer) + 1, inner)
            reader.reorder(*order)
            twins[r.fused] = reader.fuse(outer, inner)
    lacking = [a for a in path if a not in twins]
    if lacking:
        raise ScheduleError(
            request,
            f"{reader.op.name} has no axis that is {lacking[0].var.name} of {made.op.name}: it "
            "reads it at other indices than its own axes",
            f"schedule the loops of {reader.op.name}, and compute_at({made.op.name}, loop)",
        )
    return twins


def _said_again(stage: Stage, old: IterVar, other: Stage, new: IterVar) -> None:
    """Say of a loop what the trace has been told of another one, which is forgotten there."""
    trace = stage.schedule.trace
    again = [
        s
        for s in trace.steps
        if s.primitive in _SAYS and s.args and s.args[0] is old and s.stage is not None
    ]
    trace.steps[:] = [s for s in trace.steps if s not in again]
    stage.iter_var_attrs.pop(old, None)
    for s in again:
        getattr(other, s.primitive)(new, *s.args[1:], **s.options)


@primitive
def compute_inline(self: Schedule, block: BlockRV) -> None:
    """Put a block's expression into whatever reads it.

    >>> A = te.placeholder((16,), name="A")
    >>> T = te.compute((16,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((16,), lambda i: T[i] + 1.0, name="U")
    >>> sch = tir.Schedule(te.create_prim_func([A, U]))
    >>> print(loops(sch))
    for i in range(16):
        with T.block("T"):
            vi = T.axis.spatial(16, i)
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)
    >>> sch.compute_inline(sch.get_block("T"))
    >>> print(loops(sch))
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)

    Raises:
        ScheduleError: for a result or a reduction.
    """
    _, stage = self.block(block)
    stage.compute_inline()


@primitive
def reverse_compute_inline(self: Schedule, block: BlockRV) -> None:
    """Put a block's expression into the block that it reads, which stores the result instead.

    >>> A = te.placeholder((16,), name="A")
    >>> T = te.compute((16,), lambda i: A[i] * 2.0, name="T")
    >>> U = te.compute((16,), lambda i: T[i] + 1.0, name="U")
    >>> sch = tir.Schedule(te.create_prim_func([A, U]))
    >>> print(loops(sch))
    for i in range(16):
        with T.block("T"):
            vi = T.axis.spatial(16, i)
    for i in range(16):
        with T.block("U"):
            vi = T.axis.spatial(16, i)
    >>> sch.reverse_compute_inline(sch.get_block("U"))
    >>> print(loops(sch))
    for i in range(16):
        with T.block("T"):
            vi = T.axis.spatial(16, i)

    Raises:
        ScheduleError: unless the block reads one other block, at its own axes and alone, and both
            have plain loops; for a block that reads a reduction.
    """
    state, stage = self.block(block)
    names = state.names()
    request = f"reverse_compute_inline({names[stage]})"
    producers = list(dict.fromkeys(state.stage(t.op) for t in state.reads(stage)))
    computed = [s for s in producers if state.is_block(s)]
    if len(computed) != 1:
        raise ScheduleError(request, f"it reads {len(computed)} blocks, not one")
    (made,) = computed
    if not isinstance(made.op, ComputeOp) or made.op.reduce_axis or stage.op.reduce_axis:
        raise ScheduleError(
            request,
            f"{names[made]} or {names[stage]} is a reduction, which stores what it has summed up",
            f"reverse_compute_at({names[stage]}, loop of {names[made]})",
        )
    if (
        len([s for s in state.blocks() if any(state.stage(t.op) is made for t in state.reads(s))])
        > 1
    ):
        raise ScheduleError(request, f"another block reads {names[made]}, too")
    twins = _same_axes(state, request, made, stage)
    if set(twins) != set(made.op.axis) or set(twins.values()) != set(stage.op.axis):
        raise ScheduleError(request, f"it reads {names[made]} at other indices than its own axes")
    for s in (made, stage):
        _check_plain(state, s, request, "its loops were changed")
    made.compute_inline()
    state.view.blocks[stage.origin_op] = names[made]
    axes = {a: (stage.origin_op, b) for a, b in twins.items()}
    self.rename(state, {made.origin_op: stage.origin_op}, axes)
