"""How a stage's result is stored: padded strides, the condition to store, double buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.threads import around, is_below, thread_of
from whet.compiler.tir.analysis.conditions import pinned
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import COMM_REDUCE, THREAD_INDEX, PrimExpr, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import NONTEMPORAL, THREAD_BINDING, AttrStmt, For, IfThenElse, Stmt
from whet.compiler.tir.visit.rewrite import substitute, variables

if TYPE_CHECKING:
    from whet.compiler.arith import Affine
    from whet.compiler.te.bounds.infer_bound import Bounds
    from whet.compiler.te.stage import Stage


def aligned(stage: Stage) -> bool:
    """True after ``storage_align``."""
    return any(attr.dim_align_factor for attr in stage.iter_var_attrs.values())


def strides(stage: Stage, shape: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """The strides of a stage's buffer, those of aligned axes ``k * factor + offset``."""
    out: list[PrimExpr] = []
    step: PrimExpr = ops.const(1)
    for axis, extent in zip(reversed(stage.op.axis), reversed(shape)):
        attr = stage.attr(axis)
        if attr.dim_align_factor:
            step = step + (attr.dim_align_offset - step) % attr.dim_align_factor
        out.append(step)
        step = step * extent
    return tuple(reversed(out))


def check_given(stage: Stage) -> None:
    """Refuse ``storage_align`` and ``rolling_buffer`` of an argument: its caller lays it out."""
    if aligned(stage) or stage.rolls:
        raise LowerError(
            f"rolling_buffer({stage.op.name})"
            if stage.rolls
            else f"storage_align({stage.op.name}, ...)",
            f"{stage.op.name} is an argument, which its caller lays out",
            "leave it out of args",
        )


def predicate(bounds: Bounds, stage: Stage) -> PrimExpr | None:
    """The condition to store, in terms of the loops; None when there is none.

    Of threads that are bound inside stages attached to this one, all hold what is to be stored: a
    condition that names one of them (``tx.var.equal(0)``) holds once. The variables of others stay
    (:func:`over_inner`).

    Raises:
        LowerError: if it uses a thread axis that is bound nowhere in the stage or around it, nor
            in what is attached to it.
    """
    if stage.store_predicate is None:
        return None
    b = bounds.stages[stage]
    values: dict[Var, PrimExpr] = {}
    for _, loop in around(stage):
        owner = next((x for x in bounds.stages if loop in x.iter_var_attrs), None)
        if loop.iter_type == THREAD_INDEX:
            launched = [x.launched[loop] for x in bounds.stages.values() if loop in x.launched]
            values.setdefault(loop.var, launched[0])
        elif owner is not None and (bound := thread_of(owner, loop)) is not None:
            values.setdefault(bound.var, loop.var)
    values.update({t.var: v for t, v in b.launched.items()})
    for leaf in stage.leaf_iter_vars:
        thread = thread_of(stage, leaf)
        if thread is not None:
            values[thread.var] = leaf.var
    values.update(bounds.axis_values(stage))
    for axis, form in b.values.items():
        values.setdefault(axis.var, form.to_expr(axis.dtype))
    inner = _inner(bounds, stage)
    for v, one in pinned(stage.store_predicate, inner).items():
        steps = inner[v][1]
        if v not in values and steps.is_const and 0 <= one < steps.const:
            values[v] = ops.const(one, v.dtype)
    for v in variables(stage.store_predicate):
        if v.name.startswith(("threadIdx", "blockIdx")) and v not in values and v not in inner:
            raise LowerError(
                f"set_store_predicate({stage.op.name}, ...)",
                f"{v.name} is not bound in {stage.op.name} or around it, nor in what is attached "
                "to it",
                "bind the thread axis to one of its loops",
            )
    return substitute(stage.store_predicate, values)


def _inner(bounds: Bounds, stage: Stage) -> dict[Var, tuple[str, Affine]]:
    """The thread axes in stages attached to this one: variable -> tag and number of threads."""
    axes: dict[Var, tuple[str, Affine]] = {}
    for below in bounds.schedule.stages:
        if below is stage or not is_below(below, stage, stage.leaf_iter_vars):
            continue
        b = bounds.stages[below]
        for leaf, attr in below.iter_var_attrs.items():
            if attr.bind_thread is not None and leaf in b.extents:
                steps = b.lengths.get(leaf) or b.extents[leaf]
                axes[attr.bind_thread.var] = (attr.bind_thread.thread_tag, steps)
        for t in below.launch_threads:
            axes[t.var] = (t.thread_tag, bounds.analyzer.affine(t.domain.extent))
    return axes


def over_inner(
    bounds: Bounds, stage: Stage, condition: PrimExpr | None, body: Stmt, reduces: bool
) -> Stmt:
    """A store in loops over those threads of attached stages that its condition is about.

    Raises:
        LowerError: if several of the threads would add to a reduction.
    """
    if condition is None:
        return body
    used = variables(condition)
    for v, (tag, steps) in _inner(bounds, stage).items():
        if v not in used:
            continue
        if reduces and v not in pinned(condition, {v}):
            raise LowerError(
                f"set_store_predicate({stage.op.name}, ...)",
                f"{stage.op.name} is a reduction, and the condition may let several threads of "
                f"{v.name} add to it",
                f"name one of them: {v.name} == 0",
            )
        fresh = Var(v.name, v.dtype)
        zero, extent = ops.const(0, v.dtype), steps.to_expr(v.dtype)
        body = For(fresh, zero, extent, THREAD_BINDING, substitute(body, {v: fresh}), {}, tag)
    return body


def stored(
    stage: Stage, condition: PrimExpr | None, buffer: Buffer, update: Stmt, reduces: bool
) -> Stmt:
    """A store where its condition holds.

    A reduction over threads adds in every thread whatever the condition, which then speaks of the
    result: it stands there as an attribute.
    """
    if condition is None:
        return update
    over = {a.var for a in stage.leaf_iter_vars if a.iter_type == COMM_REDUCE}
    if not variables(condition) & over:
        return IfThenElse(condition, update)
    return AttrStmt(buffer, "store_predicate", condition, update) if reduces else update


def buffered(stage: Stage, buffers: list[Buffer], nest: Stmt) -> Stmt:
    """A stage's loops, marked where two buffers in turns or non-temporal stores were asked for."""
    whole = stage.nontemporal
    keys = (
        ("double_buffer_scope", int(stage.double_buffered)),
        (NONTEMPORAL, whole if whole > 16 else min(whole, 1)),
    )
    for key, value in keys:
        for b in buffers if value else ():
            nest = AttrStmt(b, key, ops.const(value), nest)
    return nest
