"""The processes below this one: they are found and ended, those that daemonised too.

A process that forks twice and begins a session of its own leaves its family: its parent becomes
the nearest ancestor that declared itself a *subreaper* (``prctl(2)``). Workers and their keepers
do, so that whatever a candidate starts stays below them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterable
from pathlib import Path

PR_SET_PDEATHSIG, PR_GET_PDEATHSIG = 1, 2
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37

_libc = ctypes.CDLL(None, use_errno=True)


def adopt() -> None:
    """Become the parent of the descendants whose own parents end."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def adopts() -> bool:
    """True if this process does so."""
    return bool(_value(PR_GET_CHILD_SUBREAPER))


def _value(option: int) -> int:
    value = ctypes.c_int()
    _libc.prctl(option, ctypes.byref(value), 0, 0, 0)
    return value.value


def die_with(parent: int, number: signal.Signals) -> None:
    """Ask for a signal at the end of the thread that started this process.

    Args:
        parent: that process's id; where it is gone already, this process ends here.
        number: the signal.
    """
    set_death_signal(number)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def death_signal() -> int:
    """The signal that this process gets when its parent ends; 0: none."""
    return _value(PR_GET_PDEATHSIG)


def set_death_signal(number: int) -> None:
    """Choose the signal that this process gets when its parent ends; 0: none."""
    _libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def children() -> set[int]:
    """The ids of this process's children, those that ended and nobody waited for too."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # the usual case, in a microsecond
    ids: set[int] = set()
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as listed:
                ids.update(map(int, listed.read().split()))
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN, or a thread that ended
        return _children_of(os.getpid())
    return ids


def end(kept: Iterable[int] = ()) -> int:
    """End this process's children and theirs; how many there were.

    Args:
        kept: ids of children that are left alone.
    """
    spared, ended = set(kept), 0
    while begun := children() - spared:
        for pid in begun:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in begun:  # theirs are ours from here on, and the next round's
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        ended += len(begun)
    return ended


def _children_of(parent: int) -> set[int]:
    ids = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            after_name = (folder / "stat").read_text().rpartition(")")[2]
            if int(after_name.split()[1]) == parent:
                ids.add(int(folder.name))
    return ids
