"""The primitive normalize: every loop counts from 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.te.bounds.threads import thread_of
from whet.compiler.te.lang.relations import INLINE, Rebase
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.te.primitives.checks import on_schedule
from whet.compiler.tir.expr import IterVar, Var

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


@on_schedule
def normalize(schedule: Schedule) -> Schedule:
    """A schedule of the same meaning in which every loop counts from 0.

    Each axis that is still a loop itself is followed by one that counts from 0 (a
    :class:`Rebase` relation). ``lower`` does as much on its own.

    Returns:
        Another schedule; this one stays as it is.
    """
    new = schedule.copy()
    rebased: dict[IterVar, IterVar] = {}
    leaves: list[tuple[Operation, int, IterVar]] = []  # as the trace names them
    for stage in new.stages:
        if stage.attach_type != INLINE:
            of_stage = _rebase(stage)
            rebased.update(of_stage)
            for a in of_stage.values():
                index = next(k for k, x in enumerate(stage.leaf_iter_vars) if x is a)
                leaves.append((stage.origin_op, index, a))
    for stage in (*new.stages, *new.groups):
        if stage.attach_ivar is not None and stage.attach_ivar in rebased:
            stage.attach_ivar = rebased[stage.attach_ivar]
    new.record("normalize", None, (), {}, leaves)
    return new


def _rebase(stage: Stage) -> dict[IterVar, IterVar]:
    """Let every axis that is a loop be followed by one that counts from 0."""
    out: dict[IterVar, IterVar] = {}
    axes = {*stage.op.axis, *stage.op.reduce_axis}
    for k, leaf in enumerate(stage.leaf_iter_vars):
        attr = stage.iter_var_attrs.get(leaf)
        if leaf not in axes or thread_of(stage, leaf) is not None or isinstance(stage.op, ScanOp):
            continue  # the steps of a recurrence are found by its own axis
        new = IterVar(None, Var(leaf.var.name, leaf.dtype), leaf.iter_type)
        stage.relations.append(Rebase(leaf, new))
        stage.all_iter_vars.append(new)
        stage.leaf_iter_vars[k] = new
        if attr is not None:
            stage.iter_var_attrs[new] = attr
        out[leaf] = new
    return out
