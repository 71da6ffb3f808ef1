"""An open database: its transactions, what they are asked for, and what they passed over."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whet.compiler.errors import LogError

if TYPE_CHECKING:
    import sqlalchemy as sa

    from whet.db.store.reading import Reader


class Database:
    """The database behind a log.

    Args:
        location: as of :class:`whet.db.TuningLog`.
        write: as there.

    Attributes:
        place: where it is.
        engine: SQLAlchemy's.
        read_only: why it can only be read; "" where it can be written.
        broken: rows that were passed over so far, by their table and id.

    Raises:
        LogError: it cannot be opened, or holds no log.
    """

    def __init__(self, location: str | os.PathLike[str], write: bool) -> None:
        from whet.db.store import engine, faults, schema

        self.place = engine.place_of(location)
        self.engine, self.read_only = engine.open_engine(self.place, write=write)
        self.broken: set[tuple[str, int]] = set()
        # An open file must not outlive the last reference to the log.
        self._close = weakref.finalize(self, self.engine.dispose)
        try:
            with faults.errors_named(f"open log {self.place.shown}", self.place, opening=True):
                schema.make_ready(self.place, self.engine, self.read_only)
        except BaseException:
            self.close()
            raise
        self._file = faults.identity_of(self.place)

    def close(self) -> None:
        """Close the connections; they are opened again when they are needed."""
        self.engine.dispose()

    @contextmanager
    def reading(self, asked: str) -> Iterator[sa.Connection]:
        """One transaction that only reads what ``asked`` says; ``LogError`` if it cannot."""
        from whet.db.store import engine, faults

        asked = f"{asked} from log {self.place.shown}"
        with (
            faults.errors_named(asked, self.place, was=self._file),
            engine.reading(self.engine) as connection,
        ):
            yield connection

    @contextmanager
    def records(self, asked: str) -> Iterator[Reader]:
        """A transaction that reads records; afterwards a warning tells of the broken ones."""
        from whet.db.store.reading import Reader, tell_of_broken

        with self.reading(asked) as connection:
            reader = Reader(connection)
            yield reader
        tell_of_broken(self.place.shown, reader.broken, self.broken)

    @contextmanager
    def writing(self, asked: str) -> Iterator[sa.Connection]:
        """One transaction that writes: all of it is on disk afterwards, or nothing."""
        from whet.db.store import faults

        self.check_writable(asked)
        asked = f"{asked} to log {self.place.shown}"
        with (
            faults.errors_named(asked, self.place, was=self._file),
            self.engine.begin() as connection,
        ):
            yield connection

    def check_writable(self, asked: str) -> None:
        """Refuse a database that can only be read."""
        if self.read_only:
            raise LogError(
                f"{asked} to log {self.place.shown}",
                self.read_only,
                "make it writable, or log to another file",
            )
