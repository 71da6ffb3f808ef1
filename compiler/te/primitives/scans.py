"""Stages of recurrences: what is computed at each step, and in whose memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from whet.compiler.errors import ScheduleError, Text
from whet.compiler.te.lang.relations import ROOT
from whet.compiler.te.lang.scan import ScanOp, scan_body
from whet.compiler.tir.expr import ORDERED, IterVar

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


def scans_of(schedule: Schedule) -> Iterator[tuple[Stage, ScanOp]]:
    """The recurrences of a schedule, and their operations."""
    for stage in schedule.stages:
        if isinstance(stage.op, ScanOp):
            yield stage, stage.op


def enter(stages: Sequence[Stage]) -> None:
    """Attach what the recurrences among some stages need at each step to their steps."""
    for stage in stages:
        for op in scan_body(stage.op) if isinstance(stage.op, ScanOp) else ():
            inside = stage.schedule.stage_map[op]
            inside.scan = stage
            inside.detach(ROOT)


def join(stage: Stage) -> None:
    """Attach a new stage to the steps of a recurrence, if it reads what is made there."""
    schedule = stage.schedule
    for scan, op in scans_of(schedule):
        states = {t.op for t in op.state_placeholder}
        read = stage.op.input_tensors
        if any(t.op in states or schedule.stage_map[t.op].scan is scan for t in read):
            stage.scan = scan
            stage.detach(ROOT)


def check_not_in_scan(stage: Stage, request: Text) -> None:
    """An error for what is computed in the memory of a recurrence: its first steps and updates."""
    for _, op in scans_of(stage.schedule):
        for role, tensors in (("first steps", op.init), ("update", op.update)):
            if any(stage.schedule.stage_map[t.op] is stage for t in tensors):
                raise ScheduleError(
                    request,
                    f"{stage.op.name} is the {role} of {op.name}, and computed in its memory",
                    "what it reads can be attached, inlined and kept elsewhere",
                )


def check_not_scan(stage: Stage, parent: Stage, request: Text) -> None:
    """An error for a recurrence that would be computed inside another stage's loop.

    One inside a recurrence is computed at its steps, with its first steps.
    """
    if isinstance(stage.op, ScanOp) and parent is not stage.scan:
        raise ScheduleError(
            request,
            f"{stage.op.name} keeps all its steps, which those after them read: it is computed "
            "as a whole",
            f"leave {stage.op.name} at the root; what its update reads can be attached",
        )


def check_not_ordered(stage: Stage, axis: IterVar, request: Text) -> None:
    """An error for the steps of a recurrence, of which each needs the one before."""
    if axis.iter_type == ORDERED:
        raise ScheduleError(
            request,
            f"the steps of {stage.op.name} come one after the other",
            "schedule what it does at each: s[update]",
        )


def check_not_step(stage: Stage, axis: IterVar, request: Text) -> None:
    """An error for the first axis of an update, which has one step wherever it is computed.

    Asked by what would divide or share its steps; to fuse, reorder or unroll it changes nothing.
    """
    for _, op in scans_of(stage.schedule) if stage.scan is not None else ():
        for t in op.update:
            if stage.schedule.stage_map[t.op] is stage and axis is stage.op.axis[0]:
                raise ScheduleError(
                    request,
                    f"{axis.name} is the step of {op.name}: {stage.op.name} computes one at a "
                    "time, each after the one before",
                    "schedule the axes inside a step: s[update].op.axis[1:]",
                )
