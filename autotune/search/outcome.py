"""What a call of tune() found, task by task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.autotune.results.recorded import read_recorded
from whet.autotune.results.result import (
    EXHAUSTED,
    FAILED,
    FINISHED,
    INTERRUPTED,
    STOPPED,
    TuneResult,
    TuneResults,
)
from whet.autotune.results.trial import Trial
from whet.autotune.search.study import slots
from whet.db.values.decision import cheapest, judge

if TYPE_CHECKING:
    from whet.autotune.search.goal import Goal
    from whet.autotune.session import Session
    from whet.autotune.tasks.task import Task
    from whet.measure.values import MeasureResult


class Outcome:
    """Makes results of a session's state.

    Args:
        session: whose.

    Attributes:
        finals: the interleaved measurement of each goal that had one, by its ``id``.
        peaks: FLOP/s of one core at each goal's dtype, by its ``id``.
        busy_s: seconds in which at least one candidate was being built or measured.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workers: dict[int, dict[str, float]] = {}
        self.finals: dict[int, list[Trial]] = {}
        self.peaks: dict[int, float] = {}
        self.busy_s = 0.0

    def measured(self, goal: Goal, result: MeasureResult) -> None:
        """Count the workers' time on a new trial."""
        own = self._workers.setdefault(id(goal), {"build": 0.0, "measure": 0.0})
        for name, parts in (("build", ("lower_s", "build_s")), ("measure", ("run_s",))):
            own[name] += sum(result.timings.get(part) or 0.0 for part in parts)

    def results(self) -> list[TuneResult]:
        """A result for each task of the session, in order."""
        goals = {id(goal.task): goal for goal in self._session.goals}
        return [
            self._result(goals[id(task)]) if id(task) in goals else self._never_begun(task)
            for task in self._session.tasks
        ]

    def interrupted(self) -> TuneResult | TuneResults:
        """What is in the log: the interruption may have come between writing and remembering."""
        found = []
        for goal in self._session.goals:
            task, space, log = goal.task, goal.space, self._session.log
            known = read_recorded(
                log, task.workload, task.target, space.fingerprint, self._session.device
            )
            trials = [Trial.of(record) for record in known.searched if record.config in space]
            placed = slots(trials, goal.default)
            trials = list(placed.values())
            base = placed.get(0)
            result = TuneResult(
                task,
                cheapest(trials),
                base,
                trials,
                log.location,
                INTERRUPTED,
                compared=False,
                peak=self.peaks.get(id(goal), 0.0),
            )
            found.append(result)
        return found[0] if len(found) == 1 else TuneResults(found)

    def _result(self, goal: Goal) -> TuneResult:
        log = self._session.log.location
        seconds = self._seconds(goal)
        peak = self.peaks.get(id(goal), 0.0)
        if goal.error is not None:
            best = cheapest(goal.trials)
            default = goal.found.get(goal.default.key)
            return TuneResult(
                goal.task, best, default, goal.trials, log, FAILED, compared=False, peak=peak,
                better=False, stopped=_first_line(goal.error), seconds=seconds,
            )  # fmt: skip
        known = goal.recorded
        verdict = judge(self.finals[id(goal)]) if id(goal) in self.finals else known.verdict
        default = verdict.default or goal.found.get(goal.default.key)
        if default is None and known.default is not None:
            default = Trial.of(known.default)
        return TuneResult(
            goal.task, verdict.best, default, goal.trials, log, self._state(goal), peak=peak,
            speedup_interval=verdict.interval, better=verdict.better, stopped=goal.stopped,
            seconds=seconds,
        )  # fmt: skip

    def _state(self, goal: Goal) -> str:
        if goal.stopped:
            return STOPPED
        full = goal.size is not None and len(goal.found) >= goal.size
        return EXHAUSTED if full and (self._session.exhausting or self._session.many) else FINISHED

    def _never_begun(self, task: Task) -> TuneResult:
        error = self._session.failure(task)
        assert error is not None
        return TuneResult(
            task, None, None, [], self._session.log.location, FAILED, compared=False,
            better=False, stopped=_first_line(error),
        )  # fmt: skip

    def _seconds(self, goal: Goal) -> dict[str, float]:
        """Where the time went: the workers' own, and this task's share of the search's."""
        spent = self._session.spent
        every = sum(g.measured for g in self._session.goals)
        share = goal.measured / every if every else 1 / len(self._session.goals)
        idle = max(0.0, spent.wall - self.busy_s)
        found = {"wall": spent.wall, "idle": idle} | spent.seconds
        return {k: v * share for k, v in found.items()} | self._workers.get(id(goal), {})


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
