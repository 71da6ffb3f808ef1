"""Lines from a pool to its user: who came and left, what was lost, when waiting is over."""

from __future__ import annotations

import threading
import time

from whet.compiler.errors import MeasureError

WAIT_S = 60.0
"""Seconds that a pool waits for another worker when it has lost the last one that could go on."""
FIRST_WAIT_S = 180.0
"""Seconds for which it waits for the first one: machines may be busy, or still start."""


class News:
    """Lines for the user, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._losses: list[str] = []

    def say(self, line: str, lost: bool = False) -> None:
        """Note a line.

        Args:
            line: for the user.
            lost: it is about a loss, which an error that follows from it shall quote.
        """
        with self._lock:
            self._lines.append(line)
            if lost:
                self._losses.append(f"{time.strftime('%H:%M:%S')} {line}")

    def taken(self) -> list[str]:
        """The lines since the last call."""
        with self._lock:
            lines, self._lines = self._lines, []
            return lines

    def losses(self) -> str:
        """The last losses with their times, and the way out."""
        way_out = "what was measured is in the log: with machines that work, the search goes on"
        with self._lock:
            return "\n".join([*self._losses[-8:], way_out])

    def check(self, measures: bool, kind: str, idle_s: float, ever: bool) -> None:
        """Raise where waiting for a worker has no point any more.

        Args:
            measures: a measurer is needed; else a builder.
            kind: of its device.
            idle_s: seconds in which there was none.
            ever: there was one before.

        Raises:
            MeasureError: it has been too long; names what was lost and when.
        """
        if idle_s <= (WAIT_S if ever else FIRST_WAIT_S):
            return
        act = f"measure on {kind or 'this device'}" if measures else "build"
        why = f"for {idle_s:.0f} s nothing is left that can {act}"
        if not ever:
            why = f"nothing that can {act} has come up in {idle_s:.0f} s"
        raise MeasureError("measurement of candidates", why, self.losses())
