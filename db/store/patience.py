"""Statements tried again while a database is locked, full or away; the first error in the end.

A transaction that fails leaves nothing behind, so that it may run again. Where its commit was lost
on the way back, it was done: what writes must find its own rows and change nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

PATIENCE = 120.0
"""Seconds for which a log waits for its database, where nobody says otherwise."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two attempts: doubled each time."""
QUIET = 1.0
"""Seconds of waiting of which nothing is said."""
LINES = 5.0
"""Seconds between two lines on a wait."""

EVERY = 2.0
"""Seconds between two lines on something that takes long."""

R = TypeVar("R")

LOCKED = ("locked", "busy")
SQLITE = (*LOCKED, "is full", "disk i/o")
"""SQLite's words for what may pass."""
REFUSED = ("authentication", "does not exist", "pg_hba", "permission", "not permitted", "password")
"""PostgreSQL's words for a connection that will not be had later either."""
CODES = ("08", "40", "53", "57", "55P03", "25P03")
"""Beginnings of PostgreSQL's codes for what may pass: connection, conflict, resources, operator,
a lock, an idle transaction."""
LOCK_CODES = ("40", "55P03")


class Pace:
    """Tells of something that takes long: a line every :data:`EVERY` seconds.

    Args:
        say: is given the lines; None: nobody is told.
    """

    def __init__(self, say: Callable[[str], Any] | None) -> None:
        self._say, self._doing = say, ""
        self._said = time.monotonic()

    def at(self, doing: str) -> None:
        """Note what is being done now."""
        self._doing = doing
        self.tick()

    def tick(self) -> None:
        """Say what is being done, where the last line is not of just now."""
        if self._say is not None and time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            self._say(self._doing)


class GaveUp(Exception):
    """The database did not answer for as long as somebody was willing to wait.

    Attributes:
        first: the error of the first attempt.
        waited: seconds since then.
    """

    def __init__(self, first: Exception, waited: float) -> None:
        super().__init__(str(first))
        self.first, self.waited = first, waited


@dataclass
class Patience:
    """How long to try, and whom to tell.

    Attributes:
        seconds: for which attempts are made after the first error; 0: none.
        waiting: is given a line every few seconds of a wait, and one at its end.
    """

    seconds: float = PATIENCE
    waiting: Callable[[str], Any] | None = None

    def call(
        self,
        attempt: Callable[[], R],
        where: str,
        hopeless: Callable[[Exception], bool],
        only_locks: bool = False,
    ) -> R:
        """The result of ``attempt()``, which is called until it succeeds.

        Args:
            attempt: one whole transaction.
            where: the log's name, for the lines.
            hopeless: says of an error that no attempt can succeed: the file was replaced.
            only_locks: be patient with locks alone.

        Raises:
            GaveUp: the time is over.
            Exception: an error that does not pass.
        """
        first: Exception | None = None
        began = said = time.monotonic()
        pause = FIRST_PAUSE
        while True:
            try:
                result = attempt()
            except Exception as error:
                if not passes(error, only_locks) or hopeless(error):
                    if first is None:
                        raise
                    raise GaveUp(first, time.monotonic() - began) from error
                first = first or error
            else:
                if said > began:
                    self._say(f"log {where} answers again, after {time.monotonic() - began:.0f} s")
                return result
            waited = time.monotonic() - began
            if waited >= self.seconds:
                if waited < FIRST_PAUSE:
                    raise first
                raise GaveUp(first, waited) from first
            if waited >= QUIET and (said == began or time.monotonic() - said >= LINES):
                said = time.monotonic()
                reason = str(getattr(first, "orig", first)).strip().splitlines()[0]
                self._say(f"log {where}: {reason}; waited for {waited:.0f} s of {self.seconds:.0f}")
            time.sleep(min(pause, max(self.seconds - waited, 0.0)))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _say(self, line: str) -> None:
        if self.waiting is not None:
            self.waiting(line)


def passes(error: BaseException, only_locks: bool = False) -> bool:
    """True for an error of a database that may not come again.

    Args:
        error: SQLAlchemy's.
        only_locks: only where another transaction is in the way.
    """
    from sqlalchemy import exc

    if not isinstance(error, exc.DBAPIError):
        return isinstance(error, exc.TimeoutError)  # no connection of the pool was free
    said = str(error.orig).lower()
    if type(error.orig).__module__ == "sqlite3":
        return any(sign in said for sign in (LOCKED if only_locks else SQLITE))
    code = getattr(error.orig, "sqlstate", None)
    if code is not None:
        return str(code).startswith(LOCK_CODES if only_locks else CODES)
    if only_locks or any(sign in said for sign in REFUSED):
        return False
    return error.connection_invalidated or isinstance(error, exc.OperationalError)
