"""A stopwatch that several workers share: it runs while at least one of them is at work."""

from __future__ import annotations

import threading
import time


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
