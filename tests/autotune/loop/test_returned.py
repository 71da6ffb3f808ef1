"""A search that others took for dead, and that lives: it claims what it measures again."""

from __future__ import annotations

import time

from autotune_pools import Recorder
from autotune_synthetic import small_cost

from whet.autotune import tune
from whet.db import TuningLog, session
from whet.db.store import claims


class TakenForDead(Recorder):
    """Another process ends the search's session once; results come when it has claimed again.

    Args:
        path: of the log.
    """

    def __init__(self, path):
        super().__init__(lambda inp: small_cost(inp.config))
        self.path, self.claimed, self.until = path, [], 0.0

    def collect(self, timeout=None):
        if len(self.submitted) < 10 or self.claimed:
            return super().collect(timeout)
        if not self.until:
            with TuningLog(self.path) as log:
                log.write("end it", lambda c: claims.end_session(c, 1, claims.GONE))
            self.until = time.monotonic() + 60
        assert time.monotonic() < self.until, "nothing was claimed again"
        time.sleep(0.05)
        with TuningLog(self.path, write=False) as log:
            query = "SELECT number FROM claim ORDER BY number"
            self.claimed = log.read("look", lambda c: list(c.exec_driver_sql(query).scalars()))
        return []


def test_a_search_that_was_taken_for_dead_claims_again_what_it_measures(
    small, tmp_path, monkeypatch
):
    monkeypatch.setattr(session, "BEAT_S", 0.2)
    pool = TakenForDead(tmp_path / "a.db")
    found = tune(small, 20, tmp_path / "a.db", "random", pool, progress=False)
    in_flight = [inp.config.key for inp in pool.submitted[8:12]]
    assert pool.claimed == [8, 9, 10, 11] and len(in_flight) == 4
    assert len(found.trials) == len(pool.submitted) == 20
    with TuningLog(tmp_path / "a.db", write=False) as log:
        states = log.read("look", lambda c: c.exec_driver_sql("SELECT state FROM session").all())
        left = log.read("look", lambda c: c.exec_driver_sql("SELECT * FROM claim").all())
    assert [state for (state,) in states] == ["finished"] and left == []
