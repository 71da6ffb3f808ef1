"""Builds go on side by side; a measurement that they would disturb waits, then goes alone."""

from __future__ import annotations

import contextlib
import threading
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
