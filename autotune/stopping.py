"""SIGTERM during a search: it ends as on Ctrl-C, with a summary and a run that was interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM
"""The exit code of a process that SIGTERM stopped: 143, as a shell says of one it killed."""


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Raise ``SystemExit(143)`` where SIGTERM would have killed the process without a word.

    Only in the main thread, where Python allows it, and only where nobody has said otherwise: a
    handler of the user's stays, and so does a signal that is ignored. A second SIGTERM kills.
    """
    alone = threading.current_thread() is threading.main_thread()
    if not alone or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise SystemExit(EXIT_CODE)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is end:  # a library may have put its own there
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
