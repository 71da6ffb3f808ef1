"""A PostgreSQL server that goes away in the middle of a search, comes back, or has a full disk."""

from __future__ import annotations

import os
import subprocess

import pytest
import sqlalchemy as sa
from leaks import connections
from postgres_server import PostgresServer, programs
from whole_searches import TRIALS, Later, Striking, Told, check_resumed, check_told, search

from whet.compiler.errors import LogError
from whet.db import TuningLog

pytestmark = pytest.mark.skipif(
    not programs(), reason="no PostgreSQL server: apt install postgresql"
)


@pytest.fixture(scope="module")
def own():
    """A server that this file may stop."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def server(own, leaks):
    """The server, up, with an empty database; nobody is connected in the end."""
    if not (own.data / "postmaster.pid").exists():
        own.start()
    yield own
    leaks.servers.append((own.url, "whet tests"))
    try:
        leaks.check()
    finally:
        emptied(own)
    leaks.servers.clear()


def emptied(own):
    """Drop all that a server's database holds."""
    engine = sa.create_engine(own.url.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()


def url_of(server):
    return f"{server.url}?application_name=whet tests"


def gone_for(seconds, small, server, capsys, mode="immediate"):
    end = Later(seconds, server.start)

    def strike():
        server.stop(mode)
        end.start()

    told = Told(Striking(strike))
    found = search(small, url_of(server), told, progress=True)
    end.join()
    assert len(found.trials) == TRIALS == len(told.measured)
    check_resumed(small, url_of(server), told)
    return capsys.readouterr().err


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_a_search_goes_on_when_its_server_is_restarted(small, server, capsys, mode):
    gone_for(0.0, small, server, capsys, mode)


@pytest.mark.faults
def test_a_search_waits_for_a_server_that_is_gone_for_30_seconds(small, server, capsys):
    said = gone_for(30.0, small, server, capsys)
    assert "waited for" in said and "answers again, after" in said


def test_a_server_that_stays_away_is_named_and_the_search_goes_on_later(small, server, monkeypatch):
    monkeypatch.setattr("whet.autotune.session.HURRY", 0.2)
    told = Told(Striking(lambda: server.stop("immediate")))
    with (
        TuningLog(url_of(server), patience=0.5) as log,
        pytest.raises(LogError, match=r"is the database .* up, and may you use it") as caught,
    ):
        search(small, log, told)
    notes = " ".join(getattr(caught.value, "__notes__", []))
    assert "stays as 'running'" in notes
    server.start()
    there = check_told(url_of(server), told)
    assert told.acknowledged.keys() <= there.keys()
    check_resumed(small, url_of(server), told)


def test_a_connection_that_is_ended_by_an_operator_is_made_anew(small, server):
    def strike():
        engine = sa.create_engine(server.url.replace("://", "+psycopg://"))
        with engine.connect() as connection:
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            query += " WHERE application_name = 'whet tests'"
            assert connection.exec_driver_sql(query).all()
        engine.dispose()

    told = Told(Striking(strike))
    assert len(search(small, url_of(server), told).trials) == TRIALS == len(told.measured)
    check_resumed(small, url_of(server), told)
    assert connections(server.url, "whet tests") == 0


@pytest.fixture
def full_tables(server, tmp_path):
    """The URL of a log whose tables are on a disk of two megabytes, and that disk."""
    place = server.folder / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1400k,mode=777", "tmpfs", str(place)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    tables = place / "tables"
    tables.mkdir()
    owner = server.data.stat()
    os.chown(tables, owner.st_uid, owner.st_gid)
    engine = sa.create_engine(
        server.url.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE TABLESPACE small LOCATION '{tables}'")
    try:
        yield f"{url_of(server)}&options=-cdefault_tablespace%3Dsmall", place
        emptied(server)
        with engine.connect() as connection:
            connection.exec_driver_sql("DROP TABLESPACE small")
    finally:
        engine.dispose()
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_search_waits_for_room_on_the_disk_of_its_server(small, full_tables, capsys):
    url, place = full_tables
    ballast = place / "ballast"
    end = Later(2.5, ballast.unlink)

    def strike():
        with open(ballast, "wb", buffering=0) as file:
            while file.write(b"x" * 4096) == 4096 and os.statvfs(place).f_bavail:
                pass
        end.start()

    told = Told(Striking(strike))
    found = search(small, url, told, 40, progress=True)
    end.join()
    assert len(found.trials) == 40 == len(told.measured)
    said = capsys.readouterr().err
    assert "No space left on device; waited for" in said and "answers again, after" in said
    check_resumed(small, url, told, 40)
