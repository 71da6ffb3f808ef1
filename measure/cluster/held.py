"""Cores that this process holds, so that no other worker of the machine gives them, too."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from whet.compiler.errors import MeasureError


@contextlib.contextmanager
def holding(cores: Iterable[int]) -> Iterator[None]:
    """Hold cores while this process lives, or the block runs.

    Args:
        cores: their numbers.

    Raises:
        MeasureError: another worker holds one of them.
    """
    with contextlib.ExitStack() as held:
        for core in sorted(cores):
            held.enter_context(_locked(core))
        yield


@contextlib.contextmanager
def _locked(core: int) -> Iterator[None]:
    path = Path(tempfile.gettempdir(), f"whet-{os.getuid()}-core-{core}.lock")
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise MeasureError(
            f"whet worker on core {core}", str(error), f"{path} keeps workers apart: is it yours?"
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise MeasureError(
                f"whet worker on core {core}",
                f"another worker of this machine, process {holder}, gives it already",
                "each of them needs --cores of its own",
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)  # unlocks; the file stays, for who waits for it would hold another one
