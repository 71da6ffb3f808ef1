"""Lines about long work on standard error: none at all for what is done in two seconds."""

from __future__ import annotations

import threading
import time

import click

QUIET = 2.0
"""Seconds after which the first line is printed, and between two of them at least."""


class Saying:
    """Prints the latest line every two seconds while work goes on; a context manager.

    Args:
        begin: the first line.

    It is called with each line, which costs nothing: a thread prints them.
    """

    def __init__(self, begin: str) -> None:
        self._line = begin
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)
        self._began = time.monotonic()

    def __call__(self, line: str) -> None:
        """Take a line, in place of the one before."""
        self._line = line

    def __enter__(self) -> Saying:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def _print(self) -> None:
        while not self._ended.wait(QUIET):
            click.echo(f"[{time.monotonic() - self._began:.0f} s] {self._line}", err=True)
