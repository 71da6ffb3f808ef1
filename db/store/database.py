"""An open database: its transactions, their patience, and what they passed over."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from whet.compiler.errors import LogError
from whet.db.values.identity import Location

if TYPE_CHECKING:
    import sqlalchemy as sa

    from whet.db.store.reading import Reader

R = TypeVar("R")


class Database:
    """The database behind a log.

    Args:
        location: as of :class:`whet.db.TuningLog`.
        write: as there.
        patience: as there; None: as long as it is by default.
        waiting: as there.

    Attributes:
        place: where it is.
        engine: SQLAlchemy's.
        patience: how long its transactions are tried.
        refusal: why it can only be read; "" where it can be written.
        ignored: rows that were passed over so far, by their table and id.

    Raises:
        LogError: it cannot be opened, or holds no log.
    """

    def __init__(
        self,
        location: Location,
        write: bool,
        patience: float | None = None,
        waiting: Callable[[str], Any] | None = None,
    ) -> None:
        from whet.db.store import engine, faults, schema
        from whet.db.store.patience import PATIENCE, Patience

        self.patience = Patience(PATIENCE if patience is None else patience, waiting)
        self.place = engine.place_of(location)
        self.engine, self.refusal = engine.open_engine(self.place, write=write)
        self.ignored: set[tuple[str, int]] = set()
        # An open file must not outlive the last reference to the log.
        weakref.finalize(self, self.engine.dispose)
        try:
            with faults.errors_named(f"open log {self.location}", self.place, opening=True):
                self.patience.call(
                    lambda: schema.make_ready(self.place, self.engine, self.refusal, waiting),
                    self.location,
                    hopeless=lambda error: False,
                    only_locks=True,
                )
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

    def read(self, request: str, fn: Callable[[sa.Connection], R], at_once: bool = False) -> R:
        """The result of a function of one transaction that only reads.

        Where the database is locked or away, the function is called again, for as long as the log
        is patient.

        Args:
            request: its purpose, for the error's text.
            fn: reads; nothing that it does but its result may be seen.
            at_once: it is called once, however patient the log is.

        Raises:
            LogError: the database refused, or did not answer; the first error.
        """
        from whet.db.store import engine

        def attempt() -> R:
            with engine.reading(self.engine) as connection:
                return fn(connection)

        return self._patiently(f"{request} from log {self.location}", attempt, at_once)

    def read_records(self, request: str, fn: Callable[[Reader], R]) -> R:
        """:meth:`read` with a reader of records; afterwards a warning tells of the broken ones."""
        from whet.db.store.reading import Reader, tell_of_broken

        def read(connection: sa.Connection) -> tuple[R, Reader]:
            reader = Reader(connection)
            return fn(reader), reader

        result, reader = self.read(request, read)
        tell_of_broken(self.location, reader.broken, self.ignored)
        return result

    def write(self, request: str, fn: Callable[[sa.Connection], R], at_once: bool = False) -> R:
        """The result of a function of one transaction: all of it is on disk, or nothing.

        Where the database is locked, full or away, the function is called again, for as long as
        the log is patient. A commit may have been done although its answer was lost: called again,
        the function must find its rows and leave them.

        Args:
            request: its purpose, for the error's text.
            fn: reads and writes.
            at_once: it is called once, however patient the log is.

        Raises:
            LogError: the log can only be read; the database refused, or did not answer; the first
                error.
        """
        self.check_writable(request)

        def attempt() -> R:
            with self.engine.begin() as connection:
                return fn(connection)

        return self._patiently(f"{request} to log {self.location}", attempt, at_once)

    def _patiently(self, request: str, attempt: Callable[[], R], at_once: bool) -> R:
        from whet.db.store import faults

        with faults.errors_named(request, self.place, was=self._file):
            if at_once:
                return attempt()
            return self.patience.call(attempt, self.location, self._is_hopeless)

    def _is_hopeless(self, error: Exception) -> bool:
        """True where an error will not pass, because the file is not what it was."""
        from whet.db.store import faults
        from whet.db.store.patience import passes

        if passes(error, only_locks=True):
            # Its size says nothing while another process is writing.
            return self._file is not None and faults.identity_of(self.place) != self._file
        return faults.became(self.place, self._file) is not None

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
