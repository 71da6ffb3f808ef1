"""Faults of a log's database in words: the first error, and the state of the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import exc

from whet.compiler.errors import LogError, WhetError
from whet.db.quick.place import SQLITE_MAGIC, Identity, Place, identity_of
from whet.db.store.patience import GaveUp

DAMAGE = (
    "malformed",
    "not a database",
    "corrupt",
    "no such table",
    "no such column",
    "unsupported file format",
    "datatype mismatch",
)
"""Words of the libraries for a damaged file."""
SHOWN = 300
"""Characters of a library's message that are quoted."""
DAMAGED = "the file is damaged: restore a copy, or move it away and import an export"


@contextmanager
def errors_named(
    request: str, place: Place, opening: bool = False, was: Identity | None = None
) -> Iterator[None]:
    """Turn what the database and its libraries say into a ``LogError`` with a way out.

    A damaged file makes them raise all kinds of errors, not only their own: SQLite's message about
    a broken table quotes bytes that are no text, and a type that a column cannot have surprises
    SQLAlchemy.

    Args:
        request: its purpose, for the error's text.
        place: where the log is.
        opening: the file is being made or opened: it need not have been there.
        was: the file that was opened; None: not known, or not a file.
    """
    try:
        yield
    except LogError as error:
        if place.shown not in str(error):  # what refuses a record does not know where it is kept
            asked, *others = error.args
            error.args = (f"{asked} (log {place.shown})", *others)
        raise
    except WhetError:
        raise
    except GaveUp as gave_up:
        raise _named(request, place, gave_up.first, opening, was, gave_up.waited) from gave_up.first
    except Exception as error:
        raise _named(request, place, error, opening, was) from error


def _named(
    request: str,
    place: Place,
    error: Exception,
    opening: bool,
    was: Identity | None,
    waited: float = 0.0,
) -> LogError:
    said = message_of(first_of(error))
    way_out = _way_out(said, error, place, opening)
    if waited:
        said = f"{said} (for {waited:.0f} s)"
    if not opening and (state := became(place, was)):
        why, way_out = state
        said = f"{why} ({said})"
    return LogError(request, said, way_out)


def first_of(error: BaseException) -> BaseException:
    """The database's error that began it: what a rollback says after it hides what happened."""
    first, step = error, error.__context__
    while step is not None and not isinstance(step, WhetError):
        if isinstance(step, exc.SQLAlchemyError):
            first = step
        step = step.__context__
    return first


def message_of(error: BaseException) -> str:
    """The message of a library as text that can be printed: its first lines."""
    if isinstance(error, UnicodeDecodeError):
        return error.object[:SHOWN].decode("utf-8", "backslashreplace").strip()
    orig = getattr(error, "orig", None)
    text = str(orig or error).strip()
    if not isinstance(error, exc.SQLAlchemyError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def became(place: Place, was: Identity | None) -> tuple[str, str] | None:
    """The fate of the file while it was open, and the way out; None: nothing that shows."""
    path = place.path
    if path is None:
        return None
    now = identity_of(place)
    if now is None:
        return f"the file {path} was moved or deleted while it was open", "put it back"
    if was is not None and now != was:
        why = f"the file {path} was replaced by another while it was open"
        return why, "open the log anew; what was recorded before is in the file that was replaced"
    size, whole = _sizes(path)
    if size < whole or not size:
        why = f"the file {path} was cut short while it was open: it has {size} bytes"
        return f"{why} of {whole}" if size else why, "restore a copy, or import an export"
    return None


def _sizes(path: Path) -> tuple[int, int]:
    """A database file's size in bytes, and what its header says of it (0: nothing reliable)."""
    try:
        with open(path, "rb") as file:
            head, size = file.read(100), os.fstat(file.fileno()).st_size
    except OSError:
        return 1, 0
    # The number of pages is right only if whoever wrote last knows of that field (SQLite's file
    # format, 1.3.7).
    if len(head) < 100 or not head.startswith(SQLITE_MAGIC) or head[24:28] != head[92:96]:
        return size, 0
    page = int.from_bytes(head[16:18], "big")
    return size, (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")


def _way_out(said: str, error: Exception, place: Place, opening: bool) -> str:
    low = said.lower()
    if place.path is not None and not place.path.exists() and opening:
        return f"no file can be made in {place.path.parent}: give a path that can be written"
    ways = {
        ("locked",): "another process holds the log: let it end",
        ("full", "no space"): "free some space; what was recorded so far is safe",
        (
            "disk i/o",
        ): f"the disk of {place.shown} cannot be used; what was recorded so far is safe",
        ("readonly", "read-only", "unable to open"): (
            f"make {place.shown} and its directory writable, or log to another file"
        ),
    }
    for signs, way_out in ways.items():
        if any(sign in low for sign in signs):
            return way_out
    ours = isinstance(error, exc.SQLAlchemyError)
    if place.path is not None and (not ours or any(sign in low for sign in DAMAGE)):
        return DAMAGED
    if place.path is None:
        return (
            f"is the database {place.shown} up, and may you use it? "
            "A password comes from the URL, PGPASSWORD or ~/.pgpass"
        )
    return f"log: {place.shown}"
