"""Stages that are computed ahead of a kernel's calls: which can be, and a schedule in two parts.

A stage after ``compute_ahead()``, and what is computed for it alone, are the part that runs once.
The rest is the kernel, to which such a stage is an input.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.relations import AHEAD, AT, ROOT
from whet.compiler.te.lang.tensor import Operation, PlaceholderOp

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


def ahead_stages(schedule: Schedule) -> list[Stage]:
    """The stages that are computed ahead, producers before consumers."""
    return [s for s in schedule.stages if s.attach_type == AHEAD]


def weights(schedule: Schedule, stage: Stage) -> list[Stage]:
    """The inputs that a stage is computed from, in the order of the schedule's stages."""
    return [s for s in _behind(schedule, [stage]) if isinstance(s.op, PlaceholderOp)]


def check_ahead(schedule: Schedule, packed: Sequence[Stage]) -> None:
    """Refuse stages that cannot be computed before the kernel is called.

    Args:
        schedule: what they belong to.
        packed: all stages that shall be computed ahead.

    Raises:
        ScheduleError: one is an output, has several results or is computed from no input; reads
            another of them; is computed from an input that the kernel, or another of them, reads
            too; or something of theirs is attached inside the kernel.
    """
    kernel = _behind(schedule, _outputs(schedule), stop=packed)
    packer: dict[Stage, Stage] = {}
    for stage in packed:
        _check_alone(stage)
        behind = _behind(schedule, [stage])
        _check_inputs(schedule, stage, behind, kernel, packed, packer)
        _check_attached(stage, behind, kernel)


def kernel_part(schedule: Schedule) -> Schedule:
    """What a call of the kernel computes; the schedule itself where nothing is computed ahead.

    A stage that is computed ahead is an input of the copy: a placeholder of its name and shape.

    Raises:
        ScheduleError: as :func:`check_ahead`, since later steps may have changed who reads what.
    """
    packed = ahead_stages(schedule)
    if not packed:
        return schedule
    check_ahead(schedule, packed)
    gone = set(_behind(schedule, packed)) - set(_behind(schedule, _outputs(schedule), stop=packed))
    out = _copy_of(schedule, {s.op for s in schedule.stages if s not in gone or s in packed})
    for stage in packed:
        twin, t = out.stage_map[stage.op], stage.op.output(0)
        out._replace_body(twin, PlaceholderOp(stage.op.name, t.shape, t.dtype))
        twin.attach_type = ROOT
        twin.reset_axes()
    return out


def ahead_part(schedule: Schedule) -> Schedule:
    """What is computed ahead; its outputs are the stages of :func:`ahead_stages`.

    Raises:
        ScheduleError: as :func:`check_ahead`.
    """
    packed = ahead_stages(schedule)
    check_ahead(schedule, packed)
    out = _copy_of(schedule, {s.op for s in _behind(schedule, packed)})
    out.outputs = [s.op for s in packed]
    for stage in packed:
        twin = out.stage_map[stage.op]
        twin.attach_type, twin.is_output = ROOT, True
    return out


def _copy_of(schedule: Schedule, kept: set[Operation]) -> Schedule:
    out = schedule.copy()
    out.stages = [s for s in out.stages if s.op in kept]
    return out


def _outputs(schedule: Schedule) -> list[Stage]:
    return [schedule.stage_map[op] for op in schedule.outputs]


def _behind(
    schedule: Schedule, readers: Sequence[Stage], stop: Collection[Stage] = ()
) -> list[Stage]:
    """Stages and all that they read, in the schedule's order; not entering what ``stop`` holds."""
    found = {s for s in readers if s not in stop}
    waiting = list(found)
    while waiting:
        for s in schedule.inputs(waiting.pop()):
            if s not in found and s not in stop:
                found.add(s)
                waiting.append(s)
    return [s for s in schedule.stages if s in found]


def _asked(stage: Stage) -> str:
    return f"compute_ahead({stage.op.name})"


def _check_alone(stage: Stage) -> None:
    name, asked = stage.op.name, _asked(stage)
    if stage.is_output:
        raise ScheduleError(
            asked,
            f"{name} is an output, which each call of the kernel computes",
            "make a kernel of its own of it, and call it once",
        )
    if stage.op.num_outputs != 1:
        raise ScheduleError(
            asked,
            f"{name} has {stage.op.num_outputs} results; one array takes the place of its input",
            "compute them in stages of their own",
        )


def _check_inputs(
    schedule: Schedule,
    stage: Stage,
    behind: Sequence[Stage],
    kernel: Collection[Stage],
    packed: Collection[Stage],
    packer: dict[Stage, Stage],
) -> None:
    """Refuse inputs that somebody else needs; note those of ``stage`` in ``packer``."""
    name, asked = stage.op.name, _asked(stage)
    for s in behind:
        if s is not stage and s in packed:
            raise ScheduleError(
                asked,
                f"{name} is computed from {s.op.name}, which is computed ahead itself",
                f"s[{s.op.name}].compute_root(): it goes with {name}",
            )
    given = [s for s in behind if isinstance(s.op, PlaceholderOp)]
    if not given:
        raise ScheduleError(
            asked,
            f"{name} is computed from no input: there is none whose place it could take",
            "compute_root, compute_at or compute_inline",
        )
    for w in given:
        if w in kernel:
            others = ", ".join(r.op.name for r in kernel if any(x is w for x in schedule.inputs(r)))
            raise ScheduleError(
                asked,
                f"{w.op.name} is read by {others}, too, in every call of the kernel, which gets "
                f"{name} in its place",
                f"let it read {name}, or compute {others} for {name} alone",
            )
        if w in packer:
            raise ScheduleError(
                asked,
                f"{packer[w].op.name} is computed ahead from {w.op.name}, too; one array takes the "
                "place of an input",
                f"compute one of {packer[w].op.name} and {name} with compute_root",
            )
        packer[w] = stage


def _check_attached(stage: Stage, behind: Collection[Stage], kernel: Collection[Stage]) -> None:
    """Refuse what is computed for ``stage`` inside loops of the kernel."""
    for s in behind:
        at = s.attach_stage if s.attach_type == AT and s is not stage else None
        if at is None or (at in behind and s not in kernel):
            continue
        why = "but the kernel reads it, too" if at in behind else "in the kernel"
        raise ScheduleError(
            _asked(stage),
            f"{s.op.name}, which {stage.op.name} is computed from, is computed at a loop of "
            f"{at.op.name}, {why}",
            f"s[{s.op.name}].compute_root()",
        )
