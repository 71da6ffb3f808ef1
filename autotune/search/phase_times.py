"""Seconds of each phase of a search; phases nest, and no second counts twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class PhaseTimes:
    """Adds up seconds by phase; a phase inside another counts for the inner one only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()
        self._inner = [0.0]

    @property
    def wall(self) -> float:
        """Seconds since this object was made."""
        return time.perf_counter() - self._began

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Count the time inside the ``with`` for ``name``."""
        begin = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            took = time.perf_counter() - begin
            mine = took - self._inner.pop()
            self.seconds[name] = self.seconds.get(name, 0.0) + mine
            self._inner[-1] += took
