"""Faults of a log's file while it is open: each named for what it was, the first error first."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3

import pytest
from db_records import AVX2, HERE, MATMUL, config, ok, start

from whet.compiler.errors import LogError
from whet.db import TuningLog


@pytest.fixture
def path(tmp_path):
    """A log with one trial."""
    path = tmp_path / "whet.db"
    with TuningLog(path) as log:
        log.add_trial(start(log), 0, config(0), ok(1.0))
    return path


def fill(log):
    """Let no page be added: SQLite then says what it says of a full disk."""

    def limit(connection):
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    log.write("limit the file", limit)


def test_a_full_disk_is_called_so(path):
    with TuningLog(path, patience=0) as log:
        run = start(log)
        fill(log)
        for number in (1, 2):  # again, too
            with pytest.raises(LogError) as caught:
                log.add_trial(run, number, config(number), ok(1.0, environment={"x": "y" * 50_000}))
            assert "database or disk is full\n  free some space" in str(caught.value)
            assert "savepoint" not in str(caught.value)
        assert len(log.trials()) == 1  # what was recorded is safe
        log.add_trial(run, 0, config(0), ok(1.0))  # and what has room goes on


def test_a_full_disk_where_a_run_begins(path):
    with TuningLog(path, patience=0) as log:
        fill(log)
        with pytest.raises(LogError, match=r"start a run .*: database or disk is full"):
            log.start_run(MATMUL, AVX2, HERE, "f", options={"x": "y" * 50_000})


def test_a_log_that_was_replaced(path, tmp_path):
    other = tmp_path / "other.db"
    TuningLog(other).close()
    with TuningLog(path) as log:
        run = start(log)
        os.replace(other, path)
        with pytest.raises(LogError) as caught:
            log.add_trial(run, 0, config(0), ok(1.0))
    assert "was replaced by another while it was open" in str(caught.value)
    assert "open the log anew" in str(caught.value)


@pytest.mark.parametrize("size", [0, 700, 4096, 9000])
def test_a_log_that_was_cut_short(path, size):
    with TuningLog(path) as log:
        run = start(log)
        os.truncate(path, size)
        said = rf"was cut short while it was open: it has {size} bytes"
        with pytest.raises(LogError, match=said):
            log.add_trial(run, 0, config(0), ok(1.0))
        with pytest.raises(LogError, match=said):
            log.trials()


def test_another_log_that_was_copied_over_it(path, tmp_path):
    """The file is the same one: only its runs are others, with the same numbers."""
    other = tmp_path / "other.db"
    with TuningLog(other) as log:
        for _ in range(5):
            start(log)
        before = len(log.trials())
    with TuningLog(path) as log:
        run = start(log)
        shutil.copyfile(other, path)
        for write in (
            lambda: log.add_trial(run, 0, config(0), ok(1.0)),
            lambda: log.finish_run(run),
        ):
            with pytest.raises(LogError, match="no such run any more: another file was copied"):
                write()
    with TuningLog(path) as log:
        assert len(log.trials()) == before  # a stranger's run was left alone
        assert {r.state for r in log.runs()} == {"running"}


def test_a_damaged_log_that_was_not_open_was_not_cut_short_while_it_was(path):
    size = path.stat().st_size
    os.truncate(path, size - 4096)
    with pytest.raises(LogError) as caught, TuningLog(path) as log:
        log.trials()
        log.runs()
        start(log)
    assert "restore a copy" in str(caught.value)


def killed_in_a_commit(path):
    """A process begins to change a log's file, and is killed: SQLite's journal is left."""
    if (child := os.fork()) == 0:
        raw = sqlite3.connect(path, isolation_level=None)
        raw.execute("PRAGMA cache_size=2")  # so that it writes before it commits
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("UPDATE trial SET status = 'half done'")
        raw.execute("CREATE TABLE half (done TEXT)")
        raw.executemany("INSERT INTO half VALUES (?)", [("x" * 4096,)] * 64)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert path.with_name(f"{path.name}-journal").stat().st_size > 512


@pytest.mark.parametrize("write", [False, True])
def test_a_writer_that_was_killed_in_its_commit_hides_nothing_from_readers(path, write):
    killed_in_a_commit(path)
    with TuningLog(path, write=write) as log:
        assert log.best(MATMUL, AVX2, HERE).cost == 1.0
        assert [trial.result.status for trial in log] == ["ok"]
    assert not path.with_name(f"{path.name}-journal").exists()


def test_a_reader_that_is_open_while_a_writer_is_killed_goes_on(path):
    with TuningLog(path, write=False) as log:
        assert len(log.trials()) == 1
        killed_in_a_commit(path)
        assert [trial.result.status for trial in log] == ["ok"]


def test_a_log_that_is_opened_for_reading_cannot_be_written_by_any_statement(path):
    with TuningLog(path, write=False) as log, pytest.raises(LogError, match="readonly"):
        log.read("look", lambda c: c.exec_driver_sql("DELETE FROM trial"))
