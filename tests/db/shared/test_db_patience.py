"""A database that is locked, full or away for a while is waited for; the first error is told."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest
import sqlalchemy as sa
from db_records import AVX2, HERE, MATMUL, SPACE, config, ok, start
from sqlalchemy import exc

from whet.compiler.errors import LogError
from whet.db import TaskKey, TuningLog
from whet.db.store import patience
from whet.db.store.patience import GaveUp, Patience, passes

KEY = TaskKey(MATMUL, AVX2, HERE, SPACE)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "whet.db"
    TuningLog(path).close()
    return path


@pytest.fixture
def hasty(monkeypatch):
    """Waits of which something is said at once."""
    monkeypatch.setattr(patience, "QUIET", 0.0)
    monkeypatch.setattr("whet.db.store.engine.BUSY_SECONDS", 0.02)


def of_sqlite(said: str) -> exc.OperationalError:
    return exc.OperationalError("INSERT", {}, sqlite3.OperationalError(said))


def of_server(code: str | None, said: str = "it said so") -> exc.OperationalError:
    error = type("Error", (Exception,), {"sqlstate": code, "__module__": "psycopg.errors"})(said)
    return exc.OperationalError("INSERT", {}, error)


def test_errors_that_pass_and_errors_that_stay():
    for said in ("database is locked", "database or disk is full", "disk I/O error"):
        assert passes(of_sqlite(said))
    for said in ("no such table: trial", "attempt to write a readonly database", "malformed"):
        assert not passes(of_sqlite(said))
    assert passes(of_sqlite("database is locked"), only_locks=True)
    assert not passes(of_sqlite("database or disk is full"), only_locks=True)
    for code in ("08006", "40001", "40P01", "53100", "57P01", "57P03", "55P03", "25P03"):
        assert passes(of_server(code))
    for code in ("42P01", "23505", "22001", "28P01"):
        assert not passes(of_server(code))
    assert passes(of_server(None, "connection refused"))
    assert not passes(of_server(None, 'FATAL: database "x" does not exist'))
    assert not passes(of_server(None, "connection refused"), only_locks=True)
    assert passes(of_server("40P01"), only_locks=True)
    assert not passes(ValueError("locked"))


def test_the_first_error_is_the_one_that_is_raised(hasty):
    errors = [of_sqlite("database or disk is full"), of_sqlite("database is locked")]
    lines: list[str] = []

    def attempt():
        raise errors.pop(0) if len(errors) > 1 else errors[0]

    with pytest.raises(GaveUp) as caught:
        Patience(0.3, lines.append).call(attempt, "whet.db", lambda error: False)
    assert "full" in str(caught.value.first) and caught.value.waited >= 0.3
    assert lines[0].startswith("log whet.db: database or disk is full; waited for")


def test_an_error_that_stays_ends_the_wait_with_the_first(hasty):
    errors = [of_sqlite("database is locked"), of_sqlite("no such table: trial")]
    with pytest.raises(GaveUp, match="locked"):
        Patience(60).call(lambda: (_ for _ in ()).throw(errors.pop(0)), "x", lambda error: False)
    with pytest.raises(exc.OperationalError, match="locked"):
        locked = of_sqlite("database is locked")
        Patience(60).call(lambda: (_ for _ in ()).throw(locked), "x", lambda error: True)


def test_a_locked_log_is_waited_for(path, hasty):
    lines: list[str] = []
    with TuningLog(path, waiting=lines.append) as log:
        run = start(log)
        holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN EXCLUSIVE")
        timer = threading.Timer(0.5, lambda: holder.execute("COMMIT"))
        timer.start()
        log.add_trial(run, 0, config(0), ok(1.0))
        timer.join()
        holder.close()
        assert [trial.number for trial in log.trials()] == [0]
    assert "database is locked; waited for 0 s of 120" in lines[0]
    assert lines[-1].startswith(f"log {path} answers again, after")


def test_a_locked_log_is_waited_for_when_it_is_opened(path, hasty):
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.3, lambda: holder.execute("COMMIT"))
    timer.start()
    TuningLog(path).close()
    timer.join()
    holder.close()


def test_a_full_disk_is_waited_for_until_there_is_room(path, hasty):
    with TuningLog(path) as log:
        run = start(log)
        full = threading.Event()

        def limit(connection):
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

        @sa.event.listens_for(log.engine, "handle_error")
        def note(context):
            full.set()

        @sa.event.listens_for(log.engine, "begin")
        def free(connection):
            if full.is_set():
                connection.exec_driver_sql("PRAGMA max_page_count = 100000")

        log.write("limit the file", limit)
        log.add_trial(run, 0, config(0), ok(1.0, environment={"x": "y" * 50_000}))
        assert full.is_set() and len(log) == 1


def test_a_commit_whose_answer_was_lost_is_not_done_twice(location, hasty):
    with TuningLog(location) as log, log.open_session() as session:
        lost: list[str] = []

        def lose(connection) -> None:
            """The commit is done; the connection ends before it says so."""
            if lost:
                connection.connection.dbapi_connection.execute("COMMIT")
                raise of_sqlite("database is locked, " + lost.pop())

        sa.event.listen(log.engine, "commit", lose)
        lost.append("start")
        run = start(log)
        assert [found.id for found in log.runs()] == [run] and not lost
        lost.append("claim")
        session.reserve(run, 0, config(0), 1)
        lost.append("add")
        log.add_trial(run, 0, config(0), ok(1.0))
        counts = log.counts(KEY)
        assert (counts.trials, counts.succeeded, counts.claims, len(log), lost) == (1, 1, 0, 1, [])
        sa.event.remove(log.engine, "commit", lose)


def test_a_beat_is_never_waited_for(path, hasty):
    with TuningLog(path) as log, log.open_session() as session:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        with pytest.raises(LogError, match="locked"):
            session._heart.beat()
        assert time.monotonic() - began < 30
        holder.execute("COMMIT")
        holder.close()
