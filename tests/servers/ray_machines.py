"""A Ray cluster of several machines on this one: each is a group of processes that can be killed.

A machine has a folder of its own: for Ray's files, for temporary files, and for the marks of
:mod:`ray_work`. Its processes carry its name in their environment, by which they are found again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from whet.measure.cluster.announce import Announced, name
from whet.measure.device.names import this_device

MACHINE, MARKS = "WHET_TEST_MACHINE", "WHET_TEST_MARKS"
"""Variables of all processes of a machine: its name, and the folder of its marks."""
LOOPBACK = "127.0.0.1"
STARTED_S = 240.0
STORE = 80 << 20
TIMED_OUT = "timed out during startup"
CORES = sorted(os.sched_getaffinity(0))
QUICK_HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}
"""A head takes a machine that does not answer for dead after five to ten seconds, not a minute, and
a machine waits for its head for so many."""


def until(it_is_so: Callable[[], object], seconds: float = 90.0, why: object = "") -> float:
    """Wait; seconds that it took.

    Args:
        it_is_so: asked again and again.
        seconds: the most that it may take.
        why: called, or taken, for the text of the failure.
    """
    begin = time.monotonic()
    while not it_is_so():
        if time.monotonic() > begin + seconds:
            raise AssertionError(f"not so after {seconds:g} s\n{why() if callable(why) else why}")
        time.sleep(0.05)
    return time.monotonic() - begin


def processes(text: str, sessions: Collection[int] = ()) -> list[int]:
    """The living processes that have a text in their environment, or belong to a session.

    Ray's workers write their titles over their environment: their session tells them.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            said = (folder / "environ").read_bytes()
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has ended
            continue
        ours = int(session) in sessions or text.encode() in said
        if state not in "ZX" and ours and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def kill_all(text: str, sessions: Collection[int] = ()) -> int:
    """End the processes that :func:`processes` finds, at once; how many they were."""
    ended: set[int] = set()
    while pids := processes(text, sessions):  # what is started meanwhile, too
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            ended.add(pid)
        time.sleep(0.02)
    return len(ended)


def free_port() -> int:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])


class Machine:
    """One machine of the cluster.

    Attributes:
        name: in this cluster.
        mark: its processes have it in their environment.
        process: runs ``ray start --block``.
        resource: of the device that it announces; "": none.
        sessions: of its processes, those before it was started again, too.
        starts: how often it was started.
        again: start it once more; for a busy computer, on which Ray's own start may take too long.
    """

    def __init__(self, name: str, mark: str, folder: Path) -> None:
        self.name, self.mark, self.folder = name, mark, folder
        self.marks, self.temporary = folder / "marks", folder / "tmp"
        for one in (folder, self.marks, self.temporary):
            one.mkdir(exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.sessions: set[int] = set()
        self.starts = 0
        self.again: list[Callable[[], None]] = []
        self.resource = ""

    def pids(self, word: str = "") -> list[int]:
        """Its processes, or those whose command has a word."""
        found = processes(f"{MACHINE}={self.mark}\0", self.sessions)
        return [pid for pid in found if word in command(pid)]

    def at_work(self, act: str) -> list[int]:
        """Processes of workers that are in the middle of a ``"build"`` or a ``"run"``."""
        found = []
        for path in self.marks.glob(f"{act}-*"):
            pid = int(path.name.rpartition("-")[2])
            if Path(f"/proc/{pid}").exists():
                found.append(pid)
            else:  # it was killed
                path.unlink(missing_ok=True)
        return found

    def did(self, act: str) -> list[str]:
        """The configs that it has begun to build or to run."""
        try:
            lines = (self.marks / "began").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{act} ")]

    def pace(self, seconds: float | None) -> None:
        """Have each build and run of this machine take so much longer; None: as ever."""
        path = self.marks / "pace"
        path.unlink(missing_ok=True) if seconds is None else path.write_text(str(seconds))

    def ask(self, act: str, what: str) -> None:
        """Have the next ``act`` of this machine behave as :mod:`ray_work` says."""
        (self.marks / f"next-{act}").write_text(what)

    def said(self) -> str:
        """What Ray said at its start."""
        return (self.folder / "ray.txt").read_text(errors="replace")

    def kill(self) -> None:
        """End all of its processes at once, as when the power fails.

        Those that remove temporary folders are among them: who starts a machine again does it.
        """
        kill_all(f"{MACHINE}={self.mark}\0", self.sessions)
        if self.process is not None:
            self.process.wait()
        for path in self.temporary.glob("whet-worker-*"):
            shutil.rmtree(path)


class RayMachines:
    """A cluster: a head, which only manages, and the machines that were added.

    Args:
        more: variables for the processes of all machines, as Ray's own settings.
        address: of the head, where others are on networks of their own.
    """

    def __init__(self, more: dict[str, str] | None = None, address: str = LOOPBACK) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wf", dir="/tmp"))  # sockets' paths are short
        self.uid = self.folder.name
        self.more = more or {}
        self.host, self.port, self.client_port = address, free_port(), free_port()
        self.machines: dict[str, Machine] = {}
        self.head = self._machine("head")

    @property
    def address(self) -> str:
        """For ``ray.init``, on this machine."""
        return f"{self.host}:{self.port}"

    @property
    def client_address(self) -> str:
        """For who comes from elsewhere."""
        return f"ray://{self.host}:{self.client_port}"

    @property
    def sessions(self) -> set[int]:
        """Of all its machines."""
        return {number for one in self.machines.values() for number in one.sessions}

    def __enter__(self) -> RayMachines:
        try:
            self.start_head()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all, and remove the folder."""
        kill_all(f"{MACHINE}={self.uid}.", self.sessions)
        for machine in self.machines.values():
            if machine.process is not None:
                machine.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_head(self) -> None:
        """Start the head, or start it again."""
        words = [
            "--head", f"--port={self.port}", f"--ray-client-server-port={self.client_port}",
            "--include-dashboard=false", "--num-cpus=0",
        ]  # fmt: skip
        self._start(self.head, self.host, words)
        self._await(self.head, lambda: self._is_up(self.port) and self._is_up(self.client_port))

    def add(
        self,
        name_: str,
        *,
        builders: int = 1,
        measures: bool = True,
        address: str = "",
        within: Sequence[str] = (),
        more: dict[str, str] | None = None,
    ) -> Machine:
        """Start a machine; it is in the cluster soon.

        Args:
            name_: of it; one that was there before is started again.
            builders: CPUs.
            measures: it announces a device of this machine's kind.
            address: its own; "": the head's.
            within: words before the command: ``ip netns exec ...``.
            more: variables of its processes.
        """
        machine = self.machines.get(name_) or self._machine(name_)
        resources: dict[str, int] = {}
        if measures:
            place = (len(self.machines) - 1) % len(CORES)
            machine.resource = name(Announced(this_device(), name_, 0, (CORES[place],)))
            resources[machine.resource] = 1
        words = [
            f"--address={self.address}", f"--num-cpus={builders}",
            f"--resources={json.dumps(resources)}",
        ]  # fmt: skip
        self._start(machine, address or self.host, words, within, more)
        return machine

    def await_machines(self, *machines: Machine) -> None:
        """Wait until machines are in the cluster."""
        for machine in machines:
            self._await(machine, lambda machine=machine: "started" in machine.said())

    def _machine(self, name_: str) -> Machine:
        machine = Machine(name_, f"{self.uid}.{name_}", self.folder / name_)
        self.machines[name_] = machine
        return machine

    def _start(self, machine: Machine, *how: Any) -> None:
        machine.again = [lambda: self._start_once(machine, *how)] * 2
        self._start_once(machine, *how)

    def _start_once(
        self,
        machine: Machine,
        address: str,
        words: Sequence[str],
        within: Sequence[str] = (),
        more: dict[str, str] | None = None,
    ) -> None:
        own = machine.folder / f"ray{machine.starts}"
        program = [
            *within, sys.executable, "-m", "whet.measure.cluster.node", str(os.getpid()), "",
            f"--node-ip-address={address}", f"--temp-dir={own}",
            f"--object-store-memory={STORE}", "--disable-usage-stats",
            "--min-worker-port=0", "--max-worker-port=0", *words,
        ]  # fmt: skip
        machine.starts += 1
        environment = {
            **os.environ,
            "RAY_raylet_start_wait_time_s": "60",  # Ray's own 30 are few on a busy machine
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            "TMPDIR": str(machine.temporary),
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            MACHINE: machine.mark,
            MARKS: str(machine.marks),
            **self.more,
            **(more or {}),
        }
        environment.pop("RAY_ADDRESS", None)
        with open(machine.folder / "ray.txt", "wb") as said:
            machine.process = subprocess.Popen(
                program,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=environment,
                start_new_session=True,
            )
        machine.sessions.add(machine.process.pid)

    def _is_up(self, port: int) -> bool:
        with socket.socket() as one:
            one.settimeout(1)
            return one.connect_ex((self.host, port)) == 0

    def _await(self, machine: Machine, it_is_so: Callable[[], object]) -> None:
        def so() -> object:
            process: Any = machine.process
            if process.poll() is not None and TIMED_OUT in machine.said() and machine.again:
                again = machine.again.pop()
                machine.kill()
                again()
                return False
            assert process.poll() is None, machine.said()
            return it_is_so()

        until(so, STARTED_S, machine.said)


def command(pid: int) -> str:
    """The words of a process; "" for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
