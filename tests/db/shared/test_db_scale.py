"""What is asked often is answered along indexes and by counters, however long the log is."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import sqlalchemy as sa
from db_records import AVX2, AVX512, HERE, MATMUL, SPACE, config, failed, ok, start
from log_places import fresh_schema

from whet.compiler.errors import LogError
from whet.compiler.target import Target
from whet.db import IgnoredRecordsWarning, TaskKey, TuningLog
from whet.db.missing import explain
from whet.db.store import queries
from whet.search_spaces.values import Config, Workload

KEY = TaskKey(MATMUL, AVX2, HERE, SPACE)


def numbered(i: int) -> Config:
    return Config((("tile", i),), SPACE, ("knob",))


@pytest.fixture
def log(tmp_path):
    """A log of two finished searches, each with its last measurement, and one that goes on."""
    with TuningLog(tmp_path / "a.db") as log:
        for _ in range(2):
            run = start(log)
            log.add_trials(
                [(run, n, numbered(n), ok(2.0 + n) if n % 3 else failed()) for n in range(60)]
            )
            log.finish_run(run)
            finals = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists")
            log.add_trials([(finals, n, numbered(n), ok(4.0 + n, 4.0 + n)) for n in range(3)])
            log.finish_run(finals)
        run = start(log)
        log.add_trials([(run, n, numbered(70 + n), ok(3.0 - n / 100)) for n in range(30)])
        yield log


def plans(log, do) -> list[str]:
    """SQLite's plans of all statements that something executes."""
    found: list[str] = []

    def note(connection, cursor, statement, parameters, context, many):
        if statement.startswith("SELECT"):
            raw = connection.connection.dbapi_connection
            rows = raw.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            found.extend(row[3] for row in rows)

    sa.event.listen(log.engine, "before_cursor_execute", note)
    do()
    sa.event.remove(log.engine, "before_cursor_execute", note)
    assert found
    return found


def test_no_question_scans_the_trials(log):
    one = log.best(MATMUL, AVX2, HERE)
    questions = {
        "best": lambda: log.best(MATMUL, AVX2, HERE),
        "best of a space": lambda: log.best(MATMUL, AVX2, HERE, SPACE),
        "summary": log.summary,
        "tasks": log.tasks,
        "counts": lambda: log.counts(KEY),
        "news": lambda: log.news(KEY, 50),
        "known program": lambda: log.known_program("p", HERE),
        "withdraw": lambda: log.withdraw([one.id], "it is a test"),
        "workloads": log.workloads,
        "missing": lambda: explain(log, MATMUL, Target("llvm"), "x", HERE, "tune it"),
    }
    for name, ask in questions.items():
        for step in plans(log, ask):
            assert not re.match("SCAN trial", step), (name, step)


def test_the_best_is_one_walk_along_an_index_that_holds_all_that_is_asked(log):
    steps = [s for s in plans(log, lambda: log.best(MATMUL, AVX2, HERE)) if "trial_best" in s]
    assert steps == [
        "SEARCH trial USING COVERING INDEX ix_trial_best (workload_id=? AND target_id=? AND "
        "device_id=? AND space_fingerprint=? AND cost<?)"
    ]
    every = plans(log, lambda: log.best(MATMUL, AVX2, HERE))
    assert not any("TEMP B-TREE" in step for step in every), every


def test_runs_are_found_by_their_task(log):
    steps = plans(log, lambda: log.best(MATMUL, AVX2, HERE))
    assert any("run USING INDEX ix_run_task" in step for step in steps)


def test_a_later_search_counts_only_below_the_last_measurement(log):
    assert log.best(MATMUL, AVX2, HERE).cost == pytest.approx(3.0 - 0.29)
    run = start(log)
    log.add_trial(run, 0, numbered(200), ok(0.5))
    assert log.best(MATMUL, AVX2, HERE).config == numbered(200)


def test_tasks_are_read_from_their_counters(location):
    other = Workload("matmul", (8, 8, 8, "float32"))
    with TuningLog(location) as log, log.open_session() as session:
        assert log.tasks() == []
        run = start(log)
        assert log.tasks() == []  # nothing was tried
        log.add_trials([(run, n, config(n), ok(1.0) if n else failed()) for n in range(3)])
        log.add_trial(start(log, other), 0, config(0), failed("infra_error"))
        session.reserve(run, 3, config(3))
        found = {key.workload: (c.trials, c.succeeded, c.claims) for key, c in log.tasks()}
        assert found == {MATMUL: (3, 2, 1), other: (0, 0, 0)}
        assert [(task.trials, task.succeeded) for task in log.summary()] == [(3, 2), (0, 0)]


def test_why_there_is_no_record_is_said_of_many_trials_without_reading_them(tmp_path, monkeypatch):
    monkeypatch.setattr(queries, "LOOKED", 10)
    with TuningLog(tmp_path / "a.db") as log:
        target = Target("llvm").canonical()
        run = log.start_run(MATMUL, target, HERE, SPACE)
        log.add_trials([(run, n, numbered(n), failed()) for n in range(50)])

        def why():
            return explain(log, MATMUL, target, SPACE, HERE, "tune it")

        assert why()[0] == "none of its 50 trials worked"
        log.add_trial(run, 50, numbered(50), ok(1.0))
        log.write("x", lambda c: c.exec_driver_sql("UPDATE trial SET costs = '[' WHERE cost > 0"))
        assert "none of its 50 trials worked, and 1 cannot be read" in why()[0]


# --- the quick reader


def loads_sqlalchemy(path) -> bool:
    code = (
        "import sys, whet; from db_records import *\n"
        f"log = whet.TuningLog({str(path)!r}, write=False)\n"
        "print(log.best(MATMUL, AVX2, HERE).cost, 'sqlalchemy' in sys.modules)"
    )
    folder = Path(__file__).parents[1]
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{folder}:{':'.join(sys.path)}"},
    )
    return said.stdout.split()[1] == "True"


def test_a_deployment_reads_its_record_without_sqlalchemy(log):
    path = log.place.path
    assert not loads_sqlalchemy(path)
    best = log.best(MATMUL, AVX2, HERE)
    log.write("x", lambda c: c.exec_driver_sql(f"UPDATE trial SET costs='[' WHERE id={best.id}"))
    assert loads_sqlalchemy(path)  # a broken row on the way is passed over, and told of


def random_log(path, draw: random.Random) -> None:
    with TuningLog(path) as log:
        for _ in range(draw.randint(1, 6)):
            sampler = draw.choice(["xgb", "xgb", "finalists"])
            space = draw.choice([SPACE, "other"])
            target = draw.choice([AVX2, AVX2, AVX512])
            run = log.start_run(MATMUL, target, HERE, space, sampler)
            for number in range(draw.randint(0, 5)):
                cost = draw.choice([1.0, 1.5, 2.0, 3.0])
                result = draw.choice([ok(cost, cost), ok(cost), failed()])
                log.add_trial(run, number, config(draw.randrange(6), space), result)
            if draw.random() < 0.7:
                log.finish_run(run)
        ids = [trial.id for trial in log.trials() if draw.random() < 0.15]
        log.withdraw(ids, "drawn")


@pytest.mark.parametrize("seed", range(12))
def test_the_quick_reader_reads_what_the_log_reads(location, seed):
    path = location
    random_log(path, random.Random(seed))
    for target in (AVX2, AVX512):
        for space in (SPACE, "other", None):
            with TuningLog(path, write=False) as quick, TuningLog(path) as log:
                found = quick.best(MATMUL, target, HERE, space)
                assert quick._engine is None
                assert found == log.best(MATMUL, target, HERE, space)


def test_a_quick_connection_to_a_server_that_was_cut_gives_way(postgres):
    with (
        fresh_schema(postgres) as url,
        TuningLog(url) as log,
        TuningLog(url, write=False) as quick,
    ):
        log.add_trial(start(log), 0, config(0), ok(1.0))
        best = log.best(MATMUL, AVX2, HERE)
        for _ in range(3):
            assert quick.best(MATMUL, AVX2, HERE) == best and best is not None
        ((_, kept),) = quick._idle  # one, which is used again
        quick.close()
        assert quick._idle == [] and kept._raw.closed
        assert quick.best(MATMUL, AVX2, HERE) == best and quick._engine is None
        cut = "SELECT pg_terminate_backend(%s)"
        ((_, kept),) = quick._idle
        log.write("cut", lambda c: c.exec_driver_sql(cut, (kept._raw.info.backend_pid,)))
        assert quick.best(MATMUL, AVX2, HERE) == best and quick._engine is not None
        assert quick._idle == []  # it holds no more connections than it uses


def test_a_forked_process_asks_by_a_connection_of_its_own(postgres):
    with fresh_schema(postgres) as url:
        with TuningLog(url) as log:
            log.add_trial(start(log), 0, config(0), ok(1.0))
        with TuningLog(url, write=False) as quick:
            best = quick.best(MATMUL, AVX2, HERE)
            assert len(quick._idle) == 1
            if (child := os.fork()) == 0:
                try:
                    same = quick.best(MATMUL, AVX2, HERE) == best
                    os._exit(0 if same and quick._engine is None else 1)
                finally:
                    os._exit(2)
            for _ in range(5):
                assert quick.best(MATMUL, AVX2, HERE) == best is not None
            assert os.waitpid(child, 0)[1] == 0
            assert quick.best(MATMUL, AVX2, HERE) == best and quick._engine is None


def test_it_gives_way_where_a_file_is_not_as_it_should_be(log, tmp_path):
    path = log.place.path
    with TuningLog(path, write=False) as reader:
        assert reader.best(MATMUL, AVX2, HERE) is not None and reader._engine is None
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        assert reader.quick_best(MATMUL, AVX2, HERE, None) is None
        holder.execute("COMMIT")
        holder.close()
        assert len(reader) == len(log)  # any other question loads SQLAlchemy
        assert reader._engine is not None and reader.best(MATMUL, AVX2, HERE) is not None
        assert reader.read_only and reader.broken == 0


# --- what no longer holds


def test_a_withdrawn_record_is_no_best_any_more(location):
    with TuningLog(location) as log:
        run = start(log)
        log.add_trials([(run, n, config(n), ok(1.0 + n, program=f"p{n}")) for n in range(3)])
        again = start(log)
        log.add_trial(again, 0, config(0), ok(0.5))  # the same config
        best = log.best(MATMUL, AVX2, HERE)
        assert (best.run_id, best.withdrawn) == (again, "") and best.id > 0
        assert log.withdraw([best.id], "wrong numbers") == 2
        assert log.best(MATMUL, AVX2, HERE).config == config(1)
        assert log.known_program("p0", HERE) is None and log.known_program("p1", HERE)
        reasons = [(t.config == config(0), t.withdrawn) for t in log.trials()]
        assert sorted(reasons) == [(False, "")] * 2 + [(True, "wrong numbers")] * 2
        assert log.withdraw([best.id], "wrong numbers") == 2  # again changes nothing
        assert log.withdraw([best.id], "another reason") == 0
        assert {t.withdrawn for t in log.trials()} == {"", "wrong numbers"}
        assert log.withdraw([], "nothing") == 0 and log.withdraw([10**9], "nobody") == 0
        assert log.withdraw([t.id for t in log.trials()], "all of it") == 2
        assert log.best(MATMUL, AVX2, HERE) is None
        assert log.counts(KEY).succeeded == 3  # they were tried all the same


def test_a_reason_is_needed(tmp_path):
    with (
        TuningLog(tmp_path / "a.db") as log,
        pytest.raises(LogError, match="withdraw 1 trial: no reason is given"),
    ):
        log.withdraw([1], " ")


def test_a_withdrawn_winner_leaves_the_other_finalists(location):
    with TuningLog(location) as log:
        first = start(log)
        log.add_trials([(first, n, config(n), ok(1.0 + n)) for n in range(4)])
        log.finish_run(first)
        finals = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists")
        log.add_trials([(finals, n, config(n), ok(*[5.0 - n] * 6)) for n in range(3)])
        log.finish_run(finals)

        def best():
            found = log.best(MATMUL, AVX2, HERE)
            return found.run_id, found.number

        assert best() == (finals, 2)
        for number, then in ((2, (finals, 1)), (1, (finals, 0)), (0, (first, 3))):
            (one,) = (t for t in log.trials(run_id=finals) if t.number == number)
            log.withdraw([one.id], "it is slower now")
            assert best() == then


def test_that_all_was_withdrawn_is_said(tmp_path):
    with TuningLog(tmp_path / "a.db") as log:
        target = Target("llvm").canonical()
        run = log.start_run(MATMUL, target, HERE, SPACE)
        log.add_trial(run, 0, config(0), ok(1.0))
        log.withdraw([t.id for t in log.trials()], "wrong numbers here")
        why, out = explain(log, MATMUL, target, SPACE, HERE, "tune(x)")
        assert why == "its records were withdrawn (wrong numbers here)" and "tune(x)" in out


def test_a_broken_record_of_a_task_does_not_hide_its_summary(log):
    log.write("x", lambda c: c.exec_driver_sql("UPDATE task SET trials = 'many'"))
    with pytest.warns(IgnoredRecordsWarning, match="its counters are 'many'"):
        assert log.summary() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert log.best(MATMUL, AVX2, HERE) is not None
