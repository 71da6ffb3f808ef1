"""One warm, killable worker process: calls with a hard deadline, and a name for each way to die.

The same class is used in a thread of the local pool and as a Ray actor.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from whet.compiler.errors import MeasureError
from whet.measure.worker import child, wire

TAIL = 16_000  # bytes of the worker's output that an error text quotes
# Seconds that a worker may take beyond its deadline to say where it hangs; on a busy machine much.
LAST_WORDS = 2.0
# How that ends: the outermost frame is the program that started it, `python -c`.
LAST_LINE = 'File "<string>", line 1 in <module>'
# Seconds in which a worker that closed its connection should be gone.
GONE = 5.0
# Seconds that it may take to start.
START_S = 60.0
SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_LAUNCHER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="whet-launcher")


@dataclass(frozen=True)
class Outcome:
    """The end of one call.

    Attributes:
        kind: ``"ok"``, ``"error"`` (the function raised), ``"timeout"``, ``"crash"`` or
            ``"out_of_memory"``.
        value: the function's result, if ok.
        error: the cause, with the worker's last output; empty if ok.
        seconds: time the call took.
        earlier: calls that the same worker had answered before.
        touched: one of them had changed what templates have no reason to change; it was
            put back, but what else was changed nobody knows.
    """

    kind: str
    value: Any = None
    error: str = ""
    seconds: float = 0.0
    earlier: int = 0
    touched: bool = False


class Supervisor:
    """Owns one worker process at a time and replaces it when it is lost.

    Args:
        memory_limit: bytes of data (``RLIMIT_DATA``) the worker may allocate; None: no limit.
        cpus: the cores it may run on; None: all of this process's.
        preload: modules that it imports before it counts as started, outside of any deadline.
        max_calls: calls after which it is replaced, so that leaks of a compiler do not add up.
        path: the worker's ``sys.path``; None: this process's.
        grows: threads and descriptors that a call leaves are none of the call's, but of a
            pool or of a device's driver.
        room: bytes of memory that calls may leave behind before it is replaced; None: any number.
    """

    def __init__(
        self,
        *,
        memory_limit: int | None = None,
        cpus: Iterable[int] | None = None,
        preload: Sequence[str] = (),
        max_calls: int | None = None,
        path: Sequence[str] | None = None,
        grows: bool = False,
        room: int | None = None,
    ) -> None:
        self._spec = {
            "path": merged_path(path),
            "cpus": sorted(cpus) if cpus is not None else None,
            "memory_limit": memory_limit,
            "preload": list(preload),
            "grows": grows,
            "room": room,
            "sheltered": "ray" in sys.modules,  # it is one of Ray's actors, or may be
        }
        self._memory_limit = memory_limit
        self._max_calls = max_calls
        self._worker: _Worker | None = None
        self._busy = threading.Lock()
        self._closed = False
        self.starts = 0

    def start(self) -> None:
        """Start the worker without waiting for it; the first call waits."""
        if self._closed:
            raise MeasureError("call of a worker", "its supervisor is closed")
        if self._worker is None:
            # PR_SET_PDEATHSIG fires when the *thread* that created the process ends, so every
            # worker is created by one thread that lives as long as this process.
            self._worker = _LAUNCHER.submit(_Worker, self._spec | {"parent": os.getpid()}).result()
            self.starts += 1

    def call(self, function: str, *args: Any, timeout: float) -> Outcome:
        """Call ``function`` in the worker; the worker is killed at the deadline.

        Args:
            function: ``"module:function"``, imported in the worker.
            args: picklable arguments.
            timeout: seconds; a start of the worker does not count.

        Raises:
            MeasureError: the supervisor is closed, or no worker can be started.
        """
        with self._busy:
            self.start()
            worker = self._worker
            assert worker is not None
            try:
                worker.wait_until_ready(START_S)
            except MeasureError:
                self._drop()
                raise
            os.ftruncate(worker.log, 0)
            earlier, touched = worker.calls, worker.touched
            outcome = self._exchange(worker, (function, args, timeout), timeout)
            outcome = replace(outcome, earlier=earlier, touched=touched)
            worker.calls += 1
            worn = self._max_calls is not None and worker.calls >= self._max_calls
            if outcome.kind not in ("ok", "error") or worn or worker.spoilt:
                self._drop()
                if not self._closed:
                    self.start()  # the next one warms up while the driver thinks
            return outcome

    def renew(self) -> None:
        """Replace the worker, which answers but has lost what it needs; a fresh one stays."""
        with self._busy:
            if self._worker is not None and not self._worker.calls:
                return
            self._drop()
            if not self._closed:
                self.start()

    def close(self) -> None:
        """Kill the worker and everything that it started; a call in flight ends as a crash."""
        self._closed = True
        while not self._busy.acquire(timeout=0.05):  # a call is in flight, perhaps just starting
            worker = self._worker
            if worker is not None:
                worker.kill()
        try:
            self._drop()
        finally:
            self._busy.release()

    def _exchange(self, worker: _Worker, request: tuple, timeout: float) -> Outcome:
        begin, value = time.monotonic(), None
        try:
            wire.send(worker.sock, request, begin + timeout)
            kind, value, (put_back, left) = wire.receive(worker.sock, begin + timeout)
        except TimeoutError:
            worker.wait_for_traceback()
            worker.kill()
            kind, error = (
                "timeout",
                f"killed after {timeout:.3g} s, its deadline\n{worker.output()}",
            )
        except (EOFError, ConnectionError):
            end, seconds = worker.last_words(), time.monotonic() - begin
            kind, error = "crash", f"the worker {end} after {seconds:.2f} s\n{worker.output()}"
            if self._memory_limit and worker.peak_bytes >= 0.9 * self._memory_limit:
                used = f"{worker.peak_bytes >> 20} MiB of {_mib(self._memory_limit)} used"
                kind, error = "out_of_memory", f"{used}: {error}"
        else:
            worker.touched |= bool(put_back)
            worker.spoilt |= bool(left)
            error = "" if kind == "ok" else f"{value}{worker.output()}"
            if kind == "memory":
                error = f"more than {_mib(self._memory_limit)} asked for\n{error}"
                kind = "out_of_memory"
            value = value if kind == "ok" else None
        return Outcome(kind, value, error, time.monotonic() - begin)

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.reap()


class _Worker:
    """One process with its keeper, its socket and its output.

    The process that is started is the keeper (:mod:`whet.measure.worker.keeper`), which ends as the
    worker does.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.calls = 0
        self.touched = False  # a call changed what was put back
        self.spoilt = False  # a call changed what could not be
        self.peak_bytes = 0  # the most memory it had; 0 for less than it was born with
        self._inherited = 0
        self._ready = False
        self._exit: int | None = None
        self._kill_lock = threading.Lock()
        self.log = os.memfd_create("whet-worker-output")
        fcntl.fcntl(self.log, fcntl.F_SETFL, os.O_APPEND)  # so that truncating it restarts it
        self._folder = _own_folder()
        spec = spec | {"folder": self._folder}
        settings = dict.fromkeys(SINGLE_THREADED, "1")
        if self._folder:
            settings["TMPDIR"] = self._folder
        try:
            self.sock, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    child.command(sys.executable, spec | {"fd": theirs.fileno()}),
                    stdin=subprocess.DEVNULL,
                    stdout=self.log,
                    stderr=self.log,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # its own group: Ctrl-C is the driver's business
                    env=os.environ | settings,
                )
        except BaseException:  # nobody reaps what has not begun
            os.close(self.log)
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def wait_until_ready(self, timeout: float) -> None:
        if self._ready:
            return
        try:
            _, self._inherited = wire.receive(self.sock, time.monotonic() + timeout)
        except (TimeoutError, EOFError, ConnectionError) as error:
            reason = "it was not ready" if isinstance(error, TimeoutError) else self.last_words()
            raise MeasureError(
                f"start of a worker ({sys.executable})", f"{reason} ({timeout:g} s)", self.output()
            ) from error
        self._ready = True

    def output(self) -> str:
        """The end of what the worker printed since its call began."""
        size = os.fstat(self.log).st_size
        data = os.pread(self.log, TAIL, max(0, size - TAIL))
        text = data.decode(errors="replace").strip("\0\n")
        return f"--- the worker's output ---\n{text}\n" if text else ""

    def wait_for_traceback(self) -> None:
        """Let a worker say where it hangs; on a busy machine it may do so after its deadline."""
        end = time.monotonic() + LAST_WORDS
        while time.monotonic() < end:
            if LAST_LINE in self.output().partition("Timeout (")[2]:
                return
            time.sleep(0.005)

    def kill(self) -> None:
        """Have the keeper end all; safe from any thread and more than once."""
        with self._kill_lock:
            if self._exit is None:  # not reaped, so the number cannot belong to anyone else
                for number in (signal.SIGTERM, signal.SIGCONT):  # a candidate may have stopped it
                    os.kill(self._process.pid, number)

    def last_words(self) -> str:
        """Wait for a worker that closed its connection; say how it ended."""
        alive = not self._ends_within(GONE)
        self.kill()
        self.reap(close=False)
        status = self._exit or 0
        # On a busy machine one that crashed may take longer than that to go: then our signal comes
        # too late to change its status.
        if alive and status in (0, -signal.SIGKILL):
            return "closed its connection"
        if status >= 0:
            return f"exited with status {status}"
        names = {one.value: one.name for one in signal.Signals}
        # real-time signals between the first and the last have no names
        name = names.get(-status, f"signal {-status}")
        end = f"died of {name} ({signal.strsignal(-status)})"
        if -status == signal.SIGKILL:
            end += ", not sent by its deadline: most often the system ran out of memory"
        return end

    def reap(self, close: bool = True) -> None:
        with self._kill_lock:
            if self._exit is None:
                if not self._ends_within(GONE):  # its keeper does not answer
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(self._process.pid, signal.SIGKILL)
                _, status, usage = os.wait4(self._process.pid, 0)
                self._exit = self._process.returncode = os.waitstatus_to_exitcode(status)
                peak = usage.ru_maxrss * 1024
                self.peak_bytes = peak if peak > self._inherited else 0
        if self._folder:  # its keeper has removed it, unless that was killed, too
            shutil.rmtree(self._folder, ignore_errors=True)
        if close and self.log >= 0:
            self.sock.close()
            os.close(self.log)
            self.log = -1

    def _ends_within(self, seconds: float) -> bool:
        """True if the process ends by then; it is left to be reaped."""
        deadline = time.monotonic() + seconds
        flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self._process.pid, flags) is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.001)
        return True


def _own_folder() -> str:
    """A temporary folder for what a worker and its compilers leave; "" where none can be made."""
    try:
        return tempfile.mkdtemp(prefix="whet-worker-")
    except OSError:  # a full disk is for those to meet who need one
        return ""


def merged_path(path: Sequence[str] | None) -> list[str]:
    """The ``sys.path`` for a worker: the given one, then what this process has besides."""
    wanted = [os.path.abspath(p) for p in (path if path is not None else sys.path)]
    return list(dict.fromkeys(wanted + [os.path.abspath(p) for p in sys.path]))


def _mib(size: int | None) -> str:
    return f"{size >> 20} MiB" if size else "all memory"
