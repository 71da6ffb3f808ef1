"""A last word for a process that Ray may end: with its machine's raylet, at once, and silently."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

ENDED = (
    "whet: process {pid} has ended without a word: somebody killed it, or Ray did, whose node on "
    "this machine has died\n"
    "  what was measured is in the log: the same search goes on from there; one that comes in by "
    "ray://... does not end with a node"
)
_WATCH = "import os, sys\nif not sys.stdin.buffer.read():\n    os.write(2, sys.argv[1].encode())"


@contextlib.contextmanager
def spoken() -> Iterator[None]:
    """Have another process say on this one's stderr that it has ended, unless the block ends.

    Ray's library ends a driver by ``_exit`` when the raylet that it is connected to dies: no
    handler of this process runs then.
    """
    program = [sys.executable, "-I", "-S", "-c", _WATCH, ENDED.format(pid=os.getpid()) + "\n"]
    watch = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it was killed
            watch.communicate(b"bye")
