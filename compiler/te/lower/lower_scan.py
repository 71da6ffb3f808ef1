"""The memory of a recurrence: its states, in which first steps and updates are computed."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from whet.compiler.errors import LowerError
from whet.compiler.te.lang.scan import ScanOp

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
            stage = schedule.stage_map[t.op]
            if (stage, t.value_index) in given or stage.is_output:
                raise LowerError(
                    f"lower: {op.name} keeps {t.name} in its own memory",
                    f"{t.name} is an argument or an output, too",
                    f"give te.compute(...) a copy: lambda *i: {t.name}(*i)",
                )
            out[stage, t.value_index] = k
    return out
