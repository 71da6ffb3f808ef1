"""A log that is locked, full, replaced or cut short in the middle of a search."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
import sqlalchemy as sa
from whole_searches import (
    TRIALS,
    Later,
    Striking,
    Told,
    check_resumed,
    check_told,
    search,
    states,
)

from whet.compiler.errors import LogError
from whet.db import TuningLog

BALLAST = 64 << 20


@pytest.fixture
def file(tmp_path, leaks):
    """Where a new log's file may be made."""
    yield tmp_path / "whet.db"
    leaks.check()


class Lock:
    """A log's tables, held by somebody else: a file as by a writer, a server's as by a migration.

    Args:
        location: of the log.
    """

    def __init__(self, location: str) -> None:
        self.location = location

    def take(self) -> None:
        """Take the lock."""
        if "://" not in self.location:
            self.raw = sqlite3.connect(
                self.location, isolation_level=None, check_same_thread=False, timeout=60
            )
            self.raw.execute("BEGIN EXCLUSIVE")
            return
        self.engine = sa.create_engine(self.location)
        self.connection = self.engine.connect()
        self.connection.exec_driver_sql("LOCK TABLE task, trial IN ACCESS EXCLUSIVE MODE")

    def give_back(self) -> None:
        """Let the lock go."""
        if "://" not in self.location:
            self.raw.rollback()
            self.raw.close()
            return
        self.connection.rollback()
        self.connection.close()
        self.engine.dispose()


def locked_for(seconds, small, location, capsys):
    lock = Lock(location)
    end = Later(seconds, lock.give_back)

    def strike():
        lock.take()
        end.start()

    told = Told(Striking(strike))
    found = search(small, location, told, progress=True)
    end.join()
    assert len(found.trials) == TRIALS == len(told.measured)
    said = capsys.readouterr().err
    check_resumed(small, location, told)
    return said


def test_a_search_waits_for_a_log_that_is_locked(small, location, capsys):
    said = locked_for(4.0, small, location, capsys)
    if "://" not in location:  # a server lets a statement wait: there is nothing to say
        assert "database is locked; waited for" in said and "answers again, after" in said


@pytest.mark.faults
def test_a_search_waits_for_a_log_that_is_locked_for_a_minute(small, location, capsys):
    said = locked_for(60.0, small, location, capsys)
    assert "lock" in said and "waited for" in said and "answers again, after" in said


def test_a_lock_that_is_never_given_back_is_named(small, location, monkeypatch):
    monkeypatch.setattr("whet.db.store.engine.BUSY_SECONDS", 0.1)
    monkeypatch.setattr("whet.autotune.session.HURRY", 0.5)
    monkeypatch.setattr("whet.db.quick.connect.SERVER_OPTIONS", "-c lock_timeout=200ms")
    lock = Lock(location)
    told = Told(Striking(lock.take))
    with (
        TuningLog(location, patience=1.0) as log,
        pytest.raises(LogError, match=r"lock(ed| timeout)") as caught,
    ):
        search(small, log, told)
    lock.give_back()
    assert "lock timeout" in str(caught.value) or "another process holds" in str(caught.value)
    assert told.acknowledged.keys() <= check_told(location, told).keys()
    check_resumed(small, location, told)


@pytest.fixture
def small_disk(tmp_path, leaks):
    """A disk of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield place
        leaks.check()
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class Ballast:
    """Data that fills a disk.

    Args:
        disk: where it is mounted.
    """

    def __init__(self, disk: Path) -> None:
        self.path = disk / "ballast"

    def fill(self) -> None:
        """Leave no room."""
        with open(self.path, "wb", buffering=0) as file:
            for size in (4096, 512, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue

    def remove(self) -> None:
        """Give the room back."""
        self.path.unlink()


@pytest.mark.parametrize("trials", [40])
def test_a_search_waits_for_room_on_a_full_disk(small, small_disk, capsys, trials):
    location, ballast = str(small_disk / "whet.db"), Ballast(small_disk)
    end = Later(2.5, ballast.remove)

    def strike():
        ballast.fill()
        end.start()

    told = Told(Striking(strike))
    found = search(small, location, told, trials, progress=True)
    end.join()
    assert len(found.trials) == trials == len(told.measured)
    said = capsys.readouterr().err
    assert "is full; waited for" in said and "answers again, after" in said
    check_resumed(small, location, told, trials)


def test_a_disk_that_stays_full_is_named(small, small_disk, monkeypatch):
    monkeypatch.setattr("whet.autotune.session.HURRY", 0.5)
    location, ballast = str(small_disk / "whet.db"), Ballast(small_disk)
    told = Told(Striking(ballast.fill))
    with (
        TuningLog(location, patience=1.0) as log,
        pytest.raises(LogError, match=r"is full .* s[)]\n  free some space; what was recorded"),
    ):
        search(small, log, told, 40)
    there = check_told(location, told)  # it can be read without room, too
    assert told.acknowledged.keys() <= there.keys()
    ballast.remove()
    check_resumed(small, location, told, 40)


def test_a_log_that_is_replaced_ends_the_search(small, file, tmp_path):
    before, other = tmp_path / "before.db", tmp_path / "other.db"
    TuningLog(other).close()

    def strike():
        os.link(file, before)
        os.replace(other, file)

    told = Told(Striking(strike))
    with pytest.raises(LogError, match="was replaced by another while it was open") as caught:
        search(small, str(file), told)
    assert "what was recorded before is in the file that was replaced" in str(caught.value)
    with TuningLog(file, write=False) as log:
        assert len(log) == 0 and states(log, "run") == []  # a stranger's log was left alone
    check_resumed(small, str(before), told)


def test_a_log_that_is_cut_short_ends_the_search(small, file, tmp_path):
    copy = tmp_path / "copy.db"

    def strike():
        shutil.copyfile(file, copy)
        os.truncate(file, 9000)

    told = Told(Striking(strike))
    with pytest.raises(LogError, match="was cut short while it was open: it has 9000 bytes"):
        search(small, str(file), told)
    os.replace(copy, file)
    there = check_told(str(file), told)
    assert told.acknowledged.keys() <= there.keys()
    check_resumed(small, str(file), told)


def test_a_log_that_is_deleted_ends_the_search(small, file, tmp_path):
    aside = tmp_path / "aside.db"
    told = Told(Striking(lambda: os.replace(file, aside)))
    with pytest.raises(LogError, match="was moved or deleted while it was open") as caught:
        search(small, str(file), told)
    assert "put it back" in str(caught.value)
    os.replace(aside, file)
    check_resumed(small, str(file), told)
