"""The process above a worker: it ends what a candidate left running, however the worker ends.

``driver -> keeper -> worker -> what a candidate starts``. Daemons of a candidate become the
worker's children, and the keeper's where the worker is gone. The keeper ends all of them when the
worker ends, when its supervisor says so (SIGTERM), and when the driver is gone, by whatever signal.
Then it ends as its worker did, so that the driver sees what became of that.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal

from whet.measure.worker import descendants

_WAITED = {signal.SIGTERM, signal.SIGCHLD}
# A terminal's signals are the driver's business.
_BLOCKED = _WAITED | {signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


def fork_worker(parent: int, fd: int) -> None:
    """Return in a new process, the worker's; this one becomes its keeper and never returns.

    Args:
        parent: the driver's process id.
        fd: the worker's socket, which the keeper closes.
    """
    descendants.die_with(parent, signal.SIGTERM)
    descendants.adopt()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    keeper = os.getpid()
    worker = os.fork()
    if worker:
        os.close(fd)
        try:
            _end_as(_watch(worker))
        finally:
            os._exit(1)
    os.setsid()  # what it sends to its group does not reach the keeper
    descendants.die_with(keeper, signal.SIGKILL)
    descendants.adopt()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(worker: int) -> int:
    """Wait for the end of the worker, or for the order to end it; its wait status."""
    ordered = False
    while not ordered:
        ordered = signal.sigwait(_WAITED) == signal.SIGTERM
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == worker:
                descendants.end()
                return status
            if not pid:
                break
    os.kill(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    descendants.end()
    return status


def _end_as(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    number = signal.Signals(-code)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
