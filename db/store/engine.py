"""Opening the database behind a log: where it is, whether it is writable, how transactions begin.

SQLite keeps its rollback journal (``journal_mode=DELETE``, ``synchronous=FULL``, its defaults): two
processes may write one log, and the log is one file that can be copied, read from a read-only place
and kept on a network file system. Its write-ahead log is a few times quicker than the millisecond
that a trial takes now, but up to SQLite 3.51.2 two processes writing at once could corrupt it.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc

from whet.compiler.errors import LogError
from whet.compiler.installed import install_extra
from whet.db.quick.connect import server_settings
from whet.db.quick.place import Place, check_file, text_or_unreadable
from whet.db.quick.place import place_of as place_of

R = TypeVar("R")

BUSY_SECONDS = 2.0
"""Seconds for which SQLite waits for another process's transaction, before it is asked again."""
ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a search, and wait for the end of a transaction."""


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
                place.url, pool_pre_ping=True, connect_args=server_settings(place.url)
            )
        except (exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise LogError(
                f"open log {place.shown}",
                f"its driver is missing ({error})",
                f"PostgreSQL: {install_extra('postgresql')}",
            ) from error
        return engine, "" if write else "it was opened for reading"
    read_only = check_file(place.path, place.shown, write)
    # A writer that was killed in a commit leaves its journal, and whoever reads next takes the
    # commit back: even a log that is only read is opened so that SQLite may, where anybody may.
    mends = bool(read_only) and not check_file(place.path, place.shown, write=True)
    mode = "rwc" if not read_only else "rw" if mends else "ro"
    uri = f"file:{quote(os.path.abspath(place.path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        # No isolation level: the driver must not begin transactions behind our back.
        raw = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        raw.text_factory = text_or_unreadable
        raw.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")
        raw.execute(f"PRAGMA query_only={'ON' if read_only else 'OFF'}")
        return raw

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.QueuePool)
    sa.event.listen(engine, "begin", _begin)
    return engine, read_only


def _begin(connection: sa.Connection) -> None:
    # A deferred transaction that reads and then writes loses its rows to "database is locked"
    # whatever the busy timeout is; IMMEDIATE waits its turn. Readers say that they are, so that
    # they share, and may be read-only.
    reading = connection.get_execution_options().get("whet_reading")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def reading(engine: sa.Engine) -> Any:
    """A transaction that only reads: a context manager giving a ``Connection``."""
    return engine.execution_options(whet_reading=True).begin()


def uninterrupted(fn: Callable[[], R]) -> R:
    """``fn()``, at whose end Ctrl-C and SIGTERM are answered that came meanwhile.

    An exception that a signal raises between two calls of SQLAlchemy's can leave a connection that
    nobody gives back, whose transaction keeps everybody out of the log. A second signal does not
    wait. Signals come to the main thread only, and only a handler of Python's raises.

    Args:
        fn: a transaction.

    Raises:
        KeyboardInterrupt, SystemExit, ...: whatever a signal's handler raises, once ``fn`` is done.
    """
    if threading.current_thread() is not threading.main_thread():
        return fn()
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    number: int
    for number in ENDING:
        if callable(handler := signal.getsignal(number)):
            handlers[number] = handler
    came: list[tuple[int, FrameType | None]] = []
    ended = threading.Event()

    def answer() -> None:
        while came:
            first = came.pop(0)
            handlers[first[0]](*first)

    def note(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))
        if len(came) > 1 or ended.is_set():
            answer()

    try:
        for number in handlers:
            signal.signal(number, note)
        return fn()
    finally:
        ended.set()
        for number, handler in handlers.items():
            if signal.getsignal(number) is note:
                signal.signal(number, handler)
        answer()
