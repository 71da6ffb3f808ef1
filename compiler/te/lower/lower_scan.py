"""A recurrence's memory, in which first steps and updates are computed, and its steps' axes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.scan import ScanOp, fixed_points, scan_body
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir.expr import IterVar, PrimExpr, ProducerLoad, Var, int_value
from whet.compiler.tir.stmt import OWN_STEPS, SERIAL, THREAD_BINDING, Allocate, For, Stmt
from whet.compiler.tir.visit.rewrite import changed, nodes, nodes_of, variables

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


def shared(
    schedule: Schedule, op: ScanOp, given: Collection[tuple[Stage, int]]
) -> dict[tuple[Stage, int], int]:
    """What is kept where a state is: (stage, output) -> the number of the state.

    Args:
        schedule: what is lowered.
        op: the recurrence.
        given: the outputs of stages that are arguments.

    Raises:
        LowerError: for a first step or an update that an argument keeps.
    """
    out = {}
    for k, parts in enumerate(zip(op.init, op.update, op.state_placeholder)):
        for t in parts:
            if t.op not in schedule.stage_map:
                continue  # an update that reads no state
            stage = schedule.stage_map[t.op]
            if (stage, t.value_index) in given or stage.is_output:
                raise LowerError(
                    f"lower: {op.name} keeps {t.name} in its own memory",
                    f"{t.name} is an argument or an output, too",
                    f"give te.compute(...) a copy: lambda *i: {t.name}(*i)",
                )
            out[stage, t.value_index] = k
    return out


def in_threads(stage: Stage, op: ScanOp, steps: Stmt) -> Stmt:
    """The loop over the steps, inside the threads that do each of them: one kernel for all.

    Where all of a step is in one nest of loops over threads, and no index depends on another one
    of the steps before, a thread reads what it has written itself. Other steps stay as they are:
    the host launches them one after the other.

    Raises:
        LowerError: for ``env_threads`` around other steps.
    """
    out = _inside(op, steps)
    if out is None and stage.launch_threads:
        names = ", ".join(t.thread_tag for t in stage.launch_threads)
        raise LowerError(
            f"env_threads({op.name}, [{names}])",
            f"these threads would run all steps of {op.name}, and a step reads what others of them "
            "have written",
            "all of a step in one stage bound to threads, no column reading another; or leave "
            "env_threads out: each step is a launch",
        )
    return steps if out is None else out


def _inside(op: ScanOp, steps: Stmt) -> Stmt | None:
    if not isinstance(steps, For) or steps.kind != SERIAL:
        return None
    threads, single = [], [changed(steps, annotations={**steps.annotations, OWN_STEPS: True})]
    body = steps.body
    while isinstance(body, For):
        if body.kind == THREAD_BINDING:
            threads.append(body)
        elif int_value(body.extent) == 1:  # the step of the update
            single.append(body)
        else:
            break
        body = body.body
    moved = {n.var for n in single}
    if not threads or any(moved & variables(n.extent) for n in threads):
        return None
    if not all(fixed_points(op)[a] for a in op.spatial_axis):
        return None
    if any(n.buffer.storage_scope == "global" for n in nodes_of(body, Allocate)):
        return None
    for n in reversed((*threads, *single)):
        body = changed(n, body=body)
    return body


def step_axes(op: ScanOp) -> dict[ComputeOp, dict[IterVar, int | None]]:
    """What a step computes -> axis -> how far its index is from the step.

    The first axis of an update is the step. An axis of another stage is ``c`` from it where all
    its readers read it at ``t + c``; it has no entry where no reader's index names the step, and
    None where the indices differ, or where a recurrence inside this one reads it.
    """
    body = scan_body(op)
    nested = {y for x in body if isinstance(x, ScanOp) and x is not op for y in scan_body(x)}
    out: dict[ComputeOp, dict[IterVar, int | None]] = {}
    for t in op.update:
        assert isinstance(t.op, ComputeOp)
        out[t.op] = {t.op.axis[0]: 0}
    for x in reversed(body):
        if not isinstance(x, ComputeOp):
            continue  # it needs whole tensors
        if x in nested:
            for t in x.input_tensors:
                _place(out, t.op, [None] * t.ndim, body)
            continue
        known = {a.var: c for a, c in out.setdefault(x, {}).items()}
        for n in nodes(x.body):
            if isinstance(n, ProducerLoad):
                _place(out, n.producer.op, [_offset(i, known) for i in n.indices], body)
    return {x: axes for x, axes in out.items() if x not in nested}


#: of an index that does not name the step
_ABSENT = object()


def _offset(index: PrimExpr, known: dict[Var, int | None]) -> object:
    """How far an index is from the step: a number, None if unknown, or _ABSENT."""
    form = Analyzer().affine(index)
    of_step = [v for v in form.terms if v in known]
    if not of_step:
        hidden = any(not isinstance(atom, Var) for atom, _ in form.terms.values())
        return None if hidden else _ABSENT
    (atom, coef), *more = form.terms.values()
    offset = known.get(atom) if isinstance(atom, Var) else None
    return None if more or coef != 1 or offset is None else offset + form.const


def _place(
    out: dict[ComputeOp, dict[IterVar, int | None]],
    op: Operation,
    offsets: list[object],
    body: Collection[Operation],
) -> None:
    if not isinstance(op, ComputeOp) or op not in body:
        return
    axes = out.setdefault(op, {})
    for a, c in zip(op.axis, offsets):
        if c is not _ABSENT:
            here = c if isinstance(c, int) else None
            axes[a] = here if axes.get(a, here) == here else None
