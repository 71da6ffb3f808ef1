"""Lock files of this user in the temporary folder: what one process of the machine holds alone.

The system ends a lock with its process, however that ends. The files stay: who waits for one that
was removed would hold another one than who comes next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from whet.compiler.errors import MeasureError


def lock_path(name: str) -> Path:
    """The path of a lock file, another one for each user of the machine."""
    return Path(tempfile.gettempdir(), f"whet-{os.getuid()}-{name}")


class LockFile:
    """A lock file that is open; see :func:`opened`.

    Args:
        number: its descriptor.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def take(self) -> bool:
        """Lock it until it is closed, without waiting; False while another one has it."""
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def sign(self) -> None:
        """Write this process's id into it, for those who cannot have it."""
        os.ftruncate(self._number, 0)
        os.pwrite(self._number, str(os.getpid()).encode(), 0)

    def holder(self) -> str:
        """The id of the process that has signed it last; "unknown" where none has."""
        return os.pread(self._number, 32, 0).decode(errors="replace").strip() or "unknown"


@contextlib.contextmanager
def opened(path: Path, purpose: str) -> Iterator[LockFile]:
    """Open a lock file; closing it unlocks it.

    Args:
        path: of :func:`lock_path`.
        purpose: of the lock, for the error: "measurement on cpu".

    Raises:
        MeasureError: it cannot be opened: another user made it, or the folder is full.
    """
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        why = f"{path} keeps processes from disturbing each other: is it yours?"
        raise MeasureError(purpose, str(error), why) from error
    try:
        yield LockFile(number)
    finally:
        os.close(number)
