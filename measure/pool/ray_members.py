"""The machines of a Ray cluster as members of a pool: what each offers, who comes, who is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.compiler.installed import installed_versions
from whet.measure.cluster.announce import VERSION_LABEL, Announced, name, parse
from whet.measure.device.names import is_device_key
from whet.measure.pool import ray_cluster
from whet.measure.pool.ray_cluster import MEASURER, Node
from whet.measure.stage.replayed import HOSTED, replayed_s

POLL_S = 1.0
"""How often the list of machines is asked for."""
HEAD_S = 30.0
"""Seconds without an answer after which the cluster's head counts as gone; after 60 s Ray itself
would end this process."""


@dataclass(frozen=True)
class Offer:
    """A processor that a machine offers to measure on, or several that one process serves.

    Attributes:
        node: the machine.
        kind: the fingerprint of its processor.
        resource: Ray's name, of which one actor holds the only piece.
        cores: nobody else uses them; None: as the machine divides its cores itself.
        label: for people: the NUMA node, the GPU.
        gpus: 1 for a GPU.
        beside: Ray's names of other devices that its process hosts, too: they take no core.
    """

    node: Node
    kind: str
    resource: str
    cores: tuple[int, ...] | None = None
    label: str = ""
    gpus: int = 0
    beside: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many devices it is."""
        return 1 + len(self.beside)

    @property
    def share(self) -> dict[str, Any]:
        """An actor's part of its machine, as Ray counts it."""
        names = (self.resource, *self.beside)
        own = {"resources": dict.fromkeys(names, 1)} if self.resource else {}
        return {"num_cpus": 0, **own} | ({"num_gpus": self.gpus} if self.gpus else {})


def announced(node: Node) -> list[Announced]:
    """The sets of cores that a machine measures on, in the order of their names."""
    found = (parse(resource) for resource in sorted(node.resources))
    return [one for one in found if one is not None and one.cores]


def offers(ray: Any, nodes: Sequence[Node]) -> list[Offer]:
    """The processors that machines offer.

    A machine that offers :data:`~whet.measure.pool.ray_cluster.MEASURER` without saying what it is
    gets asked.

    Raises:
        MeasureError: it does not answer.
    """
    found = []
    for node in nodes:
        replayed: dict[str, list[Announced]] = {}  # by kind
        for one in announced(node):
            if replayed_s(one.kind) is None:
                found.append(Offer(node, one.kind, name(one), one.cores, f"n{one.numa}"))
            else:
                replayed.setdefault(one.kind, []).append(one)
        for kind, several in replayed.items():
            for first in range(0, len(several), HOSTED):
                names = [name(one) for one in several[first : first + HOSTED]]
                label, beside = f"{len(names)} devices", tuple(names[1:])
                found.append(Offer(node, kind, names[0], label=label, beside=beside))
        if node.resources.get(MEASURER, 0) >= 1:
            with suppress(WorkerLostError):  # it died after Ray listed it
                kind = str(ray_cluster.describe(ray, node.id)["fingerprint"])
                found.append(Offer(node, kind, MEASURER))
    return found


def of_one_kind(found: Sequence[Offer], device: str, cluster: object) -> list[Offer]:
    """The offers on which one search measures.

    Args:
        found: all of them.
        device: a kind, several with commas, or any other word for the only one there is; replayed
            ones have to be named.
        cluster: its resources, for the error.

    Raises:
        MeasureError: there is none, or there are several kinds to choose from.
    """
    asked = [word.strip() for word in device.split(",")]
    named = all(map(is_device_key, asked))
    kinds = sorted({one.kind for one in found if named or replayed_s(one.kind) is None})
    request = f'workers="ray", device={device!r}'
    if not kinds:
        offer = f"--resources='{{\"{MEASURER}\": 1}}'"
        raise MeasureError(
            'workers="ray"',
            f"no machine of the cluster offers the resource {MEASURER!r}, or announces devices",
            f"on the machine to measure on: whet worker --address=..., or ray start "
            f"--address=... {offer}\nthe cluster has {cluster}",
        )
    if named:
        if lacks := [kind for kind in asked if kind not in kinds]:
            why = f"no machine of the cluster has {', '.join(lacks)}"
            raise MeasureError(request, why, f"there are: {', '.join(kinds)}")
        return [one for one in found if one.kind in asked]
    if len(kinds) > 1:
        count = {kind: sum(one.count for one in found if one.kind == kind) for kind in kinds}
        several = ", ".join(f"{kind} ({n})" for kind, n in count.items())
        raise MeasureError(
            request,
            f"the cluster has processors of several kinds: {several}",
            "times of one say nothing of another: name one, device='" + kinds[0] + "'",
        )
    return [one for one in found if one.kind in kinds]


def builders_of(node: Node) -> int:
    """How many builders a machine has room for.

    What is announced leaves its cores out of Ray's CPUs; a machine that only says that it measures
    has one CPU less for builders.
    """
    cpus = int(node.resources.get("CPU", 0))
    return max(1, cpus - 1) if cpus and MEASURER in node.resources else cpus


def check_builds(nodes: Sequence[Node]) -> None:
    """Refuse a cluster on which nothing can be built: a search would wait for a CPU for ever.

    Raises:
        MeasureError: so it is.
    """
    if not any(node.resources.get("CPU", 0) >= 1 for node in nodes):
        raise MeasureError(
            'workers="ray"',
            "no machine of the cluster builds: all cores that it gives measure",
            "give some to building: whet worker --address HEAD --build CORES, on any machine",
        )


def free_now(ray: Any) -> dict[str, dict[str, float]]:
    """The shares that nobody holds, by machines; none where the cluster does not answer now."""
    try:
        return ray_cluster.free_of_nodes(ray)
    except Exception:  # Ray raises all kinds of errors: none of them is an answer
        return {}


def takes(offer: Offer | None, free: dict[str, float]) -> bool:
    """Take an actor's share of what is free on its machine; False while others hold it.

    An actor that waits for it has Ray collect garbage in all processes of the cluster, and waits on
    where its search has given it up meanwhile.

    Args:
        offer: of a device; None: the share of a builder.
        free: what nobody holds there; the share is taken off.
    """
    names = ["CPU"] if offer is None else list(offer.share.get("resources", ()))
    if any(free.get(name, 0.0) < 1 for name in names):
        return False
    free.update((name, free[name] - 1) for name in names)
    return True


def version_differs(node: Node) -> str:
    """The version of Whet that a machine says it has, if it is another than ours; else ""."""
    said = node.labels.get(VERSION_LABEL, "")
    ours = installed_versions(["whet"]).get("whet", "").replace("+", "_")
    return said if said and ours and said != ours else ""


class Members:
    """Watches who belongs to the cluster, from a thread of its own.

    Args:
        list_nodes: asks the head; may raise, or take for ever.
        known: the machines that are in the pool already.
        came: called with each new machine.
        lost: called with each that is gone.
        leaves: called with each that ends as soon as what runs there is done.
        looked: called after each look.
        connected: false once this process is connected no more, which Ray finds out by itself.
    """

    def __init__(
        self,
        list_nodes: Callable[[], list[Node]],
        known: Sequence[Node],
        came: Callable[[Node], None],
        lost: Callable[[Node], None],
        leaves: Callable[[Node], None] = lambda node: None,
        looked: Callable[[], None] = lambda: None,
        connected: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connected = connected
        self._list, self._came, self._lost = list_nodes, came, lost
        self._leaves, self._looked = leaves, looked
        self._leaving: set[str] = set()
        self._known = {node.id: node for node in known}
        self._answered, self._at, self._why = time.monotonic(), time.time(), ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="whet-members", daemon=True)
        self._thread.start()

    def close(self, wait_s: float = 0.0) -> None:
        """Watch no longer.

        Args:
            wait_s: seconds to wait for the look that goes on; one at a dead head takes for ever.
        """
        self._ended.set()
        if wait_s and threading.current_thread() is not self._thread:
            self._thread.join(wait_s)

    def check_head(self) -> None:
        """Raise where the head has not answered for too long, or the connection to it is lost.

        Raises:
            MeasureError: so it is.
        """
        silent, connected = time.monotonic() - self._answered, self._connected()
        if silent <= HEAD_S and connected:
            return
        ray_cluster.head_lost.set()
        since = time.strftime("%H:%M:%S", time.localtime(self._at))
        ended = "" if connected else ", and the connection to it is lost"
        raise MeasureError(
            "Ray cluster",
            f"its head has not answered for {silent:.0f} s, since {since}{ended}{self._why}",
            "start the head and its workers again: what was measured is in the log, and the same "
            "search goes on from there",
        )

    def _watch(self) -> None:
        while not self._ended.wait(POLL_S):
            try:
                nodes = self._list()
            except Exception as error:  # Ray raises all kinds of errors: none of them is an answer
                self._why = f" ({type(error).__name__}: {error})"
                continue
            self._answered, self._at, self._why = time.monotonic(), time.time(), ""
            self._compare(nodes)
            if not self._ended.is_set():
                self._looked()

    def _compare(self, nodes: Sequence[Node]) -> None:
        alive = {node.id: node for node in nodes if node.alive}
        for gone in [node for node in self._known.values() if node.id not in alive]:
            del self._known[gone.id]
            self._leaving.discard(gone.id)
            self._lost(gone)
        for node in alive.values():
            if self._ended.is_set():
                return
            if node.leaving and node.id in self._known and node.id not in self._leaving:
                self._leaving.add(node.id)
                self._leaves(node)
            elif not node.leaving and node.id not in self._known:
                self._known[node.id] = node
                # It may be slow to say what it is, and the head is watched meanwhile.
                threading.Thread(target=self._welcome, args=(node,), daemon=True).start()

    def _welcome(self, node: Node) -> None:
        self._came(node)
        if node.id not in self._known:  # it was lost meanwhile
            self._lost(node)
        elif node.id in self._leaving:
            self._leaves(node)
