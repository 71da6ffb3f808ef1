"""Evidence of a task's sampler besides its own trials: loop features, and other tasks."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.results.recorded import search_options
from whet.autotune.search.transfer import Prior, read_prior, say_stale
from whet.compiler.errors import WhetError
from whet.db.store import vectors
from whet.db.store.ignored import warn_of_ignored

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import Features
    from whet.autotune.search.goal import Goal
    from whet.autotune.search.phase_times import PhaseTimes
    from whet.db import TuningLog
    from whet.db.values.records import RunRecord
    from whet.search_spaces import Config


@dataclass
class Learning:
    """Loop features and priors of the tasks of one call.

    Args:
        goals: the tasks.
        log: an open log.
        say: takes a line on features that cannot be used.
        spent: seconds of each phase.

    Attributes:
        call: the name of these tasks together, and when they were first searched together.
    """

    goals: Sequence[Goal]
    log: TuningLog
    say: Callable[[str], None]
    spent: PhaseTimes

    def __post_init__(self) -> None:
        self._now = time.time()
        self.call = _call_of(self.goals, self._now)

    def prepare(self) -> None:
        """Let the worker that makes loop features start, while the log is read."""
        from whet.autotune.features.watched import the_worker

        the_worker()

    def of(self, goal: Goal, transfer: bool) -> tuple[Features | None, Prior | None]:
        """The loop features of a task's points, and what the log knows of other tasks."""
        from whet.autotune import features as loop_features

        with self.spent.on("features"):
            features = goal.features = self._make(goal)
        if not transfer:
            say_stale(self.log, goal.task, goal.device, warn_of_ignored)
            return features, None
        columns = (loop_features.VERSION, len(loop_features.NAMES))
        with self.spent.on("transfer"):
            prior = read_prior(
                self.log, goal.task, goal.device, self.until(goal), columns, warn_of_ignored
            )
        return features, prior

    def until(self, goal: Goal) -> float:
        """Up to when runs of other tasks count: as long as this task's first search said.

        A search that is resumed then starts from what it started from, however much the log has
        learnt since, the other tasks of the same call included. Where that call was stopped before
        this task had a trial, the others' runs say when it began.
        """
        for run in goal.recorded.searches:
            if (then := _until(run)) is not None:
                return then if math.isfinite(then) else self._now
        return self.call[1]

    def text(self, goal: Goal, config: Config) -> str:
        """A trial's loop features as the log keeps them; "" where there are none."""
        from whet.autotune import features as loop_features

        features = goal.features
        if features is None or config not in goal.space:
            return ""
        with self.spent.on("features"):
            point = np.asarray([goal.space.encode(config)], dtype=np.int64)
            row = features.of_points(point)[0]
            if not np.isfinite(row).any():
                return ""
            return vectors.pack(row, loop_features.VERSION)

    def _make(self, goal: Goal) -> Any:
        """Loop features; None where the template's programs have no loops that can be read."""
        from whet.autotune.features import WatchedFeatures

        try:
            features = WatchedFeatures(goal.task)
            row = features.of_points(np.asarray([goal.space.encode(goal.default)], dtype=np.int64))
        except WhetError as error:
            said = str(error).strip().splitlines()[0]
            self.say(f"{goal.name}: the search goes without loop features: {said}")
            return None
        return features if np.isfinite(row).any() else None


def _call_of(goals: Sequence[Goal], now: float) -> tuple[str, float]:
    """A name for these tasks together, and when the first call for just them that learnt began."""
    keys = sorted(goal.task.workload.key for goal in goals)
    name = hashlib.blake2b("\n".join(keys).encode(), digest_size=8).hexdigest()
    times = [now]
    for goal in goals:
        for run in goal.recorded.searches:
            match search_options(run).get("call"):
                case [str(same), float(began)] if same == name and 0 < began < now:
                    times += [] if _until(run) is None else [began]
    return name, min(times)


def _until(run: RunRecord) -> float | None:
    """Up to when runs of other tasks counted for a run; None: it learnt from none."""
    then = search_options(run).get("transfer")
    if isinstance(then, int | float) and not isinstance(then, bool):
        return float(then)
    return None
