"""Whole searches on a log, what they were told of, and what holds after a fault."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from autotune_pools import Recorder
from autotune_synthetic import small_cost

from whet.autotune import tune
from whet.db import TuningLog
from whet.db.values.decision import FINALISTS_RUN

TRIALS = 10


class Told:
    """A search's pool and callback: what was measured, and what was acknowledged.

    Args:
        pool: measures; None: a formula does.

    Attributes:
        acknowledged: configs by their keys, with their costs.
    """

    def __init__(self, pool: Recorder | None = None) -> None:
        self.pool = pool or Recorder(lambda inp: small_cost(inp.config))
        self.acknowledged: dict[str, tuple[float, ...]] = {}
        self.times: Counter[str] = Counter()

    def __call__(self, task: Any, trial: Any) -> None:
        self.acknowledged[trial.config.key] = tuple(trial.result.costs)
        self.times[trial.config.key] += 1

    @property
    def measured(self) -> list[str]:
        """Keys of the configs that were given to the pool."""
        return [inp.config.key for inp in self.pool.submitted]


def search(task: Any, log: Any, told: Told, trials: int = TRIALS, **more: Any) -> Any:
    """Tune a task by chance."""
    more = {"progress": False, **more}
    return tune(task, trials, log, "random", told.pool, callbacks=[told], **more)


def recorded(log: TuningLog) -> dict[str, tuple[float, ...]]:
    """The configs that searches recorded, each with its costs; refuses one that is there twice."""
    finals = {run.id for run in log.runs() if run.sampler == FINALISTS_RUN}
    trials = [trial for trial in log.trials() if trial.run_id not in finals]
    found = {trial.config.key: tuple(trial.result.costs) for trial in trials}
    assert len(found) == len(trials), "a config is recorded twice"
    return found


def states(log: TuningLog, table: str) -> list[str]:
    """The states of the log's sessions, or of its runs."""
    query = f"SELECT state FROM {table} ORDER BY id"
    return log.read("look", lambda c: list(c.exec_driver_sql(query).scalars()))


def claims(log: TuningLog) -> int:
    """The number of configs that are claimed."""
    return log.read("look", lambda c: c.exec_driver_sql("SELECT count(*) FROM claim").scalar_one())


def check_told(location: str, told: Told) -> dict[str, tuple[float, ...]]:
    """Check that all that a search acknowledged is recorded once; what is recorded."""
    assert set(told.times.values()) <= {1}
    with TuningLog(location, write=False) as log:
        there = recorded(log)
        (counted,) = [counts.trials for _, counts in log.tasks()] or [0]
        assert counted == len(there)
        for key, costs in told.acknowledged.items():
            assert there.get(key) == costs, f"{key} was acknowledged"
        if log.place.path is not None:
            whole = log.read("look", lambda c: c.exec_driver_sql("PRAGMA integrity_check").all())
            assert whole == [("ok",)]
    return there


def check_resumed(task: Any, location: str, before: Told, trials: int = TRIALS) -> None:
    """Go on with a search, which measures nothing that is recorded; then nothing is left to do."""
    there = check_told(location, before)
    assert set(there) <= set(before.measured)
    with TuningLog(location, write=False) as log:
        sessions = len(states(log, "session"))
    after = Told()
    found = search(task, location, after, trials)
    assert len(found.trials) == trials and found.state == "finished"
    assert not set(after.measured) & set(there), "measured again"
    assert len(after.measured) == len(set(after.measured)) == trials - len(there)
    assert len(check_told(location, after)) == trials
    with TuningLog(location, write=False) as log:
        assert claims(log) == 0
        # A search that finds all done opens no session, and ends none that could not be closed.
        assert len(states(log, "session")) == sessions or "running" not in states(log, "session")
    again = Told()
    assert search(task, location, again, trials).best == found.best
    assert again.measured == []


class Striking(Recorder):
    """A pool that does something once, when it is given its fifth candidate.

    Args:
        strike: what it does.
        at: of which candidate.
    """

    def __init__(self, strike: Callable[[], Any], at: int = 5) -> None:
        super().__init__(lambda inp: small_cost(inp.config))
        self.strike, self.at = strike, at

    def submit(self, inp: Any) -> int:
        ticket = super().submit(inp)
        if len(self.submitted) == self.at:
            self.strike()
        return ticket


class Later:
    """Something that ends a fault, after some seconds, in a thread of its own.

    Args:
        seconds: until then.
        do: what is done.
    """

    def __init__(self, seconds: float, do: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self._seconds, self._do = seconds, do
        self._thread = threading.Thread(target=self._run, name="whet end of a fault")

    def _run(self) -> None:
        time.sleep(self._seconds)
        try:
            self._do()
        except BaseException as error:
            self.error = error

    def start(self) -> None:
        """Let the seconds run."""
        self._thread.start()

    def join(self) -> None:
        """Wait until it is done, and raise what it raised."""
        self._thread.join(120)
        if self.error is not None:
            raise self.error
