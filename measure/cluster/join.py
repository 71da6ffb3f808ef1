"""One machine of a Ray cluster: it is checked, started, watched, drained and ended."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from whet.compiler.errors import ArgumentError, MeasureError, TargetError
from whet.measure.cluster import check, listeners, token
from whet.measure.cluster.announce import Announced, name, text_of_cores
from whet.measure.cluster.cores import Division, Topology, divide, other_cores
from whet.measure.cluster.held import holding
from whet.measure.cluster.node_folder import node_folder
from whet.measure.cluster.reader import ClusterReader, check_listens, host_and_port, importable
from whet.measure.worker import descendants

LOOPBACK = "127.0.0.1"
NODE_LABEL = "whet/node"
"""A node's label by which the worker that started it finds it."""
START_S = 180.0
"""Seconds in which a node must have come up."""
SAY_S = 2.0
"""Seconds between two lines on what is waited for."""
LOOK_S = 0.2
END_S = 20.0
"""Seconds for the end of Ray's processes, after those for draining."""
STORE_BYTES = 100 << 20
"""Ray's object store: only small values travel."""
OWN_PORTS = (
    *("node-manager", "object-manager", "runtime-env-agent"),
    *("dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export"),
)
"""Ports of a node besides those of its workers, as ``ray start`` calls them."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class JoinOptions:
    """How a machine takes part.

    Attributes:
        address: ``host:port`` of the head; None: this machine becomes the head of a new cluster.
        listen: this machine's address for the others; None: loopback for a new cluster, else the
            one from which the head is reached.
        port: of a new cluster's head.
        client_port: of a new cluster for ``ray://``.
        dashboard: port of a new cluster's dashboard, on loopback; None: it has none.
        ports: first and last port of all else; None: any that are free.
        cores, measure, build: as of :func:`whet.measure.cluster.cores.divide`.
        gpus: offer the GPUs.
        drain: seconds that what runs here has when this machine leaves.
    """

    address: str | None = None
    listen: str | None = None
    port: int = 6379
    client_port: int = 10001
    dashboard: int | None = None
    ports: tuple[int, int] | None = None
    cores: str | None = None
    measure: tuple[str, ...] = ()
    build: str | None = None
    gpus: bool = True
    drain: float = 60.0


class Member:
    """This machine as a member of a cluster.

    Args:
        options: how it takes part.
        say: is called with each line for the user.

    Raises:
        ArgumentError: an address or a list of cores is wrong.
        MeasureError: Ray is not installed; the head cannot be reached, or its software differs.
    """

    def __init__(self, options: JoinOptions, say: Say) -> None:
        self.options, self.say = options, say
        self.versions = check.own_versions()
        if options.dashboard is not None:
            check.refuse_dashboard(joins=options.address is not None)
        self.topology = Topology()
        self.division = divide(self.topology, options.cores, options.measure, options.build)
        self.listen = self._own_address()
        self.head = options.address or f"{self.listen}:{options.port}"
        self._token = token.find(self.head) if options.address else token.make()
        self.label = uuid.uuid4().hex[:16]
        self._asked = 0  # signals to end

    def run(self) -> None:
        """Take part until SIGTERM or Ctrl-C; nothing of it is left afterwards.

        The first signal drains: what is being measured ends, nothing new begins. The second ends
        all at once.

        Raises:
            MeasureError: the node does not come up, or the head is lost.
        """
        with contextlib.ExitStack() as opened:
            opened.enter_context(holding(self.division.cores))
            reader = None
            if self.options.address:
                reader = opened.enter_context(ClusterReader(self.head))
                request = f"whet worker --address {self.head}"
                check.refuse_mismatch(request, self.versions, reader.read().head)
            else:
                for option, port in self._head_ports().items():
                    listeners.check_free(self.listen, port, option)
                if (own := self.options.dashboard) is not None:
                    listeners.check_free(LOOPBACK, own, "--dashboard")
            devices = announced(self.division, self._gpus())
            self._introduce(devices)
            folder = Path(opened.enter_context(node_folder()))
            opened.enter_context(self._signals())
            child = opened.enter_context(self._node(folder, devices))
            self._await_node(child, folder / "ray.txt", reader, opened)
            self._stay(child, folder / "ray.txt")

    def _own_address(self) -> str:
        options = self.options
        way = "an address of this machine: `ip -brief address` lists them"
        if options.address is not None:
            if options.address.startswith("ray://"):
                host, _ = host_and_port(options.address)
                raise ArgumentError(
                    f"whet worker --address {options.address}",
                    "ray:// is for searches; a machine joins at the head itself",
                    f"--address {host}:6379, or the --port that the head was given",
                )
            reached_from = check_listens(options.address)
            return listeners.own_address(options.listen or reached_from, way)
        return listeners.own_address(options.listen or LOOPBACK, way)

    def _head_ports(self) -> dict[str, int]:
        return {"--port": self.options.port, "--client-port": self.options.client_port}

    def _gpus(self) -> dict[str, int]:
        """GPUs by their kinds; none where this machine only builds."""
        offered = self.options.gpus and self.division.measuring
        return own_gpus() if offered else {}

    def _introduce(self, devices: dict[Announced, int]) -> None:
        from whet.compiler.target.machine import host

        own, say = self.versions, self.say
        say(f"{platform.node()}: {host.cpu_model()}, {host.fingerprint()}")
        say(f"Whet {own.whet} ({own.code}), Python {own.python}, Ray {own.ray}")
        for device, count in devices.items():
            if device.numa is None:
                say(f"measures on {count} GPU{'s' * (count > 1)} of kind {device.kind}")
            else:
                where = f"cores {text_of_cores(device.cores)} of NUMA node {device.numa}"
                say(f"measures on {where}, one candidate at a time")
        if self.division.building:
            count, cores = len(self.division.building), text_of_cores(self.division.building)
            say(f"builds on cores {cores}, {count} at a time")
        else:
            say("builds nothing: all of its cores measure, and other machines have to build")
        for note in check.notes_on_machine():
            say(f"note: {note}")
        if token.settings.ray_auth_mode() != token.TOKEN:
            say("note: RAY_AUTH_MODE=disabled: who reaches the ports of this machine runs code")
        elif self._token is not None:
            say(f"token: {self._token}; who has it may run code on every machine of the cluster")
            if token.is_open_to_others(self._token):
                say(f"note: others can read it: chmod 600 {self._token}")
        if not listeners.is_loopback(self.listen):
            say(
                f"note: known to others as {self.listen}, but Ray listens on every interface: the "
                "firewall decides who reaches it"
            )

    def _command(self, folder: Path, devices: dict[Announced, int]) -> list[str]:
        """The program that runs the node."""
        options, gpus = self.options, sum(n for d, n in devices.items() if d.numa is None)
        labels = self.versions.labels() | {NODE_LABEL: self.label}
        words = [
            f"--node-ip-address={self.listen}",
            f"--num-cpus={len(self.division.building)}",
            f"--num-gpus={gpus}",
            f"--resources={json.dumps({name(d): n for d, n in devices.items()})}",
            f"--labels={','.join(f'{key}={value}' for key, value in labels.items())}",
            f"--object-store-memory={STORE_BYTES}",
            f"--temp-dir={folder}",
            "--disable-usage-stats",
            *self._ports(),
        ]
        if options.address is None:
            words += ["--head", f"--port={options.port}", *self._dashboard()]
            words += [f"--ray-client-server-port={options.client_port}"]
        else:
            words += [f"--address={options.address}"]
        cores = text_of_cores(other_cores(self.topology, self.division))
        program = [sys.executable, "-m", "whet.measure.cluster.node", str(os.getpid()), cores]
        return program + words

    def _dashboard(self) -> list[str]:
        port = self.options.dashboard
        if port is None:
            return ["--include-dashboard=false"]
        # Whoever opens it may run code, so that it is for this machine only.
        return [
            "--include-dashboard=true",
            f"--dashboard-host={LOOPBACK}",
            f"--dashboard-port={port}",
        ]

    def _ports(self) -> list[str]:
        if self.options.ports is None:
            return ["--min-worker-port=0", "--max-worker-port=0"]  # any that are free
        first, last = self.options.ports
        used = dict(zip(OWN_PORTS, range(first, last + 1)))
        words = [f"--{option}-port={port}" for option, port in used.items()]
        return words + [f"--min-worker-port={first + len(used)}", f"--max-worker-port={last}"]

    @contextlib.contextmanager
    def _node(
        self, folder: Path, devices: dict[Announced, int]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Ray's processes on this machine; all of them are gone afterwards."""
        environment = token.environment() | {
            "PYTHONPATH": importable(),
            "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(self.options.drain),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        descendants.adopt()  # so that what daemonises stays below this process
        with open(folder / "ray.txt", "wb") as said:
            child = subprocess.Popen(
                self._command(folder, devices),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=environment,
                process_group=0,  # Ctrl-C is for this process, which drains
            )
        try:
            yield child
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            descendants.end()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            self._asked += 1

        before = {n: signal.signal(n, note) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _await_node(
        self,
        child: subprocess.Popen[bytes],
        said: Path,
        reader: ClusterReader | None,
        opened: contextlib.ExitStack,
    ) -> None:
        """Wait until the cluster has this node.

        Raises:
            MeasureError: it does not come up, or listens where it was not asked to.
        """
        begun, spoke = time.monotonic(), time.monotonic()
        while not self._asked:
            self._check_alive(child, said, "start Ray")
            now = time.monotonic()
            if now - spoke >= SAY_S:
                spoke = now
                self.say(f"Ray starts: {now - begun:.0f} s")
            if now - begun > START_S:
                self._fail("start Ray", f"the node is not there after {START_S:g} s", said)
            if reader is None and _is_listening(self.head):
                reader = opened.enter_context(ClusterReader(self.head))
            if reader is not None and self._is_member(reader):
                break
            time.sleep(LOOK_S)
        else:
            return
        self._check_listeners(child, said)
        self.say(f"ready after {time.monotonic() - begun:.0f} s, in the cluster at {self.head}")
        if self.options.address is None:
            host = self.listen
            self.say(f'searches: workers="ray://{host}:{self.options.client_port}"')
            self.say(f"other machines: whet worker --address {self.head}")
            if (port := self.options.dashboard) is not None:
                tunnel = f"ssh -L {port}:{LOOPBACK}:{port} {platform.node()}"
                self.say(f"dashboard: http://{LOOPBACK}:{port}, from elsewhere by {tunnel}")

    def _is_member(self, reader: ClusterReader) -> bool:
        cluster = reader.poll(LOOK_S)
        nodes = cluster.nodes if cluster else ()
        return any(node.labels.get(NODE_LABEL) == self.label for node in nodes)

    def _check_listeners(self, child: subprocess.Popen[bytes], said: Path) -> None:
        if not listeners.is_loopback(self.listen):
            return
        found = listeners.listeners(listeners.tree(child.pid))
        if wide := sorted({f"{a}:{p}" for a, p in found if not listeners.is_loopback(a)}):
            why = f"this Ray listens at {', '.join(wide)}, not at {self.listen} only"
            self._fail(f"whet worker --listen {self.listen}", why, said)

    def _stay(self, child: subprocess.Popen[bytes], said: Path) -> None:
        """Wait for the end, which a signal asks for."""
        while not self._asked:
            self._check_alive(child, said, "stay in the cluster")
            time.sleep(LOOK_S)
        drain = self.options.drain
        self.say(f"leaving: what runs here has {drain:g} s; again ends it at once")
        child.terminate()
        end = time.monotonic() + drain + END_S
        while self._asked < 2 and child.poll() is None and time.monotonic() < end:
            time.sleep(LOOK_S)
        self.say("ended" if child.poll() is not None else "ended at once")

    def _check_alive(self, child: subprocess.Popen[bytes], said: Path, request: str) -> None:
        if child.poll() is not None and not self._asked:
            self._fail(request, f"`ray start` ended with code {child.returncode}", said)

    def _fail(self, request: str, why: str, said: Path) -> None:
        text = said.read_text(errors="replace").strip().splitlines()[-12:]
        way = "is the head alive? Ray said:\n" if self.options.address else "Ray said:\n"
        raise MeasureError(f"{request} on {platform.node()}", why, way + "\n".join(text))


def announced(division: Division, gpus: dict[str, int]) -> dict[Announced, int]:
    """The devices that a machine announces, and how many there are of each.

    Args:
        division: of its cores.
        gpus: how many of each kind.
    """
    from whet.compiler.target.machine import host

    machine = platform.node()
    sets = {
        Announced(host.fingerprint(), machine, one.numa, one.cores): 1 for one in division.measuring
    }
    return sets | {Announced(kind, machine): count for kind, count in gpus.items()}


def own_gpus() -> dict[str, int]:
    """How many GPUs of each kind this machine has; none where nothing drives them."""
    from whet.measure.device.identity import describe, every_gpu

    counts: dict[str, int] = {}
    try:
        for gpu in every_gpu():
            kind = str(describe(gpu, {})["fingerprint"])
            counts[kind] = counts.get(kind, 0) + 1
    except TargetError:
        return {}
    return counts


def _is_listening(address: str) -> bool:
    try:
        check_listens(address)
    except MeasureError:
        return False
    return True
