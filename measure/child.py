"""The worker process: calls one named function at a time until its supervisor is gone.

It is started with ``python -c``, never by multiprocessing, so that the user's ``__main__`` is not
imported again; a template of such a script travels as bytes inside its request.
"""

from __future__ import annotations

import ctypes
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

from whet.measure import wire
from whet.measure.error_text import error_text

PR_SET_PDEATHSIG = 1
# A worker's output is kept in memory by the supervisor; a candidate that prints for ever must not
# fill it. Python and C see EFBIG beyond this size.
FILE_LIMIT = 64 << 20

BOOT = (
    "import sys, json; spec = json.loads(sys.argv[1]); sys.argv[:] = ['whet-worker'];"
    "sys.path[:] = spec['path'];"
    "from whet.measure.child import serve; serve(spec)"
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
        spec: ``fd`` of the socket, ``parent`` process id, ``cpus`` to run on or None,
            ``memory_limit`` bytes or None, ``preload`` modules to import before the first request.
    """
    # the process that a program is started from leaves it its own peak (Linux: exec keeps it)
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    _die_with_parent(spec["parent"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(spec)
    sock = socket.socket(fileno=spec["fd"])
    sock.set_inheritable(False)  # a grandchild must not keep the connection open
    for name in spec["preload"]:
        importlib.import_module(name)
    wire.send(sock, ("ready", inherited))
    while True:
        try:
            function, args, timeout = wire.receive(sock)
        except (EOFError, ConnectionError):
            os._exit(0)
        reply = _answer(function, args, timeout)
        try:
            wire.send(sock, reply)
        except ConnectionError:
            os._exit(0)
        except Exception:
            wire.send(sock, ("error", f"{function} returned {type(reply[1])}, which does not "
                             f"pickle\n{error_text()}"))  # fmt: skip


def find(path: str) -> Callable[..., Any]:
    """The function named ``"module:function"``."""
    module, _, name = path.partition(":")
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _answer(function: str, args: tuple, timeout: float) -> tuple[str, Any]:
    # Shortly before the kill, a C thread (no GIL needed) writes the Python stack to stderr: the
    # error text of a hang then says where it hung.
    faulthandler.dump_traceback_later(max(timeout - 0.1, 0.9 * timeout), exit=False)
    try:
        return "ok", find(function)(*args)
    except MemoryError:
        return "memory", error_text()
    except BaseException:  # SystemExit and KeyboardInterrupt of a candidate too
        return "error", error_text()
    finally:
        faulthandler.cancel_dump_traceback_later()


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def _limit(spec: dict[str, Any]) -> None:
    if spec["cpus"]:
        os.sched_setaffinity(0, spec["cpus"])
    if spec["memory_limit"]:
        resource.setrlimit(resource.RLIMIT_DATA, (spec["memory_limit"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))
