"""Rows of a log that cannot be read: every reader passes them over, and a warning counts them."""

from __future__ import annotations

import sqlite3
import warnings

import pytest
from db_records import AVX2, HERE, MATMUL, SPACE, config, failed, ok, start

from whet.compiler.errors import LogError
from whet.db import IgnoredRecordsWarning, TuningLog, similar

BROKEN = [
    "config = '{oops'",
    "config = '{}'",
    "config = '[]'",
    "config = 'null'",
    "config = replace(config, '5face0', 'another')",
    "costs = '[1'",
    "costs = '[null]'",
    """costs = '["x"]'""",
    "costs = '[]'",
    "costs = '[-1.0]'",
    "costs = '[NaN]'",
    "cost = NULL",
    "cost = 1e-9",
    "timings = ''",
    "timings = '[1]'",
    """timings = '{"run_s": "long"}'""",
    "environment = '7'",
    "status = 'ok', costs = '[[1.0]]'",
    "flop = 'many'",
    "timestamp = 'noon'",
    "error = x'00ff'",
]
"""Damages of a row; each to the cheapest trial, which was the best."""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.db"
    with TuningLog(path) as log:
        run = start(log)
        for number, cost in enumerate((4.0, 1.0, 2.0)):
            log.add_trial(run, number, config(number), ok(cost, program=f"p{number}"))
        log.add_trial(run, 3, config(3), failed())
        log.finish_run(run)
    return path


def alter(path, statement):
    raw = sqlite3.connect(path)
    with raw:
        raw.execute(statement)
    raw.close()


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_trial_is_passed_over_by_every_reader(path, tmp_path, change):
    alter(path, f"UPDATE trial SET {change} WHERE number = 1")
    said = r"1 broken trial is passed over \(trial 1 of run 1: "
    with TuningLog(path) as log:
        with pytest.warns(IgnoredRecordsWarning, match=said):
            trials = log.trials()
        assert [t.number for t in trials] == [0, 2, 3]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it was told of
            assert log.best(MATMUL, AVX2, HERE).number == 2
            (task,) = log.summary()
            assert task.best.number == 2
            assert log.known_program("p0", HERE).cost == 4.0
            assert log.export_json(tmp_path / "out.json") == 3
    with TuningLog(path) as log, pytest.warns(IgnoredRecordsWarning, match=said):
        assert log.best(MATMUL, AVX2, HERE).number == 2


def test_a_status_that_there_is_not(path):
    alter(path, "UPDATE trial SET status = 'wat'")
    with TuningLog(path) as log:
        with pytest.warns(IgnoredRecordsWarning, match="4 broken trials are .*no status 'wat'"):
            assert log.trials() == []
        assert log.best(MATMUL, AVX2, HERE) is None


def test_many_broken_trials_before_the_best(path):
    with TuningLog(path) as log:
        run = start(log)
        for number in range(100):
            log.add_trial(run, number, config(number), ok(0.001 * (number + 1)))
    alter(path, "UPDATE trial SET config = '{' WHERE run_id = 2")
    with TuningLog(path) as log, pytest.warns(IgnoredRecordsWarning, match="100 broken trials"):
        assert log.best(MATMUL, AVX2, HERE).cost == 1.0


def test_a_finalist_that_is_broken_leaves_the_others(path):
    with TuningLog(path) as log:
        finals = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists")
        for number, cost in enumerate((4.0, 1.1, 2.0)):
            log.add_trial(finals, number, config(number), ok(cost, cost))
        log.finish_run(finals)
    alter(path, "UPDATE trial SET costs = '[1' WHERE number = 1 AND run_id = 2")
    with TuningLog(path) as log, pytest.warns(IgnoredRecordsWarning, match="trial 1 of run 2"):
        best = log.best(MATMUL, AVX2, HERE)
    assert (best.run_id, best.number) == (2, 2)


@pytest.mark.parametrize("table", ["workload", "target", "device"])
@pytest.mark.parametrize("data", ["{oops", "7", "null"])
def test_what_a_run_is_of_is_broken(path, table, data):
    alter(path, f"UPDATE {table} SET data = '{data}'")
    with TuningLog(path) as log, pytest.warns(IgnoredRecordsWarning):
        assert log.runs() == [] == log.trials() == log.summary()
        assert log.workloads() == ([] if table == "workload" else [MATMUL])
        assert log.devices() == []
        assert similar.tasks(log) == ([], 1)


def test_a_run_keeps_its_trials_without_its_options(path):
    alter(path, "UPDATE run SET options = '{', versions = '[]', seed = '{'")
    with TuningLog(path) as log:
        with pytest.warns(IgnoredRecordsWarning, match="1 broken run .*taken without"):
            (run,) = log.runs()
        assert (run.options, run.versions, run.seed) == ({}, {}, None)
        assert len(log.trials()) == 4 and log.best(MATMUL, AVX2, HERE).number == 1


def test_a_run_that_began_at_no_time(path):
    alter(path, "UPDATE run SET started_at = 'noon'")
    with TuningLog(path) as log:
        with pytest.warns(IgnoredRecordsWarning, match="1 broken run .*'noon'"):
            assert log.runs() == []
        assert similar.tasks(log) == ([], 1)


def test_a_number_that_a_broken_trial_has_is_taken(path):
    alter(path, "UPDATE trial SET config = '{' WHERE number = 1")
    with TuningLog(path) as log, pytest.raises(LogError, match="its config cannot be read"):
        log.add_trial(1, 1, config(1), ok(1.0))


def test_a_sample_of_other_tasks_counts_them(path):
    alter(path, "UPDATE trial SET costs = '[1' WHERE number = 0")
    alter(path, "UPDATE trial SET config = '[]' WHERE number = 1")
    with TuningLog(path) as log:
        (task,), broken = similar.tasks(log)
        sampled = similar.sample(log, task, 10)
        assert similar.trials_of(log, task) == 4
    assert broken == 0 and sum(one.choices is None for one in sampled) == 2


def test_a_file_that_cannot_be_made():
    with pytest.raises(LogError, match=r"no file can be made in /proc|/proc is read-only"):
        TuningLog("/proc/x.db")
