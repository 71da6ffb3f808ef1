"""A PostgreSQL server that stops and starts while searches write: nothing is lost or doubled."""

from __future__ import annotations

import threading
import time

import pytest
import sqlalchemy as sa
from db_records import AVX2, HERE, MATMUL, SPACE, failed, ok, start
from postgres_server import PostgresServer, programs

from whet.compiler.errors import LogError
from whet.db import Mine, TaskKey, TrialEntry, TuningLog
from whet.db.store import patience, points
from whet.search_spaces.values import Config

pytestmark = pytest.mark.skipif(
    not programs(), reason="no PostgreSQL server: apt install postgresql"
)
KEY = TaskKey(MATMUL, AVX2, HERE, SPACE)


@pytest.fixture(scope="module")
def server():
    with PostgresServer() as server:
        yield server


def is_up(server) -> bool:
    return (server.data / "postmaster.pid").exists()


@pytest.fixture
def url(server):
    if not is_up(server):
        server.start()
    yield server.url
    with TuningLog(server.url) as log:
        log.write("drop all", lambda c: c.exec_driver_sql("DROP SCHEMA public CASCADE"))
        log.write("make it anew", lambda c: c.exec_driver_sql("CREATE SCHEMA public"))


def numbered(i: int) -> Config:
    return Config((("tile", i),), SPACE, ("knob",))


class Writer(threading.Thread):
    """A search that claims and records, one trial after the other, until it is told to end."""

    def __init__(self, url: str, first: int) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self.log = TuningLog(url, waiting=self.lines.append)
        self.session = self.log.open_session({"first": first})
        self.run_id, self.first = start(self.log), first
        self.ended, self.acknowledged = threading.Event(), []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            number = 0
            while not self.ended.is_set():
                config = numbered(self.first + number)
                assert self.session.reserve(self.run_id, number, config) == Mine()
                entry = TrialEntry(self.run_id, number, config, ok(1.0 + number))
                assert self.session.add_trials([entry]) == []
                self.acknowledged.append(number)
                number += 1
        except BaseException as error:
            self.error = error

    def more(self, count: int) -> None:
        """Wait until it has recorded more trials."""
        goal, until = len(self.acknowledged) + count, time.monotonic() + 120
        while len(self.acknowledged) < goal:
            assert self.error is None, self.error
            assert time.monotonic() < until, f"no trial was recorded: {self.lines}"
            time.sleep(0.02)

    def end(self) -> None:
        self.ended.set()
        self.join(120)
        assert not self.is_alive() and self.error is None, self.error
        self.session.close()


def check(log: TuningLog, writers: list[Writer]) -> None:
    for writer in writers:
        numbers = [trial.number for trial in log.trials(run_id=writer.run_id)]
        assert numbers == writer.acknowledged == list(range(len(numbers)))
    points = [point.config for point in log.news(KEY)[0]]
    assert len(points) == len(set(points))
    counts = log.counts(KEY)
    assert (counts.trials, counts.claims) == (len(points), 0)
    states = log.read(
        "look", lambda c: c.execute(sa.text("SELECT state FROM session")).scalars().all()
    )
    assert states == ["finished"] * len(writers)


def test_a_server_that_is_restarted_loses_and_doubles_nothing(server, url):
    writers = [Writer(url, first) for first in (0, 10**6)]
    for writer in writers:
        writer.start()
    for mode in ("immediate", "fast"):
        for writer in writers:
            writer.more(3)
        server.stop(mode)
        server.start()
    for writer in writers:
        writer.more(3)
    for writer in writers:
        writer.end()
    with TuningLog(url) as log:
        check(log, writers)


@pytest.mark.parametrize("seconds", [1.5, pytest.param(30, marks=pytest.mark.faults)])
def test_a_server_that_is_gone_for_a_while(server, url, seconds, monkeypatch):
    if seconds < 2:
        monkeypatch.setattr(patience, "QUIET", 0.2)
    writers = [Writer(url, first) for first in (0, 10**6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.more(3)
    server.stop("immediate")
    time.sleep(seconds)
    before = [len(writer.acknowledged) for writer in writers]
    server.start()
    for writer in writers:
        writer.more(3)
        writer.end()
    with TuningLog(url) as log:
        check(log, writers)  # and nobody was taken for dead
    for writer, count in zip(writers, before):
        assert any("waited for" in line for line in writer.lines)
        assert "answers again, after" in writer.lines[-1]
        assert len(writer.acknowledged) > count


def test_a_server_that_stays_away_is_named(server, url):
    with TuningLog(url, patience=0.3) as log:
        run = start(log)
        server.stop("immediate")
        with pytest.raises(LogError, match="add trial 0 of run 1") as caught:
            log.add_trial(run, 0, numbered(0), ok(1.0))
        assert "is the database" in str(caught.value) and "up" in str(caught.value)
        server.start()
        log.add_trial(run, 0, numbered(0), ok(1.0))
        assert len(log) == 1


def test_a_database_without_an_encoding(server, url):
    engine = sa.create_engine(url.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "CREATE DATABASE plain ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        )
    engine.dispose()
    with TuningLog(f"{url.rpartition('/')[0]}/plain") as log:
        log.add_trial(start(log), 0, numbered(0), failed("run_crash", "é"))
        (trial,) = log.trials()
        assert trial.result.error == "é" and trial.workload == MATMUL


def test_points_are_read_again_after_the_server_came_back(server, url, monkeypatch):
    """The first answer of a transaction that is lost is its error: no second question is asked."""
    with TuningLog(url) as log:
        run = start(log)
        log.add_trials([TrialEntry(run, n, numbered(n), ok(1.0 + n), 0.0) for n in range(5)])
        asked, fetch = [], points._driver_rows

        def rows(*query):
            asked.append(len(asked))
            if asked == [0]:
                server.restart()
            return fetch(*query)

        monkeypatch.setattr(points, "_driver_rows", rows)
        found, broken, _ = log.read(
            "read trials", lambda c: points.columns_after(c, KEY, 0, 1 << 30)
        )
    assert list(found[2]) == [0, 1, 2, 3, 4] and not broken and len(asked) > 1
