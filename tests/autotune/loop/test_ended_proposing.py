"""A search that ends while it proposes keeps the results that it had just been given."""

from __future__ import annotations

import pytest
from autotune_pools import Expecting, InDisorder, Recorder
from autotune_synthetic import gemm_cost

from whet.autotune import tune
from whet.autotune.search import loop
from whet.autotune.search.sharing import HURRY, Sharing
from whet.compiler.errors import LogError
from whet.db import TuningLog


class Giving(InDisorder, Recorder):
    """Gives one result at a time, and counts them."""

    def __init__(self):
        super().__init__(lambda inp: gemm_cost(inp.config), 7)
        self.given = 0

    def collect(self, timeout=None):
        done = super().collect(timeout)
        self.given += len(done)
        return done


def proposing(task, do):
    """A sampler that does something before each proposal, given the trial's number."""

    class Doing(Expecting):
        def propose(self, history):
            do(history.number)
            return super().propose(history)

    return Doing(task.config_space, lambda trials: 0.5)


def ending_with(task, error, pool, path):
    """A sampler that ends the search where a result was given that is not recorded yet."""

    def do(number):
        if pool.given > recorded(path)[0]:
            raise error

    return proposing(task, do)


def recorded(path):
    with TuningLog(path, write=False) as log:
        return len(log), [run.state for run in log.runs()]


@pytest.mark.parametrize(
    "error, state",
    [
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(143), "interrupted"),
        (LogError("propose", "the log is away", "wait for it"), "failed"),
    ],
)
def test_what_was_measured_is_recorded(gemm, tmp_path, error, state):
    pool, path = Giving(), tmp_path / "a.db"
    with pytest.raises(type(error)):
        tune(gemm, 40, path, ending_with(gemm, error, pool, path), pool, progress=False)
    assert recorded(path) == (pool.given, [state]) and pool.given > 0


def test_what_ended_it_is_told_where_the_results_cannot_be_written(gemm, tmp_path, monkeypatch):
    first = LogError("propose", "the log is away", "wait for it")
    pool, path = Giving(), tmp_path / "a.db"
    patience = []
    whole = Sharing.exchange

    def exchange(self, entries, places):
        if entries and not places:
            patience.append(self._session.log.patience.seconds)
            raise LogError("write", "the disk is full", "make room")
        return whole(self, entries, places)

    monkeypatch.setattr(Sharing, "exchange", exchange)
    with pytest.raises(LogError) as raised:
        tune(gemm, 40, path, ending_with(gemm, first, pool, path), pool, progress=False)
    assert raised.value is first
    (note,) = [n for n in first.__notes__ if "could not be recorded" in n]
    assert note.startswith("1 result ") and "the disk is full" in note
    assert patience == [HURRY]


def searched(task, path):
    """The configs of a search in order, and how many results were unwritten at each proposal."""
    pool, unwritten = Giving(), []
    sampler = proposing(task, lambda number: unwritten.append(pool.given - recorded(path)[0]))
    found = tune(task, 24, path, sampler, pool, progress=False)
    return [trial.config for trial in found.trials], unwritten


def test_results_are_written_before_a_proposal_that_may_take_long(gemm, tmp_path, monkeypatch):
    configs, unwritten = searched(gemm, tmp_path / "a.db")
    assert max(unwritten) == 1
    monkeypatch.setattr(loop, "LONG", -1.0)
    again, unwritten = searched(gemm, tmp_path / "b.db")
    assert unwritten == [0] * 23 and again == configs
