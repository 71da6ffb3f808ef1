"""The primitive create_group: several stages that are moved together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError, Text
from whet.compiler.te.bounds.threads import ancestors
from whet.compiler.te.lang.graph import between
from whet.compiler.te.lang.relations import AT, ROOT
from whet.compiler.te.lang.tensor import GroupOp, Operation, PlaceholderOp, Tensor
from whet.compiler.te.primitives.checks import on_schedule

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


@on_schedule
def create_group(
    schedule: Schedule, outputs: Any, inputs: Any, include_inputs: bool = False
) -> Stage:
    """Group the stages between some inputs and some outputs: they are moved together.

    The group is a stage without loops. ``s[group].compute_at(...)``, or the group's own
    ``compute_at``, moves each of its stages that is not attached at a loop of another one of them.

    >>> A = te.placeholder((8,), name="A")
    >>> B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> D = te.compute((8,), lambda i: B[i] * 2.0, name="D")
    >>> s = te.create_schedule(D.op)
    >>> print(lower(s, [A, D]))
    def main(A: float32[8], D: float32[8]):
        B = allocate([8], "float32", "global")
        for i in range(8):
            B[i] = A[i] + float32(1.0)
        for i_1 in range(8):
            D[i_1] = B[i_1] * float32(2.0)
    >>> group = s.create_group(outputs=B, inputs=A)
    >>> outer, inner = s[D].split(D.op.axis[0], factor=4)
    >>> group.compute_at(s[D], outer)
    >>> print(lower(s, [A, D]))
    def main(A: float32[8], D: float32[8]):
        for i_outer in range(2):
            B = allocate([4], "float32", "global")
            for i in range(4):
                B[i] = A[i + i_outer * 4] + float32(1.0)
            for i_inner in range(4):
                D[i_outer * 4 + i_inner] = B[i_inner] * float32(2.0)

    Args:
        outputs: tensors, which belong to the group.
        inputs: tensors at which it ends; what is not computed from any of them is left outside.
        include_inputs: the inputs' stages belong to it, too.

    Returns:
        The group. ``stage.group`` is the group of a stage, ``group.num_child_stages`` counts.

    Raises:
        ScheduleError: for no stage between them, another group there in part, or no bool.
    """
    _check_bool(include_inputs)
    many, ends = (_tensors(schedule, x, k) for x, k in ((outputs, "outputs"), (inputs, "inputs")))
    # primitives may have replaced some operations
    now = [schedule[t].op for t in many], [schedule[t].op for t in ends]
    stages = [schedule.stage_map[op] for op in between(*now, include_inputs)]
    inside = [s for s in schedule.stages if s in stages]
    request = f"create_group({_names(many)}, {_names(ends)})"
    if not inside:
        raise ScheduleError(
            request,
            f"no stage is computed from {_names(ends)} for {_names(many)}",
            "inputs are tensors that the outputs are computed from",
        )
    group = _enter(schedule, inside, request)
    schedule.record(
        "create_group", None, (many, ends), {"include_inputs": bool(include_inputs)}, (group.op,)
    )
    return group


def _enter(schedule: Schedule, inside: Sequence[Stage], request: Text) -> Stage:
    """A new group of some stages, in the schedule."""
    around, members = _level(inside, request)
    group = type(inside[0])(schedule, GroupOp(f"group({', '.join(s.op.name for s in inside)})"))
    group.group, group.scan = around, inside[0].scan
    group.detach(ROOT)
    for s in members:
        s.group = group
    schedule.groups.append(group)
    schedule.stage_map[group.op] = group
    _keep_inside(inside, group)
    return group


def _names(tensors: Sequence[Tensor]) -> str:
    return ", ".join(t.op.name for t in tensors) or "nothing"


def _check_bool(include_inputs: object) -> None:
    if not isinstance(include_inputs, bool):
        raise ScheduleError(
            f"create_group(include_inputs={include_inputs!r})",
            "it is True or False whether the inputs' stages belong to the group",
        )


def _tensors(schedule: Schedule, given: Any, what: str) -> list[Tensor]:
    """Tensors of a schedule, from tensors or operations."""
    out = []
    for x in given if isinstance(given, (list, tuple)) else [given]:
        if not isinstance(x, (Tensor, Operation)):
            raise ScheduleError(
                f"create_group({what}={given!r})", f"a {type(x).__name__} is no tensor"
            )
        if schedule[x] in schedule.groups:
            raise ScheduleError(
                f"create_group({what}=...)", f"{schedule[x].op.name} is a group, and no tensor"
            )
        out.append(x if isinstance(x, Tensor) else x.output(0))
    return out


def _chain(stage: Stage | None) -> list[Stage]:
    """The groups around a stage, innermost first."""
    out = []
    while stage is not None and stage.group is not None:
        stage = stage.group
        out.append(stage)
    return out


def _level(inside: Sequence[Stage], request: Text) -> tuple[Stage | None, list[Stage]]:
    """The innermost group around all of some stages, and what of it they make up.

    Raises:
        ScheduleError: for a group of which only a part is among them, or stages of a recurrence's
            steps among others.
    """
    chains = [_chain(s) for s in inside]
    around = next((g for g in chains[0] if all(g in c for c in chains)), None)
    members: list[Stage] = []
    for s, chain in zip(inside, chains):
        below = chain if around is None else chain[: chain.index(around)]
        for g in below:
            lacking = [x.op.name for x in moved(g) if x not in inside]
            if lacking:
                raise ScheduleError(
                    request,
                    f"{g.op.name} would be in it in part: {', '.join(lacking)} is outside",
                    "groups are apart from each other, or one is inside the other",
                )
        top = below[-1] if below else s
        members += [] if top in members else [top]
    if any(s.scan is not inside[0].scan for s in inside):
        raise ScheduleError(
            request, "some of its stages are computed at the steps of a te.scan, others are not"
        )
    return around, members


def _keep_inside(inside: Sequence[Stage], group: Stage) -> None:
    """Compute at the group's root what is attached at a loop outside of it, as TVM does."""
    lost = []
    for s in inside:
        at = s.attach_stage if s.attach_type == AT else None
        if at is not None and s.place != group.place and group not in _chain(at):
            lost.append(s.op.name)
            s.detach(ROOT)
    if lost:
        warnings.warn(
            f"{group.op.name}: {', '.join(lost)} was attached outside of the group, and is "
            "computed at its root now",
            stacklevel=4,
        )


def moved(stage: Stage) -> list[Stage]:
    """The stages that move with a stage: those of a group, groups inside it included, or itself.

    Inputs of the schedule are left out: nothing computes them.
    """
    if not isinstance(stage.op, GroupOp):
        return [stage]
    inside = [x for s in stage.children for x in moved(s)]
    return [s for s in inside if not isinstance(s.op, PlaceholderOp)]


def check_groups(stage: Stage, parent: Stage, members: Sequence[Stage], request: Text) -> None:
    """An error for a place outside of the stage's group, or inside of what is moved."""
    if stage.group is not None and stage.group not in _chain(parent):
        raise ScheduleError(
            request,
            f"{parent.op.name} is outside of {stage.group.op.name}, which {stage.op.name} "
            "belongs to",
            f"move the group, or attach {stage.op.name} at a loop of its stages",
        )
    inner = [parent, *(up for up, _ in ancestors(parent))] if stage not in members else []
    if any(s in members for s in inner):
        raise ScheduleError(request, f"{parent.op.name} is computed inside {stage.op.name} itself")
