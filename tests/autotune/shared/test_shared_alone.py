"""A search that has its log to itself: the trials that it always had, its claims, its patience."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import threading

import pytest
from autotune_pools import Recorder
from autotune_synthetic import gemm_cost, small_cost

from whet.autotune import tune
from whet.autotune.search import sharing
from whet.db import TuningLog

# Recorded before searches shared their logs, with seed 3 and 60 trials (42: the whole space).
SAME = {
    ("random", 4, "gemm"): "ac472690001954a2",
    ("random", 8, "gemm"): "ac472690001954a2",
    ("random", 4, "small"): "32f1d860e49b0193",
    ("grid", 8, "gemm"): "c13e6eccf0a22480",
    ("genetic", 4, "gemm"): "4d2a173398315ba5",
    ("genetic", 8, "gemm"): "ebae6a011b6fb4b0",
    ("tpe", 4, "gemm"): "1531b6275b76b90d",
    ("tpe", 8, "gemm"): "5245503493c2a98d",
    ("qmc", 4, "small"): "8b1f3571e32f2ca1",
}


@pytest.mark.parametrize("sampler, capacity, name", SAME)
def test_the_trials_are_those_of_a_log_that_nobody_shares(
    gemm, small, tmp_path, sampler, capacity, name
):
    task, cost = (gemm, gemm_cost) if name == "gemm" else (small, small_cost)
    pool = Recorder(lambda inp: cost(inp.config), capacity)
    tune(task, 60, tmp_path / "a.db", sampler, pool, seed=3, progress=False)
    keys = "\n".join(inp.config.key for inp in pool.submitted)
    assert hashlib.sha256(keys.encode()).hexdigest()[:16] == SAME[sampler, capacity, name]


def test_what_each_proposal_had_been_told_is_in_the_log(small, tmp_path):
    pool = Recorder(lambda inp: small_cost(inp.config))
    tune(small, 20, tmp_path / "a.db", "random", pool, progress=False)
    with TuningLog(tmp_path / "a.db", write=False) as log:
        run = log.runs()[0]
        query = f"SELECT number, told FROM trial WHERE run_id = {run.id} ORDER BY number"
        told = log.read("look", lambda c: c.exec_driver_sql(query).all())
    assert [number for number, _ in told] == list(range(20))
    # Four in flight: the n-th was proposed when the result before its four was told.
    assert [text for _, text in told] == ["[]"] * 4 + [f"[{n}]" for n in range(16)]


def test_a_finished_search_neither_claims_nor_measures(small, tmp_path):
    pool = Recorder(lambda inp: small_cost(inp.config))
    for _ in range(2):
        found = tune(small, 12, tmp_path / "a.db", "random", pool, progress=False)
    assert len(found.trials) == len(pool.submitted) == 12
    with TuningLog(tmp_path / "a.db", write=False) as log:
        states = log.read(
            "look", lambda c: list(c.exec_driver_sql("SELECT state FROM session").scalars())
        )
        claims = log.read("look", lambda c: c.exec_driver_sql("SELECT * FROM claim").all())
    assert states == ["finished"] and claims == []


class Locking(Recorder):
    """Has the log locked by somebody else from its fifth candidate on, for a while or for good."""

    def __init__(self, path, seconds):
        super().__init__(lambda inp: small_cost(inp.config))
        self.path, self.seconds = path, seconds
        self.raw = None

    def submit(self, inp):
        ticket = super().submit(inp)
        if len(self.submitted) == 5:
            self.raw = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self.raw.execute("BEGIN IMMEDIATE")
            threading.Timer(self.seconds, self.end).start()
        return ticket

    def end(self):
        self.raw.rollback()


class Pressed(Locking):
    """Ctrl-C is pressed, instead of the lock's end."""

    def end(self):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_search_waits_for_its_log_and_says_so(small, tmp_path, capsys):
    pool = Locking(tmp_path / "a.db", 4.0)
    found = tune(small, 12, tmp_path / "a.db", "random", pool)
    assert len(found.trials) == len(pool.submitted) == 12
    said = capsys.readouterr().err
    assert "database is locked; waited for" in said and "answers again, after" in said


def test_ctrl_c_is_heard_while_a_search_waits_for_its_log(small, tmp_path, capsys):
    pool = Pressed(tmp_path / "a.db", 1.0)
    with pytest.raises(KeyboardInterrupt):
        tune(small, 12, tmp_path / "a.db", "random", pool, progress=False)
    assert "interrupted" in capsys.readouterr().err
    pool.raw.rollback()


def test_one_search_at_a_time_measures_the_finalists(small, tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "LISTEN_S", 0.02)
    results, together, busy = [], [], threading.Lock()

    class Watched(Recorder):
        def remeasure(self, inputs, rounds):
            together.append(busy.acquire(blocking=False))
            found = super().remeasure(inputs, rounds)
            busy.release()
            return found

    pools = [Watched(lambda inp: small_cost(inp.config)) for _ in range(2)]

    def search(pool):
        results.append(tune(small, 40, tmp_path / "a.db", "random", pool, progress=False))

    TuningLog(tmp_path / "a.db").close()
    threads = [threading.Thread(target=search, args=(pool,)) for pool in pools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [True]
    assert results[0].best == results[1].best
    assert [t.config for t in results[0].trials] == [t.config for t in results[1].trials]
    measured = [inp.config.key for pool in pools for inp in pool.submitted]
    assert len(measured) == len(set(measured)) == 40


def test_a_search_that_comes_when_all_is_tried_takes_the_others_verdict(small, tmp_path):
    """Between its reading of the log and its first claim, another search fills it."""
    first = Recorder(lambda inp: small_cost(inp.config))
    found = []

    class Late(Recorder):
        def compare_with(self, default):
            super().compare_with(default)
            if not found:
                found.append(tune(small, 40, tmp_path / "a.db", "random", first, progress=False))

    late = Late(lambda inp: small_cost(inp.config))
    own = tune(small, 40, tmp_path / "a.db", "random", late, progress=False)
    assert len(first.submitted) == 40 and late.submitted == []
    assert own.best == found[0].best and own.best is not None
    assert [t.config for t in own.trials] == [t.config for t in found[0].trials]
