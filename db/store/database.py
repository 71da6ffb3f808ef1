"""An open database: its transactions, their patience, and what they passed over."""

from __future__ import annotations

import os
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from whet.compiler.errors import LogError
from whet.db.quick import connect
from whet.db.quick.best import QuickReader
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


def _close_all(connections: list[tuple[int, connect.Connection]]) -> None:
    while connections:
        pid, connection = connections.pop()
        if pid == os.getpid():
            connection.close()


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
        self._idle: list[tuple[int, connect.Connection]] = []  # with the process that made it
        weakref.finalize(self, _close_all, self._idle)
        self._file = identity_of(self.place)
        if not write and self._is_current():
            self.refusal = "it was opened for reading"  # SQLAlchemy waits until it is needed
            return
        self.refusal = self._open(write)
        self._make_ready(waiting)

    def _is_current(self) -> bool:
        """True for a log of this version's tables that can be read now, without SQLAlchemy."""
        try:
            self._let_go(self._connect())
        except connect.NotQuick:
            return False
        return True

    def _connect(self) -> connect.Connection:
        """A quick connection for one thread: one to a server that was kept, or a new one."""
        while self._idle:
            with suppress(IndexError):  # another thread was quicker
                pid, kept = self._idle.pop()
                if pid == os.getpid():  # else this process was forked, and it is its parent's
                    return kept
        return connect.connect(self.place)

    def _let_go(self, connection: connect.Connection) -> None:
        """Keep a connection to a server; who keeps a file open would not see it replaced."""
        if self.place.path is None and self._engine is None:
            self._idle.append((os.getpid(), connection))
        else:
            connection.close()

    def _open(self, write: bool) -> str:
        from whet.db.store import engine

        self._engine, refusal = engine.open_engine(self.place, write=write)
        # An open file must not outlive the last reference to the log.
        weakref.finalize(self, self._engine.dispose)
        _close_all(self._idle)  # nobody looks quickly any more: see quick_best
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
        _close_all(self._idle)
        if self._engine is not None:
            self._engine.dispose()

    def quick_best(
        self, workload: Workload, target: AnyTarget, device: Device, fingerprint: str | None
    ) -> tuple[TrialRecord | None] | None:
        """The best trial by a short look into the log; None where that cannot be had.

        Only a log that was opened for reading and has not loaded SQLAlchemy is looked into.
        """
        if self._engine is not None or identity_of(self.place) != self._file:
            return None
        keys = {"workload": workload.to_json(), "target": target_json(target)}
        digests = {name: digest(key) for name, key in keys.items()}
        digests["device"] = digest(device_key(device))
        try:
            connection = self._connect()
            try:
                found = QuickReader(connection).best(digests, fingerprint)
            except BaseException:
                connection.close()
                raise
        except connect.NotQuick:
            return None
        self._let_go(connection)
        return (found,)

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
        from whet.db.store import engine, faults

        def release() -> R:
            """Who keeps an error keeps its frames, and in them rows that are yet to be read: these
            would keep others out of SQLite's file."""
            try:
                return engine.uninterrupted(attempt)
            except BaseException as error:
                traceback.clear_frames(error.__traceback__)
                raise

        with faults.errors_named(request, self.place, was=self._file):
            if at_once:
                return release()
            return self.patience.call(release, self.location, self._is_hopeless)

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
