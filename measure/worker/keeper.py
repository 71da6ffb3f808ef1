"""The process above a worker: it ends what a candidate left running, however the worker ends.

``driver -> keeper -> worker -> what a candidate starts``. Daemons of a candidate become the
worker's children, and the keeper's where the worker is gone. The keeper ends all of them when the
worker ends, when its supervisor says so (SIGTERM), and when the driver is gone, by whatever signal.
Then it ends as its worker did, so that the driver sees what became of that.

Ray kills an actor's children with it (SIGKILL), and a keeper that is killed keeps nothing. There it
is the child of a *shelter*, which is killed in its place: ``actor -> shelter -> keeper -> worker``.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import shutil
import signal

from whet.measure.worker import descendants

_WAITED = {signal.SIGTERM, signal.SIGCHLD}
# A terminal's signals are the driver's business.
_BLOCKED = _WAITED | {signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


def fork_worker(parent: int, fd: int, folder: str, sheltered: bool = False) -> None:
    """Return in a new process, the worker's; this one becomes its keeper and never returns.

    Args:
        parent: the driver's process id.
        fd: the worker's socket, which the keeper closes.
        folder: for temporary files, which goes with the worker; "": none.
        sheltered: whoever kills the driver kills its children, too.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    _end_with(parent, folder)
    if sheltered:
        _fork_keeper(fd, folder)
    descendants.adopt()
    keeper = os.getpid()
    worker = os.fork()
    if worker:
        os.close(fd)
        try:
            status = _watch(worker)
            _remove(folder)
            _end_as(status)
        finally:
            os._exit(1)
    os.setsid()  # what it sends to its group does not reach the keeper
    descendants.die_with(keeper, signal.SIGKILL)
    descendants.adopt()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int, folder: str) -> None:
    """Ask for SIGTERM at the end of the process above this one."""
    descendants.set_death_signal(signal.SIGTERM)
    if os.getppid() != parent:  # it ended while this process was starting
        _remove(folder)
        os._exit(1)


def _fork_keeper(fd: int, folder: str) -> None:
    """Return in a new process, the keeper; this one hands it the order to end, and ends as it."""
    shelter = os.getpid()
    keeper = os.fork()
    if keeper:
        os.close(fd)
        try:
            status = _pass_on(keeper)
            _remove(folder)  # the keeper may have been killed
            _end_as(status)
        finally:
            os._exit(1)
    _end_with(shelter, folder)


def _pass_on(keeper: int) -> int:
    """Wait for the end of the keeper; its wait status."""
    while True:
        if signal.sigwait(_WAITED) == signal.SIGTERM:
            for number in (signal.SIGTERM, signal.SIGCONT):  # a candidate may have stopped it
                os.kill(keeper, number)
        pid, status = os.waitpid(keeper, os.WNOHANG)
        if pid:
            return status


def _remove(folder: str) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


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
