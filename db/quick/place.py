"""Where a log is, and what its file says of itself before anybody opens it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whet.compiler.errors import ArgumentError, LogError
from whet.db.quick.rows import Unreadable
from whet.db.values.identity import Location

if TYPE_CHECKING:
    import sqlalchemy as sa

SCHEMA = "0003"
"""The newest revision of the tables: what this version of Whet reads and writes."""
VERSION_TABLE = "whet_version"
SECRET = ("password", "sslpassword")
"""Words of a URL's query that nobody else shall read."""
SQLITE_MAGIC = b"SQLite format 3\x00"

Identity = tuple[int, int]
"""A file's device and inode, which tell it from another that took its name."""


@dataclass(frozen=True)
class Place:
    """Where a log is: a file (``path``) or a database (``url``).

    Attributes:
        shown: for messages and commands: a URL without its passwords.
    """

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
    import sqlalchemy as sa
    from sqlalchemy import exc

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
    query = {name: words for name, words in url.query.items() if name not in SECRET}
    where = url.username, None, url.host, url.port, url.database
    bare = sa.URL.create(url.drivername, *where, query)
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    return Place(bare.render_as_string(), None, url)


def text_or_unreadable(data: bytes) -> str | Unreadable:
    """A text of SQLite's."""
    # The driver's own decoder would end the whole query for one stray byte in one row.
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Unreadable(data, "text")


def check_file(path: Path, shown: str, write: bool) -> str:
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
    if not path.is_file():  # to open a pipe would wait for whoever writes to it
        raise LogError(request, "it is a device or a pipe", "give a file's path")
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


def identity_of(place: Place) -> Identity | None:
    """The file that stands at a place now; None where there is none, or a server."""
    with suppress(OSError):
        if place.path is not None:
            stat = place.path.stat()
            return stat.st_dev, stat.st_ino
    return None
