"""A Ray cluster as others see it: its nodes, their announced devices, and the free ones."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from whet.compiler.errors import ArgumentError, MeasureError
from whet.measure.cluster import token
from whet.measure.cluster.announce import Announced, parse
from whet.measure.cluster.check import Versions, of_labels
from whet.measure.cluster.shares import Working, at_work

ANSWER_S = 30.0
"""Seconds in which a cluster must answer."""
LISTENS_S = 5.0
"""Seconds in which somebody must listen at its address."""
TAIL = 800
"""Characters of an error's text that are shown."""
_DENIED = re.compile(r"unauthenticated|auth\w*[ _]token|AuthenticationError", re.I)
_ADDRESS = re.compile(r"(ray://)?(\[[0-9a-fA-F:]+\]|[\w.-]+):([0-9]{1,5})")


@dataclass(frozen=True)
class Node:
    """A machine of a cluster, or one Ray node of several on one machine.

    Attributes:
        id: Ray's.
        host: its name.
        address: its IP address.
        labels: of the node.
        devices: announced devices, with how many there are and how many are free.
        cpus: for builders, all and free ones.
        leaving: it ends as soon as what runs there is done.
    """

    id: str
    host: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[Announced, tuple[int, int]] = field(default_factory=dict)
    cpus: tuple[int, int] = (0, 0)
    leaving: bool = False

    @property
    def versions(self) -> Versions:
        """The software on it, as it says."""
        return of_labels(self.labels)


@dataclass(frozen=True)
class Cluster:
    """The nodes of a cluster that are alive.

    Attributes:
        nodes: in order of their hosts.
        head: versions on the head; "" where it does not say.
        searches: that have actors there, the oldest first.
    """

    nodes: tuple[Node, ...]
    head: Versions
    searches: tuple[Working, ...] = ()

    @staticmethod
    def of_snapshot(data: Mapping[str, Any]) -> Cluster:
        """The cluster of :func:`whet.measure.cluster.snapshot.with_actors`."""
        nodes = tuple(sorted(map(_node, data["nodes"]), key=lambda n: (n.host, n.address, n.id)))
        # the head's node, which Ray marks, else nobody has said
        marked = [
            of_labels(node["labels"])
            for node in data["nodes"]
            if any(name == "node:__internal_head__" for name in node["resources"])
        ]
        said = marked[0] if marked else Versions("", "", "", "")
        python, ray = said.python or data["python"], said.ray or data["ray"]
        head = Versions(said.whet, said.code, python, ray)
        return Cluster(nodes, head, tuple(at_work(data.get("actors", ()))))


def _node(data: Mapping[str, Any]) -> Node:
    resources, free = data["resources"], data["free"]
    devices = {}
    for name, count in resources.items():
        if (device := parse(name)) is not None:
            devices[device] = (int(count), int(free.get(name, 0)))
    return Node(
        id=data["id"],
        host=data["host"],
        address=data["address"],
        labels=data["labels"],
        devices=devices,
        cpus=(int(resources.get("CPU", 0)), int(free.get("CPU", 0))),
        leaving=bool(data["leaving"]),
    )


def host_and_port(address: str) -> tuple[str, int]:
    """The host and the port of ``host:port`` or ``ray://host:port``.

    Raises:
        ArgumentError: it is none.
    """
    found = _ADDRESS.fullmatch(address.strip())
    if found is None or not 0 < int(found[3]) < 1 << 16:
        raise ArgumentError(
            f"Ray cluster at {address!r}",
            "this is no address",
            "host:port of the head, as `whet worker` says there, e.g. 10.0.0.1:6379; a search "
            "takes ray://10.0.0.1:10001",
        )
    return found[2].strip("[]"), int(found[3])


def check_listens(address: str) -> str:
    """Refuse an address at which nobody listens; this machine's own address on the way there.

    Raises:
        ArgumentError: it is no address.
        MeasureError: nobody listens there.
    """
    try:
        with socket.create_connection(host_and_port(address), LISTENS_S) as connection:
            return str(connection.getsockname()[0])
    except OSError as error:
        raise MeasureError(
            f"connection to the Ray cluster at {address}",
            f"nobody answers there: {error}",
            "`whet worker --listen ADDRESS` on the head says where it listens; a firewall must "
            "let its ports through",
        ) from error


class ClusterReader:
    """Reads the state of a cluster, from a process of its own.

    Args:
        address: ``host:port`` of the head, or ``ray://host:port``.

    Raises:
        ArgumentError: it is no address.
        MeasureError: nobody listens there, or this machine has no token.

    It ends with the thread that made it.
    """

    def __init__(self, address: str) -> None:
        check_listens(address)
        token.find(address.removeprefix("ray://"))
        self.address = address
        self._line: bytes | None = None  # the answer so far; None: nothing was asked
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # close() does
        self._child = subprocess.Popen(
            [sys.executable, "-m", "whet.measure.cluster.probe", address, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=token.environment() | {"PYTHONPATH": importable()},
            process_group=0,
        )

    def __enter__(self) -> ClusterReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def read(self, seconds: float = ANSWER_S) -> Cluster:
        """The cluster as it is now.

        Args:
            seconds: in which it must answer.

        Raises:
            MeasureError: it does not answer, or refuses the token.
        """
        cluster = self.poll(seconds)
        if cluster is None:
            self._fail(f"no answer in {seconds:g} s")
        return cluster

    def poll(self, seconds: float) -> Cluster | None:
        """:meth:`read` that may be called again where it gives None: no answer yet.

        Raises:
            MeasureError: it refuses the token, or is gone.
        """
        assert self._child.stdin is not None and self._child.stdout is not None
        end = time.monotonic() + seconds
        if self._line is None:
            self._line = b""
            try:
                self._child.stdin.write(b"\n")
                self._child.stdin.flush()
            except BrokenPipeError:
                self._fail("it ended")
        while not self._line.endswith(b"\n"):
            left = max(0.0, end - time.monotonic())
            if not select.select([self._child.stdout], [], [], left)[0]:
                return None
            if not (more := os.read(self._child.stdout.fileno(), 1 << 16)):
                self._fail("it ended")
            self._line += more
        line, self._line = self._line, None
        return Cluster.of_snapshot(json.loads(line))

    def close(self) -> None:
        """End the process."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        self._child.kill()
        self._child.wait()
        self._said.close()

    def _fail(self, how: str) -> NoReturn:
        self._child.kill()
        self._child.wait()
        self._said.seek(0)
        said = self._said.read().strip()
        request = f"connection to the Ray cluster at {self.address}"
        if _DENIED.search(said):
            raise token.refused(self.address)
        why = f"{how}: {said[-TAIL:]}" if said else how
        port = "is that its client port (10001), and " if self.address.startswith("ray://") else ""
        out = f"{port}is the head alive, of the same Ray and Python, and asks for a token?"
        raise MeasureError(request, why, out)


def importable() -> str:
    """A ``PYTHONPATH`` by which a child imports what this process can."""
    return os.pathsep.join(dict.fromkeys(os.path.abspath(path) for path in sys.path))


def read_cluster(address: str) -> Cluster:
    """The cluster at an address, once; as :class:`ClusterReader` reads it."""
    with ClusterReader(address) as reader:
        return reader.read()
