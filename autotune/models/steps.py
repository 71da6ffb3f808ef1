"""Where a long piece of work is, in a line every two seconds; nothing where it is short."""

from __future__ import annotations

import sys
import time

SILENCE_S = 2.0
"""Seconds before the first line, and between two."""


class Steps:
    """Says on standard error what is at work: ``[4 s] compiling: kernel 5/18``.

    Args:
        name: of the whole; "": none is said.
        began: when it began, of ``time.monotonic``; None: now.
    """

    def __init__(self, name: str = "", began: float | None = None) -> None:
        self._name = f"{name}: " if name else ""
        self._began = self._said = time.monotonic() if began is None else began

    def at(self, step: str) -> None:
        """Say what begins now, if nothing was said for two seconds."""
        now = time.monotonic()
        if now - self._said >= SILENCE_S:
            self._said = now
            passed = f"[{now - self._began:.0f} s]"
            print(f"{passed} {self._name}{step}", file=sys.stderr, flush=True)
