"""Opening the database behind a log: where it is, whether it is writable, how transactions begin.

SQLite keeps its rollback journal (``journal_mode=DELETE``, ``synchronous=FULL``, its defaults): two
processes may write one log, and the log is one file that can be copied, read from a read-only place
and kept on a network file system. Its write-ahead log is a few times quicker than the millisecond
that a trial takes now, but up to SQLite 3.51.2 two processes writing at once could corrupt it.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc

from whet.compiler.errors import LogError
from whet.compiler.installed import install_extra
from whet.db.quick.place import Place, check_file, text_or_unreadable
from whet.db.quick.place import place_of as place_of

BUSY_SECONDS = 2.0
"""Seconds for which SQLite waits for another process's transaction, before it is asked again."""
SERVER: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""How soon a server that is gone is given up: libpq's settings, in s and ms."""
SERVER_OPTIONS = "-c lock_timeout=30s -c idle_in_transaction_session_timeout=60s"
"""The server gives up for us too: a client that is gone must not hold a task for ever."""


def open_engine(place: Place, *, write: bool, foreign_keys: bool = True) -> tuple[sa.Engine, str]:
    """An engine for a log, and why it can only be read ("" when it can be written).

    Args:
        place: where the log is.
        write: create the file where there is none, and write to it where its permissions allow.
        foreign_keys: let SQLite check them (a migration that rebuilds a table must not).

    Raises:
        LogError: no such directory or file, not a database, no driver, not readable.
    """
    if place.path is None:
        assert place.url is not None
        if place.url.get_backend_name() != "postgresql":
            raise LogError(
                f"open log {place.shown}",
                f"a log is a file of SQLite or in PostgreSQL, not in {place.url.drivername!r}",
                'give a path, or "postgresql://user@host/name"',
            )
        try:
            engine = sa.create_engine(
                place.url, pool_pre_ping=True, connect_args=_connect_args(place.url)
            )
        except (exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise LogError(
                f"open log {place.shown}",
                f"its driver is missing ({error})",
                f"PostgreSQL: {install_extra('postgresql')}",
            ) from error
        return engine, "" if write else "it was opened for reading"
    read_only = check_file(place.path, place.shown, write)
    mode = "ro" if read_only else "rwc"
    uri = f"file:{quote(os.path.abspath(place.path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        # No isolation level: the driver must not begin transactions behind our back.
        raw = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        raw.text_factory = text_or_unreadable
        raw.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")
        return raw

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.QueuePool)
    sa.event.listen(engine, "begin", _begin)
    return engine, read_only


def _connect_args(url: sa.URL) -> dict[str, Any]:
    """libpq's settings that let nobody wait for a dead peer; what the URL says comes first."""
    args = {name: value for name, value in SERVER.items() if name not in url.query}
    options = url.query.get("options", ())
    given = (options,) if isinstance(options, str) else options
    return {**args, "options": " ".join((SERVER_OPTIONS, *given))}


def _begin(connection: sa.Connection) -> None:
    # A deferred transaction that reads and then writes loses its rows to "database is locked"
    # whatever the busy timeout is; IMMEDIATE waits its turn. Readers say that they are, so that
    # they share, and may be read-only.
    reading = connection.get_execution_options().get("whet_reading")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def reading(engine: sa.Engine) -> Any:
    """A transaction that only reads: a context manager giving a ``Connection``."""
    return engine.execution_options(whet_reading=True).begin()
