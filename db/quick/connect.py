"""Connections that read a log without SQLAlchemy: a file by ``sqlite3``, a server by ``psycopg``.

Whatever is not as it should be is :class:`NotQuick`, and the caller asks the way that everything
else is asked, which is patient and names what happened.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from whet.db.quick.place import SCHEMA, VERSION_TABLE, Place, text_or_unreadable

if TYPE_CHECKING:
    import sqlalchemy as sa

BUSY_S = 0.2
"""Seconds for which a writer's commit is waited for, before the slow way has its patience."""
SERVER: dict[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""libpq's settings: text is text whatever a database calls it (SQL_ASCII's would be bytes), and how
soon a server that is gone is given up, in s and ms."""
SERVER_OPTIONS = "-c lock_timeout=5s -c idle_in_transaction_session_timeout=60s"
"""The server gives up for us too: a client that is gone must not hold a task for ever."""


def server_settings(url: sa.URL) -> dict[str, Any]:
    """libpq's settings that let nobody wait for a dead peer; what the URL says comes first."""
    args = {name: value for name, value in SERVER.items() if name not in url.query}
    options = url.query.get("options", ())
    given = (options,) if isinstance(options, str) else options
    return {**args, "options": " ".join((SERVER_OPTIONS, *given))}


class NotQuick(Exception):
    """The record cannot be had the quick way: the log is busy, broken, away or of other tables."""


class Connection(Protocol):
    """Reads a log. Its methods raise :class:`NotQuick`."""

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        """The rows of a query, with the columns' names as attributes.

        Args:
            query: SQL in which ``?`` stands for a value.
            values: one for each of them.
        """

    def close(self) -> None:
        """Close it; it is not used again."""


def connect(place: Place) -> Connection:
    """A connection to a log whose tables are of this version.

    Raises:
        NotQuick: there is none, or it cannot be read now.
    """
    connection: Connection
    connection = _File(place.path) if place.path is not None else _Server(place.url)
    try:
        rows = connection.rows(f"SELECT version_num FROM {VERSION_TABLE}")
        if [row.version_num for row in rows] != [SCHEMA]:
            raise NotQuick("its tables are of another version")
    except BaseException:
        connection.close()
        raise
    return connection


class _File:
    """One look into a file, whose rows are all of one moment."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():  # to open a pipe would wait for whoever writes to it
            raise NotQuick("it is no file")
        uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
        try:
            self._raw = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
        except sqlite3.Error as error:
            raise NotQuick(str(error)) from error
        self._raw.text_factory = text_or_unreadable
        self._begun = False

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        try:
            if not self._begun:
                self._begun = bool(self._raw.execute("BEGIN"))
            with closing(self._raw.execute(query, tuple(values))) as cursor:
                return _named(cursor.description, cursor)
        except (sqlite3.Error, ValueError) as error:  # a message that is no text, too
            raise NotQuick(str(error)) from error

    def close(self) -> None:
        self._raw.close()


class _Server:
    """A connection to a server; each query sees what was committed before it."""

    def __init__(self, url: sa.URL | None) -> None:
        if url is None or url.drivername != "postgresql+psycopg":
            raise NotQuick("it is no server of PostgreSQL's that is asked by psycopg")
        try:
            import psycopg
        except ImportError as error:
            raise NotQuick(str(error)) from error
        self._errors = psycopg.Error
        names = url.translate_connect_args(username="user", database="dbname")
        words: Mapping[str, Any] = {**names, **url.query, **server_settings(url)}
        if not all(isinstance(word, str | int) for word in words.values()):
            raise NotQuick("its URL says something twice")
        try:
            self._raw = psycopg.connect(**{**words, "autocommit": True})
        except (psycopg.Error, ValueError, TypeError, KeyError) as error:  # words of other kinds
            raise NotQuick(str(error)) from error

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        try:
            with self._raw.execute(query.replace("?", "%s"), tuple(values)) as cursor:
                return _named(cursor.description, cursor)
        except (self._errors, ValueError, TypeError) as error:
            raise NotQuick(str(error)) from error

    def close(self) -> None:
        self._raw.close()


def _named(description: Any, rows: Iterable[Any]) -> list[Any]:
    names = [column[0] for column in description]
    return [SimpleNamespace(**dict(zip(names, row))) for row in rows]
