"""Opening the database behind a log: where it is, whether it is writable, how transactions begin.

SQLite keeps its rollback journal (``journal_mode=DELETE``, ``synchronous=FULL``, its defaults): two
processes may write one log, and the log is one file that can be copied, read from a read-only place
and kept on a network file system. Its write-ahead log is a few times quicker than the millisecond
that a trial takes now, but up to SQLite 3.51.2 two processes writing at once could corrupt it.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc

from whet.compiler.errors import ArgumentError, LogError
from whet.compiler.installed import install_extra
from whet.db.values.identity import Location

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
SQLITE_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True)
class Unreadable:
    """A value of the database that is broken: it ends no query, and readers pass over its row.

    Attributes:
        value: the bytes or the text.
        kind: of what it should be.
    """

    value: Any
    kind: str

    def __repr__(self) -> str:
        return f"{self.value!r}, which is no {self.kind}"


@dataclass(frozen=True)
class Place:
    """Where a log is: a file (``path``) or a database (``url``); ``shown`` hides passwords."""

    shown: str
    path: Path | None
    url: sa.URL | None


def place_of(location: Location) -> Place:
    """Read a log's location.

    Args:
        location: a file's path, or an SQLAlchemy URL such as ``postgresql://user@host/name``.

    Raises:
        ArgumentError: it is neither.
        LogError: it is empty; the URL cannot be read, or names an SQLite database in memory.
    """
    if not isinstance(location, str | os.PathLike):
        raise ArgumentError(
            f"log={location!r}",
            f"a {type(location).__name__} is not a log",
            "give a file's path, a database's URL or a whet.TuningLog, e.g. log=\"whet.db\"",
        )
    text = os.fspath(location)
    if not text:
        raise LogError("open log ''", "that is no name of a file", 'give one, such as "whet.db"')
    if text == ":memory:":
        text = "sqlite://"
    if "://" not in text:
        return Place(text, Path(text).expanduser(), None)
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError) as error:
        raise LogError(
            f"open log {text.partition('://')[0]}://...",
            "its URL cannot be read",
            "postgresql://user:password@host/name, or a path",
        ) from error
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise LogError(f"open log {text}", "a log outlives its process", "give a file's path")
        return Place(url.database, Path(url.database), None)
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    return Place(url.render_as_string(hide_password=True), None, url)


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
    read_only = _check_file(place.path, place.shown, write)
    mode = "ro" if read_only else "rwc"
    uri = f"file:{quote(os.path.abspath(place.path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        # No isolation level: the driver must not begin transactions behind our back.
        raw = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        raw.text_factory = _text
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


def _text(data: bytes) -> str | Unreadable:
    # The driver's own decoder would end the whole query for one stray byte in one row.
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Unreadable(data, "text")


def _begin(connection: sa.Connection) -> None:
    # A deferred transaction that reads and then writes loses its rows to "database is locked"
    # whatever the busy timeout is; IMMEDIATE waits its turn. Readers say that they are, so that
    # they share, and may be read-only.
    reading = connection.get_execution_options().get("whet_reading")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _check_file(path: Path, shown: str, write: bool) -> str:
    """Refuse what cannot be a log; return why the file can only be read, or ""."""
    request = f"open log {shown}"
    if path.is_dir():
        raise LogError(request, "it is a directory", f"give a file, such as {path / 'whet.db'}")
    if not path.exists():
        if not path.parent.is_dir():
            why = f"there is no directory {path.parent}"
            raise LogError(request, why, f"make it first: mkdir -p {path.parent}")
        if not write:
            out = "whet.tune(task, log=...) writes one"
            raise LogError(request, "there is no such file", out)
        if not os.access(path.parent, os.W_OK):
            why = f"the directory {path.parent} is read-only"
            raise LogError(request, why, "give a path that can be written")
        return ""
    if not os.access(path, os.R_OK):
        raise LogError(request, "you may not read it", f"chmod u+r {path}")
    with open(path, "rb") as file:
        head = file.read(len(SQLITE_MAGIC))
    if (head and head != SQLITE_MAGIC) or not (head or write):
        why = f"it is not a database (it begins with {head!r})" if head else "it is an empty file"
        out = "give another path, or move the file away"
        if head.lstrip().startswith(b"{"):
            why = "it is an export, lines of JSON, and no log"
            out = f"make a log of it: whet log import {path} --log whet.db"
        raise LogError(request, why, out)
    if not write:
        return "it was opened for reading"
    if not os.access(path, os.W_OK):
        return f"the file is read-only (mode {path.stat().st_mode & 0o777:o})"
    if not os.access(path.parent, os.W_OK):
        return f"its directory {path.parent} is read-only, and SQLite keeps its journal there"
    return ""


def reading(engine: sa.Engine) -> Any:
    """A transaction that only reads: a context manager giving a ``Connection``."""
    return engine.execution_options(whet_reading=True).begin()
