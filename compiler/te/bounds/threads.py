"""Loops over threads in bound inference: how long they run, and who shares what is kept inside.

A loop that is bound to a thread axis with an extent runs to that extent; what is beyond the loop's
own steps is guarded. A stage attached inside loops over threads, in a scope that those threads
share, holds what all of them read.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.relations import AT
from whet.compiler.te.lang.scopes import default_scope, is_shared, is_virtual
from whet.compiler.tir.expr import COMM_REDUCE, THREAD_INDEX, IterVar, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import THREAD_BINDING, For, Stmt

if TYPE_CHECKING:
    from whet.compiler.te.bounds.infer_bound import Bounds, StageBounds
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage

BLOCK = "blockIdx.x"
"""The tag of the one block of a kernel whose schedule binds none."""


def threads_of(stage: Stage) -> list[IterVar]:
    """The thread axes that run a stage or its loops."""
    attrs = stage.iter_var_attrs.values()
    return stage.launch_threads + [a.bind_thread for a in attrs if a.bind_thread is not None]


def has_threads(schedule: Schedule) -> bool:
    """True if any loop of a schedule runs in threads."""
    return any(map(threads_of, schedule.stages))


def lengthen(bounds: Bounds, stage: Stage, b: StageBounds) -> None:
    """Give loops the length of their thread axes; the rest of their steps does nothing."""
    launch(stage, b)
    taken = {tag for tag, _ in around(stage) if not is_virtual(tag)}
    for leaf in stage.leaf_iter_vars:
        thread = thread_of(stage, leaf)
        if thread is None:
            continue
        request = f"bind({stage.op.name}, {leaf.var.name}, {thread.thread_tag})"
        extent = b.extents[leaf]
        if thread.thread_tag in taken and not (extent.is_const and extent.const == 1):
            _check_shared(stage, leaf, thread.thread_tag)
        if thread.dom is None:
            continue
        length = bounds.analyzer.affine(thread.dom.extent)
        if length.key == extent.key:
            continue
        if not bounds.analyzer.at_most_zero(extent - length):
            from whet.compiler.tir.printer import expr_text

            raise LowerError(
                request,
                f"the loop has {expr_text(extent.to_expr())} steps, and the thread axis "
                f"{expr_text(length.to_expr())}",
                "split the loop, or leave the extent out of te.thread_axis",
            )
        b.lengths[leaf] = length
        bounds.analyzer.bind(leaf.var, Affine({}, 0), length.shifted(-1))


def launch(stage: Stage, b: StageBounds) -> None:
    """The loops of the threads that run the whole stage."""
    for t in stage.launch_threads:
        b.launched[t] = Var(t.var.name, t.dtype)


def guards(b: StageBounds) -> list[tuple[Affine, Affine]]:
    """The steps of lengthened loops that are the loops' own."""
    return [(Affine({leaf.var: (leaf.var, 1)}, 0), b.extents[leaf]) for leaf in b.lengths]


def ancestors(stage: Stage) -> Iterator[tuple[Stage, IterVar]]:
    """The stages around an attached stage, innermost first, each with the loop around it."""
    while stage.attach_type == AT and stage.attach_stage is not None:
        assert stage.attach_ivar is not None
        yield stage.attach_stage, stage.attach_ivar
        stage = stage.attach_stage


def leaf_index(stage: Stage, axis: IterVar | None) -> int:
    """The place of a loop that something is attached at.

    Raises:
        LowerError: it is no loop any more.
    """
    for k, leaf in enumerate(stage.leaf_iter_vars):
        if leaf is axis:
            return k
    name = axis.var.name if axis is not None else "?"
    raise LowerError(
        f"compute_at(..., {stage.op.name}, {name})",
        f"{name} is no longer a loop of {stage.op.name}",
        "call compute_at after the parent's loops are final",
    )


def thread_of(stage: Stage, leaf: IterVar) -> IterVar | None:
    """The thread axis that runs a loop."""
    return stage.attr(leaf).bind_thread


def around(stage: Stage) -> Iterator[tuple[str, IterVar]]:
    """The tags of the threads around an attached stage, each with its loop or thread axis."""
    for parent, at in ancestors(stage):
        for leaf in parent.leaf_iter_vars:
            thread = thread_of(parent, leaf)
            if thread is not None:
                yield thread.thread_tag, leaf
            if leaf is at:
                break
        for t in parent.launch_threads:
            yield t.thread_tag, t


def scope_of(stage: Stage) -> str:
    """The storage scope of a stage: as it was set, or by the threads around it."""
    if stage.scope or stage.attach_type != AT:
        return stage.scope or "global"
    if stage.scan is not None and any(
        stage.schedule.stage_map[t.op] is stage for t in getattr(stage.scan.op, "update", ())
    ):
        return scope_of(stage.scan)  # in whose memory it is computed
    return default_scope([tag for tag, _ in around(stage)])


def shared_loops(stage: Stage) -> list[IterVar]:
    """Loops around an attached stage whose threads share it: it holds what all of them read."""
    scope = scope_of(stage)
    return [
        leaf
        for tag, leaf in around(stage)
        if leaf.iter_type != THREAD_INDEX and is_shared(scope, tag)
    ]


def waits_inside(bounds: Bounds, stage: Stage, loop: IterVar, limits: Collection[Hashable]) -> bool:
    """True if threads must synchronize inside a loop that some of them would leave.

    They do for what they fill together, and for sums over them: such a loop keeps its length, and
    a guard is inside it.

    Args:
        bounds: of the schedule.
        stage: whose loop it is.
        loop: the loop.
        limits: what its length would depend on.
    """
    if not any(leaf.var in limits for leaf in _of_block(bounds.schedule.stages)):
        return False
    inside = stage.leaf_iter_vars[stage.leaf_iter_vars.index(loop) :]
    if any(leaf in inside and leaf.iter_type == COMM_REDUCE for leaf in _of_block([stage])):
        return True
    below = [x for x in bounds.schedule.stages if is_below(x, stage, inside)]
    return any(scope_of(x).startswith("shared") for x in below) or any(
        leaf.iter_type == COMM_REDUCE for leaf in _of_block(below)
    )


def _of_block(stages: Iterable[Stage]) -> Iterator[IterVar]:
    """The loops of stages that are bound to the threads of a block."""
    for stage in stages:
        for leaf, attr in stage.iter_var_attrs.items():
            if attr.thread_tag.startswith("threadIdx"):
                yield leaf


def is_below(stage: Stage, parent: Stage, loops: Collection[IterVar]) -> bool:
    """True if a stage is computed inside some loops of another one."""
    at = next((at for up, at in ancestors(stage) if up is parent), None)
    return any(at is x for x in loops)


def in_one_block(bounds: Bounds, stage: Stage, nest: Stmt) -> Stmt:
    """A reduction over a block's threads, in a loop over one block where no thread stands around.

    What it begins with, its steps and its result are then one kernel: they meet in the memory that
    the block shares.

    Args:
        bounds: of the schedule.
        stage: the one that reduces.
        nest: its statement inside its loops over data.
    """
    leaves, first_reduce = stage.leaf_iter_vars, stage.first_reduce
    bound = [thread_of(stage, leaf) for leaf in leaves[:first_reduce]]
    threads = [t for t in (*bound, *stage.launch_threads) if t is not None]
    tags = [t.thread_tag for t in threads] + [tag for tag, _ in around(stage)]
    if not all(map(is_virtual, tags)):
        return nest
    inside = [x for x in bounds.schedule.stages if is_below(x, stage, leaves[first_reduce:])]
    if any(thread.thread_tag.startswith("blockIdx") for x in inside for thread in threads_of(x)):
        return nest  # blocks do not share what one of them would read
    return For(Var("block"), ops.const(0), ops.const(1), THREAD_BINDING, nest, {}, BLOCK)


def _check_shared(stage: Stage, leaf: IterVar, tag: str) -> None:
    """Threads that each have a stage of their own cannot share its work."""
    scope = scope_of(stage)
    if not is_shared(scope, tag):
        raise LowerError(
            f"bind({stage.op.name}, {leaf.var.name}, {tag})",
            f"{stage.op.name} is kept in scope {scope!r} inside a loop over {tag}: each of these "
            "threads has its own, and computes it alone",
            f'share it: set_scope("shared"); or leave {leaf.var.name} unbound',
        )
