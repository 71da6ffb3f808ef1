"""The text of an exception, as results and records keep it."""

from __future__ import annotations

import traceback

LONGEST = 32_768
"""Characters; what is said of an endless recursion, or of an array in a message, may be longer."""


def error_text() -> str:
    """The traceback of the exception that is being handled, :func:`capped`."""
    return capped(traceback.format_exc())


def capped(text: str) -> str:
    """A text of at most about :data:`LONGEST` characters: its begin, its end, how much was cut."""
    if len(text) <= LONGEST:
        return text
    head, tail = text[: LONGEST // 4], text[-(LONGEST - LONGEST // 4) :]
    cut = len(text) - len(head) - len(tail)
    return f"{head}\n... {cut} characters of {len(text)} left out ...\n{tail}"
