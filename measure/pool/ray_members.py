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

POLL_S = 1.0
"""How often the list of machines is asked for."""
HEAD_S = 30.0
"""Seconds without an answer after which the cluster's head counts as gone; after 60 s Ray itself
would end this process."""


@dataclass(frozen=True)
class Offer:
    """A processor that a machine offers to measure on.

    Attributes:
        node: the machine.
        kind: the fingerprint of its processor.
        resource: Ray's name, of which one actor holds the only piece.
        cores: nobody else uses them; None: as the machine divides its cores itself.
        label: for people: the NUMA node.
    """

    node: Node
    kind: str
    resource: str
    cores: tuple[int, ...] | None = None
    label: str = ""


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
        for one in announced(node):
            found.append(Offer(node, one.kind, name(one), one.cores, f"n{one.numa}"))
        if node.resources.get(MEASURER, 0) >= 1:
            with suppress(WorkerLostError):  # it died after Ray listed it
                kind = str(ray_cluster.describe(ray, node.id)["fingerprint"])
                found.append(Offer(node, kind, MEASURER))
    return found


def of_one_kind(found: Sequence[Offer], device: str, cluster: object) -> list[Offer]:
    """The offers on which one search measures.

    Args:
        found: all of them.
        device: a kind, or any other word for the only one there is.
        cluster: its resources, for the error.

    Raises:
        MeasureError: there is none, or there are several kinds to choose from.
    """
    kinds = sorted({one.kind for one in found})
    request = f'workers="ray", device={device!r}'
    if not kinds:
        offer = f"--resources='{{\"{MEASURER}\": 1}}'"
        raise MeasureError(
            'workers="ray"',
            f"no machine of the cluster offers the resource {MEASURER!r}, or announces devices",
            f"on the machine to measure on: whet worker --address=..., or ray start "
            f"--address=... {offer}\nthe cluster has {cluster}",
        )
    if is_device_key(device):
        chosen = [one for one in found if one.kind == device]
        if not chosen:
            raise MeasureError(
                request, "no machine of the cluster has it", f"there are: {', '.join(kinds)}"
            )
        return chosen
    if len(kinds) > 1:
        count = {kind: sum(one.kind == kind for one in found) for kind in kinds}
        several = ", ".join(f"{kind} ({n})" for kind, n in count.items())
        raise MeasureError(
            request,
            f"the cluster has processors of several kinds: {several}",
            "times of one say nothing of another: name one, device='" + kinds[0] + "'",
        )
    return list(found)


def builders_of(node: Node) -> int:
    """How many builders a machine has room for.

    What is announced leaves its cores out of Ray's CPUs; a machine that only says that it measures
    has one CPU less for builders.
    """
    cpus = int(node.resources.get("CPU", 0))
    return max(1, cpus - 1) if cpus and MEASURER in node.resources else cpus


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
    """

    def __init__(
        self,
        list_nodes: Callable[[], list[Node]],
        known: Sequence[Node],
        came: Callable[[Node], None],
        lost: Callable[[Node], None],
    ) -> None:
        self._list, self._came, self._lost = list_nodes, came, lost
        self._known = {node.id: node for node in known}
        self._answered, self._at, self._why = time.monotonic(), time.time(), ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="whet-members", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch no longer."""
        self._ended.set()

    def check_head(self) -> None:
        """Raise where the head has not answered for too long.

        Raises:
            MeasureError: it has not.
        """
        silent = time.monotonic() - self._answered
        if silent <= HEAD_S:
            return
        ray_cluster.head_lost.set()
        since = time.strftime("%H:%M:%S", time.localtime(self._at))
        raise MeasureError(
            "Ray cluster",
            f"its head has not answered for {silent:.0f} s, since {since}" + self._why,
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

    def _compare(self, nodes: Sequence[Node]) -> None:
        alive = {node.id: node for node in nodes if node.alive}
        for gone in [node for node in self._known.values() if node.id not in alive]:
            del self._known[gone.id]
            self._lost(gone)
        for node in alive.values():
            if node.id not in self._known and not self._ended.is_set():
                self._known[node.id] = node
                # It may be slow to say what it is, and the head is watched meanwhile.
                threading.Thread(target=self._welcome, args=(node,), daemon=True).start()

    def _welcome(self, node: Node) -> None:
        self._came(node)
        if node.id not in self._known:  # it was lost meanwhile
            self._lost(node)
