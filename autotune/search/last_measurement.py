"""The end of a search: one search at a time measures a task's finalists; all take its verdict."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from whet.autotune.results.recorded import COUNTED, KNOWN
from whet.autotune.results.recorded_columns import LOST
from whet.autotune.search.early_stop import nothing_works
from whet.autotune.search.finalists import SECONDS, finalists, measure_again, numbered
from whet.db.values.decision import FINALISTS_RUN, judge
from whet.db.values.records import TrialEntry

if TYPE_CHECKING:
    from whet.autotune.search.goal import Goal
    from whet.autotune.session import Session
    from whet.measure import Pool

RESERVE = 0.1
"""The share of a timeout that is left for the last measurement, and :data:`SECONDS` at most."""
FINALS = 30.0
"""Seconds for the last measurements of many tasks together."""
SHARE, LEAST = 0.15, 2.0
"""The share of the search's time for the last measurement, within :data:`LEAST` and
:data:`SECONDS`: it shall not be most of a short search."""


def measure_finalists(session: Session, pool: Pool) -> None:
    """Measure the finalists of each task of a session, where anything was tried since the last."""
    seconds = min(max(LEAST, SHARE * (time.monotonic() - session.began)), SECONDS)
    seconds = min(seconds, FINALS / len(session.goals))
    if session.limits.timeout is not None:
        seconds = min(seconds, RESERVE * session.limits.timeout / len(session.goals))
    for goal in session.goals:
        fresh = goal.measured or goal.others
        if goal.error is None and (fresh or not goal.recorded.settled):
            with session.spent.on("finalists"):
                _measure_in_turn(session, goal, pool, seconds)


def _measure_in_turn(session: Session, goal: Goal, pool: Pool, seconds: float) -> None:
    """Measure a task's finalists, unless another search has just done it."""
    assert session.shared is not None
    if not goal.runs_in(session.log):
        goal.fail(nothing_works([]))
        return

    def wait() -> None:
        session.bar.at(goal.name)
        session.bar.enter("another search measures the finalists")

    with session.shared.turn(goal, wait):
        if not (goal.catch_up(session.log) and goal.recorded.settled):
            _measure(session, goal, pool, seconds)


def _measure(session: Session, goal: Goal, pool: Pool, seconds: float) -> None:
    default = goal.default_trial
    tried = [*([] if default is None else [default]), *goal.leaders, *goal.outside]
    chosen = numbered(finalists(tried, goal.default))
    if not chosen:
        lost = [result for result in goal.recent.values() if result.status == LOST]
        goal.fail(nothing_works([t.result for t in goal.trials] + lost))
        return
    session.bar.at(goal.name)
    session.bar.enter(f"measuring the best {len(chosen)} once more, interleaved")
    counted = session.log.counts(goal.key).trials
    measured = measure_again(chosen, pool, goal.input, seconds)
    if judge(measured).best is None:
        goal.fail(nothing_works([t.result for t in measured]))
        return
    more = {COUNTED: counted}
    if goal.tried + goal.uncounted == counted:
        more[KNOWN] = goal.tried
    run_id = session.start_run(goal, FINALISTS_RUN, more)
    texts = [session.learning.text(goal, t.config) for t in measured]
    session.log.add_trials(
        [
            TrialEntry(run_id, t.number, t.config, t.result, t.flop, text)
            for t, text in zip(measured, texts)
        ]
    )
    session.log.finish_run(run_id, "finished")
    goal.finals = measured
