"""Where the time of a search went: each trial's stages, and what the clock on the wall says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from whet.autotune.results.recorded import TaskTrials
    from whet.measure.values import MeasureResult

STAGES = ("lower", "build", "run", "wait")
MEANS = {
    "lower": "from the schedule to loop IR",
    "build": "to machine code",
    "run": "loading, checking and timing",
    "wait": "in queues, for a builder or for the measurer",
}


@dataclass(frozen=True)
class Times:
    """Seconds of a task's searches.

    Attributes:
        stages: by stage, one number for each trial that says where its time went.
        wall: seconds between the beginning and the last trial of each search, added up.
    """

    stages: dict[str, np.ndarray]
    wall: float

    @property
    def timed(self) -> int:
        """How many trials say where their time went."""
        return len(self.stages["run"])

    @property
    def total(self) -> dict[str, float]:
        """Seconds by stage, all trials together."""
        return {stage: float(values.sum()) for stage, values in self.stages.items()}


def times(task: TaskTrials) -> Times:
    """Where the time of a task's searches went."""
    rows = [stages(t.result) for t in task.searched if t.result.timings]
    table = np.asarray(rows, dtype=np.float64).reshape(len(rows), len(STAGES))
    by_stage = {stage: table[:, i] for i, stage in enumerate(STAGES)}
    return Times(by_stage, wall=max(task.elapsed, default=0.0))


def stages(result: MeasureResult) -> tuple[float, ...]:
    """A trial's seconds by stage; what is not explained by another stage is waiting."""
    lower, build, run = (result.timings.get(f"{name}_s", 0.0) or 0.0 for name in STAGES[:3])
    total = result.timings.get("total_s", 0.0) or 0.0
    return lower, build, run, max(total - lower - build - run, 0.0)
