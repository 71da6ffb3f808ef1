"""An open database: its transactions, what they are request for, and what they passed over."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whet.compiler.errors import LogError
from whet.db.values.identity import Location

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
        refusal: why it can only be read; "" where it can be written.
        ignored: rows that were passed over so far, by their table and id.

    Raises:
        LogError: it cannot be opened, or holds no log.
    """

    def __init__(self, location: Location, write: bool) -> None:
        from whet.db.store import engine, faults, schema

        self.place = engine.place_of(location)
        self.engine, self.refusal = engine.open_engine(self.place, write=write)
        self.ignored: set[tuple[str, int]] = set()
        # An open file must not outlive the last reference to the log.
        weakref.finalize(self, self.engine.dispose)
        try:
            with faults.errors_named(f"open log {self.location}", self.place, opening=True):
                schema.make_ready(self.place, self.engine, self.refusal)
        except BaseException:
            self.close()
            raise
        self._file = faults.identity_of(self.place)

    @property
    def location(self) -> str:
        """The path or URL, without a password."""
        return self.place.shown

    def close(self) -> None:
        """Close the connections; the log opens them again when it is used again."""
        self.engine.dispose()

    @contextmanager
    def reading(self, request: str) -> Iterator[sa.Connection]:
        """One transaction that only reads.

        Args:
            request: its purpose, for the error's text.

        Raises:
            LogError: the database refused.
        """
        from whet.db.store import engine, faults

        request = f"{request} from log {self.location}"
        with (
            faults.errors_named(request, self.place, was=self._file),
            engine.reading(self.engine) as connection,
        ):
            yield connection

    @contextmanager
    def _records(self, request: str) -> Iterator[Reader]:
        """A transaction that reads records; afterwards a warning tells of the broken ones."""
        from whet.db.store.reading import Reader, tell_of_broken

        with self.reading(request) as connection:
            reader = Reader(connection)
            yield reader
        tell_of_broken(self.location, reader.broken, self.ignored)

    @contextmanager
    def writing(self, request: str) -> Iterator[sa.Connection]:
        """One transaction that writes: all of it is on disk afterwards, or nothing.

        Args:
            request: its purpose, for the error's text.

        Raises:
            LogError: the log can only be read, or the database refused.
        """
        from whet.db.store import faults

        self.check_writable(request)
        request = f"{request} to log {self.location}"
        with (
            faults.errors_named(request, self.place, was=self._file),
            self.engine.begin() as connection,
        ):
            yield connection

    def check_writable(self, request: str) -> None:
        """Refuse a log that can only be read, before work is done for it.

        Args:
            request: what will be written, for the error's text.

        Raises:
            LogError: the log can only be read.
        """
        if self.refusal:
            raise LogError(
                f"{request} to log {self.location}",
                self.refusal,
                "make it writable, or log to another file",
            )
