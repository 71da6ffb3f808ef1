"""Results are in the log before a search is told of them, claims before it measures."""

from __future__ import annotations

import sqlite3

import pytest
from autotune_pools import InDisorder, Recorder
from autotune_synthetic import gemm_cost
from sqlalchemy import Engine, event

from whet.autotune import tune
from whet.autotune.search.goal import Goal
from whet.db.values.identity import config_digest


class OneByOne(InDisorder, Recorder):
    """Gives one result at a time; with each candidate it looks whether that is claimed."""

    def __init__(self, path):
        super().__init__(lambda inp: gemm_cost(inp.config), 7)
        self.path, self.unclaimed = path, []

    def submit(self, inp):
        digest = config_digest(inp.config)
        if not look(self.path, "SELECT 1 FROM claim WHERE config_digest = ?", digest):
            self.unclaimed.append(inp.config)
        return super().submit(inp)


def look(path, query, *values):
    """Rows of a log as another process sees them: only what is committed."""
    with sqlite3.connect(path, timeout=30) as connection:
        rows = connection.execute(query, values).fetchall()
    connection.close()
    return rows


@pytest.fixture
def told(monkeypatch, tmp_path):
    """The trials that were told, each with whether the log had it by then."""
    seen = []
    real = Goal.tell

    def tell(self, number, result, name):
        query = "SELECT 1 FROM trial WHERE number = ?"
        seen.append((number, bool(look(tmp_path / "a.db", query, number))))
        real(self, number, result, name)

    monkeypatch.setattr(Goal, "tell", tell)
    return seen


def test_nothing_is_told_before_it_is_committed_nor_measured_before_it_is_claimed(
    gemm, tmp_path, told
):
    pool = OneByOne(tmp_path / "a.db")
    tune(gemm, 60, tmp_path / "a.db", "random", pool, progress=False)
    assert len(told) == 60 and all(there for _, there in told)
    assert [number for number, _ in told] == list(range(60))
    assert pool.unclaimed == [] and len(pool.submitted) == 60


def test_results_and_the_next_claims_take_one_transaction(gemm, tmp_path):
    begun = []

    def note(connection, cursor, statement, *more):
        begun.append(statement == "BEGIN IMMEDIATE")

    event.listen(Engine, "before_cursor_execute", note)
    try:
        pool = OneByOne(tmp_path / "a.db")
        tune(gemm, 60, tmp_path / "a.db", "random", pool, progress=False)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    # 60 results come one at a time, and 60 configs are claimed, the first 7 at once: in a
    # transaction each it would be more than 110.
    assert 60 < sum(begun) < 90
