"""The identity of a process, by which another process of its machine can tell that it is gone."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
DEAD = ("Z", "X")
"""States of a process that has ended, and that nobody has waited for."""


@dataclass(frozen=True)
class Process:
    """A process of a machine.

    Attributes:
        host: the machine's name, for people.
        boot: the machine's boot and the name space of its process numbers; "" where it is not
            known. Within it, ``pid`` and ``started`` name one process for ever.
        pid: its number.
        started: the time of its start in the kernel's ticks; "" where it is not known.
    """

    host: str
    boot: str
    pid: int
    started: str

    @staticmethod
    def this() -> Process:
        """The process that asks."""
        boot = ""
        with suppress(OSError):
            space = os.readlink(PROC / "self/ns/pid")
            boot = f"{(PROC / 'sys/kernel/random/boot_id').read_text().strip()} {space}"
        found = _state_and_start(os.getpid())
        return Process(socket.gethostname(), boot, os.getpid(), found[1] if found else "")

    def is_gone(self, observer: Process) -> bool:
        """True if the observer sees that it has ended; False also where it cannot see it.

        Args:
            observer: the process that asks; one of another machine or container sees nothing.
        """
        if not (self.boot and self.started and self.boot == observer.boot):
            return False
        found = _state_and_start(self.pid)
        if found is not None:
            return found[0] in DEAD or found[1] != self.started
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:  # another user's, whose folder may be hidden
            return False
        return False


def _state_and_start(pid: int) -> tuple[str, str] | None:
    """A process's state and its start; None where neither can be read."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name before them is in parentheses, and may hold some.
    fields = text.rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else None
