"""The state around a worker's code: settings, descriptors, threads, children; put back.

What cannot be put back (a thread, an open file, a lowered hard limit) ends the worker: see
:class:`Changes`. Files and other users of the machine are beyond this: a candidate runs with its
user's rights.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import resource
import sys
import time
from dataclasses import dataclass

from whet.measure.worker import descendants
from whet.measure.worker.process_settings import ABSENT, seed, settings

_STREAMS = (0, 1, 2)
_COPIES = 200  # descriptors of copies begin here, beyond what a candidate closes by its number
_ENDING_S = 0.05  # in which a thread that was joined is gone


@dataclass(frozen=True)
class Changes:
    """The changes of a call in its worker.

    Attributes:
        put_back: changes that were undone, but for which templates have no reason.
        left: changes that could not be undone: the worker has to be replaced.
    """

    put_back: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class ProcessState:
    """The state around this process's code: settings, descriptors, threads and children.

    Args:
        grows: it may keep threads and descriptors that a call leaves, as a device's driver
            and a thread pool do.
        room: bytes of data that calls may leave behind; None: any number.
    """

    def __init__(self, grows: bool = False, room: int | None = None) -> None:
        self._grows, self._room = grows, room
        self._copies = {fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _COPIES) for fd in _STREAMS}
        self.errors = self._copies[2]
        self._data = _data_bytes()
        seed()
        self.take()

    def take(self) -> None:
        """Take what is there now for what has to be there."""
        self._settings = [(one, one.read()) for one in settings()]
        self._open = _descriptors()
        self._threads = _threads()
        self._frames = set(sys._current_frames())
        self._children = descendants.children()

    def put_back(self) -> Changes:
        """Put back what differs; what that was."""
        harm: list[str] = []
        left: list[str] = []
        if ended := descendants.end(self._children):
            harm.append(f"{ended} processes")
        self._descriptors_back(harm, left)
        for setting, before in self._settings:
            try:
                if before is ABSENT or setting.read() == before:
                    continue
                setting.write(before)
                back = setting.read() == before
            except Exception:  # whatever the change makes impossible
                back = False
            if not back:
                left.append(setting.name)
            elif not setting.usual:
                harm.append(setting.name)
        if not self._grows and not _descriptors().keys() <= self._open.keys():
            gc.collect()  # a file in a cycle is nobody's
            if more := len(_descriptors().keys() - self._open.keys()):
                left.append(f"{more} open descriptors")
        self._look_at_threads(left)
        grown = _data_bytes() - self._data
        if self._room is not None and grown > self._room:
            left.append(f"{grown >> 20} MiB of memory")
        return Changes(tuple(harm), tuple(left))

    def _descriptors_back(self, harm: list[str], left: list[str]) -> None:
        now = _descriptors()
        for fd, (file, flags) in self._open.items():
            if now.get(fd) == (file, flags):
                continue
            copy = self._copies.get(fd, -1)
            if fd in now and now[fd][0] == file:
                fcntl.fcntl(fd, fcntl.F_SETFL, flags)
            elif copy in now and now[copy][0] == file:
                os.dup2(copy, fd)
                fcntl.fcntl(fd, fcntl.F_SETFL, flags)
            else:
                left.append(f"descriptor {fd}")
                continue
            harm.append(f"descriptor {fd}")

    def _look_at_threads(self, left: list[str]) -> None:
        end = time.monotonic() + _ENDING_S
        while True:
            python = len(set(sys._current_frames()) - self._frames)
            native = 0 if self._grows else len(_threads() - self._threads)
            if not python and not native:
                return
            if time.monotonic() > end:
                left.append(f"{max(python, native)} threads")
                return
            time.sleep(0.001)


def _descriptors() -> dict[int, tuple[tuple, int]]:
    """Of each open descriptor: the file, and how it is open."""
    descriptors = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listed folder's own
            stat = os.fstat(int(name))
            flags = fcntl.fcntl(int(name), fcntl.F_GETFL)
            descriptors[int(name)] = (stat.st_dev, stat.st_ino, stat.st_rdev), flags
    return descriptors


def _threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def _data_bytes() -> int:
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[5]) * resource.getpagesize()
