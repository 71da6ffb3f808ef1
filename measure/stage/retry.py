"""Retries: failures that an earlier candidate may explain are tried again in a fresh worker.

A worker puts back what candidates change in it, as far as it sees that; it does not see all (an
object of a library, memory that native code spoilt). So the first failure of each kind in a used
worker is tried again in a fresh one, and every failure where something was put back before.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TypeVar

from whet.measure.stage.builder import Built
from whet.measure.stage.runner import RunReport
from whet.measure.values import OK, PRUNED
from whet.measure.worker.supervisor import Outcome, Supervisor

T = TypeVar("T", Built, RunReport)

KINDS = 16
"""Kinds of failures that are tried again; then all of a space fail in ways of their own."""
_OUTPUT = "--- the worker's output ---"


class Retry:
    """Decides on retries; remembers the kinds of failures that fresh workers have had, too.

    Args:
        kinds: how many are tried again though nothing was put back; 0: none.
    """

    def __init__(self, kinds: int = KINDS) -> None:
        self._kinds = kinds
        self._confirmed: set[str] = set()
        self._lock = threading.Lock()

    def call(self, supervisor: Supervisor, attempt: Callable[[], tuple[Outcome, T]]) -> T:
        """The outcome of a candidate, of its second attempt where one is due.

        Args:
            supervisor: of the worker.
            attempt: calls it.
        """
        outcome, value = attempt()
        if self.is_due(outcome, value.status, value.error):
            supervisor.renew()
            outcome, value = attempt()
            self.is_due(outcome, value.status, value.error)
        return value

    def is_due(self, outcome: Outcome, status: str, error: str) -> bool:
        """True if a candidate is tried again; a fresh worker's failure counts at once.

        Args:
            outcome: of its call.
            status: of the candidate.
            error: its whole text.
        """
        if status in (OK, PRUNED):
            return False
        kind = _kind(status, error)
        with self._lock:
            if not outcome.earlier:
                self._confirmed.add(kind)
                return False
            if outcome.touched:
                return True
            # A hang takes its whole time again, and slow candidates are killed all the time.
            hung = outcome.kind == "timeout"
            return not hung and kind not in self._confirmed and len(self._confirmed) < self._kinds


def _kind(status: str, error: str) -> str:
    lines = [line for line in error.partition(_OUTPUT)[0].splitlines() if line.strip()]
    return status + ": " + re.sub(r"0x[0-9a-f]+|[\d.]+", "#", lines[-1].strip() if lines else "")
