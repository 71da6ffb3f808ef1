"""One step of a trace: a primitive that was applied to a schedule or to a stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.te.lang.tensor import Operation


@dataclass(slots=True, frozen=True, eq=False)
class StageRef:
    """A stage as a step names it: by the operation that it was made for.

    ``op`` is what the stage computed just before the step; it has the axes that the step names.
    """

    origin: Operation
    op: Operation


@dataclass(slots=True, frozen=True, eq=False)
class Step:
    """One primitive: its name, its stage, arguments, options and results."""

    primitive: str
    stage: StageRef | None
    args: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[Any, ...]
