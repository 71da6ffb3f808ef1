"""The results of a call of tune(), task by task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
from whet.autotune.search.goal import Goal
from whet.db.values.decision import cheapest, judge

if TYPE_CHECKING:
    from whet.autotune.session import Session
    from whet.autotune.tasks.task import Task


def results(session: Session) -> list[TuneResult]:
    """A result for each task of a session, in order."""
    goals = {id(goal.task): goal for goal in session.goals}
    return [
        _result(session, goals[id(task)])
        if id(task) in goals
        else _failed(session, task, session.failures[id(task)])
        for task in session.tasks
    ]


def interrupted(session: Session) -> TuneResult | TuneResults:
    """The results in the log: the interruption may have come between writing and remembering."""
    outcomes = []
    for goal in session.goals:
        logged = Goal(goal.task, goal.weight, session.log, session.device)
        outcomes.append(
            TuneResult(
                goal.task, cheapest(logged.trials), logged.placed.get(0), logged.trials,
                session.log.location, INTERRUPTED, compared=False, peak=goal.peak,
            )
        )  # fmt: skip
    return outcomes[0] if len(outcomes) == 1 else TuneResults(outcomes)


def _result(session: Session, goal: Goal) -> TuneResult:
    seconds = _seconds(session, goal)
    default = goal.found.get(goal.default.key)
    if goal.error is not None:
        return replace(
            _failed(session, goal.task, goal.error), best=cheapest(goal.trials), default=default,
            trials=goal.trials, peak=goal.peak, seconds=seconds,
        )  # fmt: skip
    known = goal.recorded
    verdict = judge(goal.finals) if goal.finals else known.verdict
    default = verdict.default or default
    if default is None and known.default is not None:
        default = Trial.of(known.default)
    full = goal.size is not None and len(goal.found) >= goal.size
    state = EXHAUSTED if full and (session.exhausting or session.many) else FINISHED
    return TuneResult(
        goal.task, verdict.best, default, goal.trials, session.log.location,
        STOPPED if goal.stopped else state, peak=goal.peak,
        speedup_interval=verdict.interval, better=verdict.better, stopped=goal.stopped,
        seconds=seconds,
    )  # fmt: skip


def _failed(session: Session, task: Task, error: Exception) -> TuneResult:
    text = str(error).strip() or type(error).__name__
    return TuneResult(
        task, None, None, [], session.log.location, FAILED, compared=False, better=False,
        stopped=text.splitlines()[0],
    )  # fmt: skip


def _seconds(session: Session, goal: Goal) -> dict[str, float]:
    """Where the time went: the workers' own, and this task's share of the search's."""
    spent = session.spent
    every = sum(g.measured for g in session.goals)
    share = goal.measured / every if every else 1 / len(session.goals)
    idle = max(0.0, spent.wall - session.busy_s)
    seconds = {"wall": spent.wall, "idle": idle} | spent.seconds
    return {k: v * share for k, v in seconds.items()} | goal.workers
