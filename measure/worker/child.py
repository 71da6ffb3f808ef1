"""The worker process: calls one named function at a time until its supervisor is gone.

It is started with ``python -c``, never by multiprocessing, so that the user's ``__main__`` is not
imported again; a template of such a script travels as bytes inside its request.

Candidates share it, and what one changes in it is put back before the next: code of modules,
settings of the process and of the interpreter, descriptors, children. Where that cannot be done
the answer says so, and the supervisor takes a new worker. A process of its own for each candidate,
forked from one that has imported everything, was measured and is too slow (CPython 3.11, two cores,
minima of many): the fork and the end of a process of 120 MB take 3 ms, but one build then copies
4,700 pages that both write, mostly counts of references, and takes about 20 ms longer, 30 % of
the build of a matmul. Looking at everything and putting it back takes 3 ms.
"""

from __future__ import annotations

import contextlib
import contextvars
import faulthandler
import importlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from whet.measure.worker import keeper, wire
from whet.measure.worker.error_text import error_text

# A worker's output is kept in memory by the supervisor; a candidate that prints for ever must not
# fill it. Python and C see EFBIG beyond this size.
FILE_LIMIT = 64 << 20

BOOT = (
    "import sys, json; spec = json.loads(sys.argv[1]); sys.argv[:] = ['whet-worker'];"
    "sys.path[:] = spec['path'];"
    "from whet.measure.worker.child import serve; serve(spec)"
)


def command(python: str, spec: dict[str, Any]) -> list[str]:
    """The command line that starts a worker.

    ``-P``: the current folder must not shadow the standard library; the supervisor's ``sys.path``
    replaces the worker's anyway. ``-u``: what was printed before a crash must not be lost.
    """
    return [python, "-P", "-u", "-X", "faulthandler", "-c", BOOT, json.dumps(spec)]


def serve(spec: dict[str, Any]) -> None:
    """Answer requests until the supervisor closes the connection.

    Args:
        spec: ``fd`` of the socket, ``parent`` process id, its temporary ``folder`` or "", True for
            ``sheltered`` if Ray may kill that process, ``cpus`` to run on or None,
            ``memory_limit`` bytes or None, ``preload`` modules to import before the first request,
            ``grows`` and ``room`` of its :class:`~whet.measure.worker.process_state.ProcessState`.
    """
    # the process that a program is started from leaves it its own peak (Linux: exec keeps it)
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    keeper.fork_worker(spec["parent"], spec["fd"], spec["folder"], spec["sheltered"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(spec)
    sock = socket.socket(fileno=spec["fd"])
    sock.set_inheritable(False)  # a grandchild must not keep the connection open
    for name in spec["preload"]:
        importlib.import_module(name)
    worker = _Worker(spec["grows"], spec["room"])
    wire.send(sock, ("ready", inherited))
    while True:
        try:
            function, args, timeout = wire.receive(sock)
        except (EOFError, ConnectionError):
            os._exit(0)
        reply = worker.answer(function, args, timeout)
        try:
            wire.send(sock, reply)
        except ConnectionError:
            os._exit(0)
        except Exception:
            text = f"{function} returned {type(reply[1])}, which does not pickle\n"
            wire.send(sock, ("error", text + error_text(), reply[2]))


def find(path: str) -> Callable[..., Any]:
    """The function named ``"module:function"``."""
    module, _, name = path.partition(":")
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


class _Worker:
    """The state between calls, and its restoration."""

    def __init__(self, grows: bool, room: int | None) -> None:
        from whet.measure.worker.code_state import CodeState
        from whet.measure.worker.process_state import ProcessState

        self._code = CodeState()
        self._process = ProcessState(grows, room)
        self._modules = len(sys.modules)

    def answer(self, function: str, args: tuple, timeout: float) -> tuple[str, Any, Any]:
        """Call a function; how that ended, what it gave or raised, and what it changed."""
        # Shortly before the kill, a C thread (no GIL needed) writes the Python stack to stderr: the
        # error text of a hang then says where it hung.
        faulthandler.dump_traceback_later(
            max(timeout - 0.1, 0.9 * timeout), exit=False, file=self._process.errors
        )
        try:
            called = find(function)
            self._prepare(called, args)
            # what it sets of context variables (numpy's errors, a target) ends with the call
            kind, value = "ok", contextvars.copy_context().run(called, *args)
        except MemoryError:
            kind, value = "memory", error_text()
        except BaseException:  # SystemExit and KeyboardInterrupt of a candidate too
            kind, value = "error", error_text()
        finally:
            faulthandler.cancel_dump_traceback_later()
        if kind == "ok" and getattr(called, "sets_up", False):
            return kind, value, self._keep()
        return kind, value, self._put_back()

    def _prepare(self, called: Callable[..., Any], args: tuple) -> None:
        """Import what the call will; what an import changes, it changes for all candidates."""
        names = getattr(called, "imports", None)
        if names is None:
            return
        with contextlib.suppress(Exception):  # the call itself meets and tells it
            space = names(*args)
            if not self._code.knows(space):
                self._code.take([space])
                self._process.take()

    def _keep(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Take the changes of a call that sets its worker up for the state to restore."""
        self._code.take()
        self._process.take()
        self._modules = len(sys.modules)
        return (), ()

    def _put_back(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Undo the changes of a call: those that are undone, and those that cannot be."""
        try:
            code = self._code.put_back()
            changes = self._process.put_back()
            if len(sys.modules) != self._modules:
                self._code.take()
                self._modules = len(sys.modules)
        except BaseException as error:  # even what this needs was changed
            return (), (f"unknown: {type(error).__name__}: {error}",)
        return (*code, *changes.put_back), changes.left


def _limit(spec: dict[str, Any]) -> None:
    if spec["cpus"]:
        os.sched_setaffinity(0, spec["cpus"])
    if spec["memory_limit"]:
        resource.setrlimit(resource.RLIMIT_DATA, (spec["memory_limit"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))
