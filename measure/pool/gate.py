"""Builds go on side by side; a measurement that they would disturb waits, then goes alone.

Beside it the stopwatch of all that work.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class Gate:
    """A shared-or-alone lock for one machine; who wants to be alone goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._building = 0
        self._alone = False
        self._waiting = 0

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Hold the gate together with other builds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._building += 1
        try:
            yield
        finally:
            with self._changed:
                self._building -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no build is under way, and let none begin."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._alone and not self._building)
                self._alone = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


class Stopwatch:
    """Enter it for each piece of work, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._since = 0.0
        self._total = 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far in which at least one was at work."""
        with self._lock:
            return self._total + (time.perf_counter() - self._since if self._working else 0.0)

    def __enter__(self) -> None:
        with self._lock:
            if not self._working:
                self._since = time.perf_counter()
            self._working += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._working -= 1
            if not self._working:
                self._total += time.perf_counter() - self._since
