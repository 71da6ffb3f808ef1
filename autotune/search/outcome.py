"""The results of a call of tune(), task by task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from whet.autotune.results.logged_trials import FEW
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
from whet.db.values.decision import judge

if TYPE_CHECKING:
    from whet.autotune.search.entries import Entry
    from whet.autotune.session import Session
    from whet.autotune.tasks.task import Task


def results(session: Session) -> list[TuneResult]:
    """A result for each entry of a session, in order."""
    return [_result_of(session, entry) for entry in session.entries]


def _result_of(session: Session, entry: Entry) -> TuneResult:
    if entry.goal is not None:
        return _result(session, entry.goal)
    assert entry.error is not None
    return _failed(session, entry.task, entry.error, entry.place.kind)


def interrupted(session: Session) -> TuneResult | TuneResults:
    """The results in the log: the interruption may have come between writing and remembering."""
    outcomes = []
    for goal in session.goals:
        logged = Goal(goal.task, goal.weight, session.log, goal.device, goal.kind)
        outcomes.append(
            TuneResult(
                goal.task, logged.best, logged.default_trial, logged.trials.keep(session.log),
                session.log.location, INTERRUPTED, compared=False, peak=goal.peak,
                device=goal.kind,
            )
        )  # fmt: skip
    return outcomes[0] if len(outcomes) == 1 else TuneResults(outcomes)


def _result(session: Session, goal: Goal) -> TuneResult:
    seconds = _seconds(session, goal)
    trials = goal.trials if goal.tried > FEW else goal.trials.keep(session.log)
    if goal.error is not None:
        return replace(
            _failed(session, goal.task, goal.error, goal.kind), best=goal.best,
            default=goal.default_trial, trials=trials, peak=goal.peak, seconds=seconds,
        )  # fmt: skip
    known = goal.recorded
    verdict = judge(goal.finals) if goal.finals else known.verdict
    default = verdict.default or goal.default_trial or _first_default(session, goal)
    state = EXHAUSTED if goal.is_full and (session.exhausting or session.many) else FINISHED
    return TuneResult(
        goal.task, verdict.best, default, trials, session.log.location,
        STOPPED if goal.stopped else state, peak=goal.peak,
        speedup_interval=verdict.interval, better=verdict.better, stopped=goal.stopped,
        seconds=seconds, device=goal.kind,
    )  # fmt: skip


def _first_default(session: Session, goal: Goal) -> Trial | None:
    """A record of the default config that counts for nothing, as of a worker that was lost."""
    from whet.db.store import points

    record = session.log.read_records(
        "read trials", lambda reader: points.first_numbered(reader, goal.key, 0)
    )
    return None if record is None else Trial.of(record)


def _failed(session: Session, task: Task, error: Exception, kind: str) -> TuneResult:
    text = str(error).strip() or type(error).__name__
    return TuneResult(
        task, None, None, [], session.log.location, FAILED, compared=False, better=False,
        stopped=text.splitlines()[0], device=kind,
    )  # fmt: skip


def _seconds(session: Session, goal: Goal) -> dict[str, float]:
    """Where the time went: the workers' own, and this task's share of the search's."""
    spent = session.spent
    every = sum(g.measured for g in session.goals)
    share = goal.measured / every if every else 1 / len(session.goals)
    idle = max(0.0, spent.wall - session.busy_s)
    seconds = {"wall": spent.wall, "idle": idle} | spent.seconds
    return {k: v * share for k, v in seconds.items()} | goal.workers
