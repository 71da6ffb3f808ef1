"""An open database: its transactions, their patience, and what they passed over."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from whet.compiler.errors import LogError
from whet.db.quick.best import NotQuick, QuickReader, is_current
from whet.db.quick.place import identity_of, place_of
from whet.db.store.patience import PATIENCE, Patience
from whet.db.values.identity import Location, device_key, digest
from whet.db.values.records import TrialRecord
from whet.measure.device.names import Device
from whet.measure.values import AnyTarget, target_json
from whet.search_spaces.values import Workload

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
        self.patience = Patience(PATIENCE if patience is None else patience, waiting)
        self.place = place_of(location)
        self.ignored: set[tuple[str, int]] = set()
        self._engine: sa.Engine | None = None
        self._opening = threading.Lock()
        self._file = identity_of(self.place)
        if not write and self.place.path is not None and is_current(self.place.path):
            self.refusal = "it was opened for reading"  # SQLAlchemy waits until it is needed
            return
        self.refusal = self._open(write)
        self._make_ready(waiting)

    def _open(self, write: bool) -> str:
        from whet.db.store import engine

        self._engine, refusal = engine.open_engine(self.place, write=write)
        # An open file must not outlive the last reference to the log.
        weakref.finalize(self, self._engine.dispose)
        return refusal

    @property
    def engine(self) -> sa.Engine:
        """SQLAlchemy's engine."""
        with self._opening:
            if self._engine is None:
                self._open(write=False)
            assert self._engine is not None
            return self._engine

    def _make_ready(self, waiting: Callable[[str], Any] | None) -> None:
        from whet.db.store import faults, schema

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
        self._file = identity_of(self.place)

    @property
    def location(self) -> str:
        """The path or URL, without a password."""
        return self.place.shown

    @property
    def read_only(self) -> bool:
        """True if this log refuses to be written."""
        return bool(self.refusal)

    @property
    def broken(self) -> int:
        """The number of rows that were passed over so far, because they cannot be read."""
        return len(self.ignored)

    def close(self) -> None:
        """Close the connections; the log opens them again when it is used again."""
        if self._engine is not None:
            self._engine.dispose()

    def quick_best(
        self, workload: Workload, target: AnyTarget, device: Device, fingerprint: str | None
    ) -> tuple[TrialRecord | None] | None:
        """The best trial by a short look into the file; None where that cannot be had.

        Only a log that was opened for reading and has not loaded SQLAlchemy is looked into.
        """
        if self._engine is not None or identity_of(self.place) != self._file:
            return None
        path = self.place.path
        assert path is not None  # a server's engine is there from the beginning
        keys = {"workload": workload.to_json(), "target": target_json(target)}
        digests = {name: digest(key) for name, key in keys.items()}
        digests["device"] = digest(device_key(device))
        try:
            with QuickReader(path) as reader:
                return (reader.best(digests, fingerprint),)
        except NotQuick:
            return None

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
            return self._file is not None and identity_of(self.place) != self._file
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
