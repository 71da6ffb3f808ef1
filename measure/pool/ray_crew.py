"""The actors of a search on a cluster: those of each machine that are its own."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.compiler.runtime.arrays.device import Device
from whet.measure.cluster.announce import parse
from whet.measure.cluster.shares import Search, new_uid, shares
from whet.measure.device.identity import ONE_KIND, check_alike, measured_device
from whet.measure.device.names import (
    CPU,
    CUDA,
    EMULATOR,
    EVERY_GPU,
    is_device_key,
    is_model,
    parse_name,
)
from whet.measure.pool import ray_cluster, ray_members
from whet.measure.pool.local import build_function_of, measuring_stage
from whet.measure.pool.ray_actor import (
    HostedStage,
    RemoteHost,
    RemoteStage,
    Worker,
    describe_remote_gpu,
)
from whet.measure.pool.ray_cluster import Node
from whet.measure.pool.ray_members import Offer
from whet.measure.stage import stages
from whet.measure.stage.replayed import ReplayedBuild, ReplayedDevices, replayed_s
from whet.measure.values import Json, MeasureOptions

STARTING = 4
"""Actors of one machine that start at a time; the others follow, unless another search has them."""


@dataclass
class Dealt:
    """Workers that a search gets, and others that it gives up.

    Attributes:
        measurers, builders: new ones.
        given_up: they finish what they have, and end.
    """

    measurers: list[Worker] = field(default_factory=list)
    builders: list[RemoteStage] = field(default_factory=list)
    given_up: list[Worker] = field(default_factory=list)


class Crew:
    """The actors of a pool: which ones each machine of the cluster gives.

    Args:
        ray: the connected module.
        device: as of :class:`whet.measure.pool.ray_pool.RayPool`.
        options: how to measure.
        functions: import paths of those that build, run and prepare; None: the stages' own.
        opened: ends the actors.
        anywhere: builders, wherever there is room; None: on each machine as many as it has CPUs.

    Attributes:
        kinds: of the devices that measure, ascending; () before there are any.
        others: how many other searches were there when the shares were dealt last.
        waits: true if other searches have all devices.
        share: the devices and the builders that belong to this search, those that start yet, too.
            Both are kept as they were dealt last: who asks does not wait for actors to be made.
    """

    def __init__(
        self,
        ray: Any,
        device: str | Mapping[str, str],
        options: MeasureOptions,
        functions: tuple[str | None, str | None, str | None],
        opened: contextlib.ExitStack,
        anywhere: int | None = None,
    ) -> None:
        self.ray, self._options, self._opened = ray, options, opened
        several = {} if isinstance(device, str) else {k: _word(v) for k, v in device.items()}
        _check_several(several)
        self._device = device if isinstance(device, str) else ",".join(several)
        named = [word.strip() for word in self._device.split(",")]
        keys = all(is_device_key(word) and parse_name(word) is None for word in named)
        self._named = tuple(sorted(named)) if keys else ()
        of_gpus = [kind for kind in self._named if _is_gpu(kind)]
        self._processors = [kind for kind in self._named if kind not in of_gpus]
        gpus = self._device == EVERY_GPU or bool(of_gpus)
        self._lock = CPU if self._processors else self._device
        self._on = measured_device(CUDA if gpus and not self._processors else self._lock)
        self._on_gpus = gpus or self._on.type == CUDA
        self._build_function: str | dict[str, str] = functions[0] or (
            {kind: build_function_of(measured_device(name)) for kind, name in several.items()}
            or build_function_of(self._on)
        )
        self._run_functions = functions[1], functions[2]
        self._anywhere = anywhere
        self._path = list(sys.path)
        self._uid, self._count = new_uid(), 0
        self.kinds: tuple[str, ...] = ()
        self.others = 0
        self._offers: dict[str, Offer] = {}  # by their places
        self._slots: dict[str, Node] = {}  # CPUs for builders, by their places
        self._mine: dict[str, RemoteStage] = {}  # by their places
        self._wanted: Collection[str] = ()
        self._dealing = threading.RLock()
        self.waits, self.share = False, (0, max(1, anywhere or 0))

    @property
    def search(self) -> Search:
        """This search, as others see it."""
        return Search(self._uid, self.kinds or (self._device,))

    @property
    def devices(self) -> int:
        """Devices of the cluster on which searches like this one measure."""
        return sum(one.count for one in self._offers.values())

    def pool_kind(self, kind: str) -> str:
        """The name of a kind of device in the pool: the emulator is the same on all processors."""
        return kind if self._on.type in (CPU, CUDA) else ""

    # --- machines --------------------------------------------------------------------------------

    def begin(self, nodes: Sequence[Node]) -> None:
        """Note what the machines offer that are there at the start.

        Raises:
            MeasureError: there is no device, or there are several kinds; nothing can build.
        """
        found: list[Offer] = []
        ray_members.check_builds(nodes)
        if self._on.type != CUDA:
            found = ray_members.offers(self.ray, nodes)
            asked = ",".join(self._processors) or self._device
            if self._on.type == CPU or not found:
                found = ray_members.of_one_kind(found, asked, self.ray.cluster_resources())
        if self._on_gpus:
            found += self._free_gpus(nodes, ray_cluster.free_gpus(self.ray))
        self.kinds = tuple(sorted({one.kind for one in found}))
        self._note(found)
        for node in nodes:
            self._note_slots(node)
        # They come up wherever there is room, and say to others that there is this search.
        for k in range(self._anywhere or 0):
            self._mine[f"anywhere {k}"] = self._builder(None)

    def add(self, node: Node) -> tuple[int, int]:
        """Note what a machine offers that comes during a search; how many devices and builders.

        Raises:
            MeasureError: it has another version of Whet, or does not say what it is.
        """
        if version := ray_members.version_differs(node):
            raise MeasureError("joining", f"it has Whet {version}", "install ours there")
        found = [] if self._on.type == CUDA else ray_members.offers(self.ray, [node])
        if self._on_gpus:
            found += self._gpus_of(node, int(node.resources.get("GPU", 0)))
        found = [one for one in found if one.kind in self.kinds]
        with self._dealing:
            self._note(found)
            return sum(one.count for one in found), self._note_slots(node)

    def remove(self, node: Node) -> tuple[list[Worker], tuple[int, int]]:
        """Forget a machine; the actors here that were on it, and how many it offered."""
        with self._dealing:
            devices = [p for p, one in self._offers.items() if one.node.id == node.id]
            slots = [p for p, one in self._slots.items() if one.id == node.id]
            count = sum(self._offers.pop(place).count for place in devices)
            for place in slots:
                del self._slots[place]
            self._note_share()
            gone = [p for p, actor in self._mine.items() if actor.node == node.id]
            stages = [one for place in gone for one in self._mine.pop(place).stages]
            return stages, (count, len(slots))

    def deal(self, searches: Collection[Search]) -> Dealt:
        """Take this search's share, and give up what is more than that.

        Args:
            searches: that have actors on the cluster now, with this one or without it.
        """
        own, dealt = self.search, Dealt()
        with self._dealing:
            every = {s.uid for s in searches} | {own.uid}
            self.others = len(every) - 1
            owner = shares(self._slots, every)
            for kind in self.kinds:
                places = [place for place, one in self._offers.items() if one.kind == kind]
                like = {s.uid for s in searches if kind in s.kinds} | {own.uid}
                # GPUs belong to who comes first: Ray counts who holds them
                gpus = any(self._offers[place].gpus for place in places)
                owner |= shares(places, [own.uid] if gpus else like)
            wanted = {place for place, uid in owner.items() if uid == own.uid}
            self._wanted = wanted
            self._note_share()
            starting = Counter(one.node for one in self._mine.values() if one.starts)
            new = sorted(wanted - self._mine.keys(), key=self._order)
            free = ray_members.free_now(self.ray) if new and self.others else None
            for place in new:
                node = (self._slots.get(place) or self._offers[place].node).id
                at_once = place in self._offers and self._offers[place].gpus
                if starting[node] >= STARTING and not at_once:
                    continue
                offer, left = self._offers.get(place), None if free is None else free.get(node, {})
                if not (left is None or at_once or ray_members.takes(offer, left)):
                    continue
                starting[node] += 1
                with contextlib.suppress(WorkerLostError):  # its machine died, and is listed yet
                    if place in self._offers:
                        self._mine[place] = self._measurer(self._offers[place])
                        dealt.measurers += self._mine[place].stages
                    else:
                        self._mine[place] = self._builder(self._slots[place])
                        dealt.builders.append(self._mine[place])
            for place in sorted(self._mine.keys() - wanted):
                if place in self._offers or place in self._slots:
                    dealt.given_up += self._mine.pop(place).stages
            self._keep_a_builder(dealt)
        return dealt

    def _order(self, place: str) -> tuple[bool, str]:
        return place in self._offers, place  # builders first: without them nothing is measured

    def check_alike(self, measurers: Sequence[Worker]) -> None:
        """Refuse GPUs of different kinds: those of one machine may differ, whatever it says.

        Raises:
            MeasureError: so they are.
        """
        alone = [one for one in measurers if not isinstance(one, HostedStage)]
        gpus = [one for one in alone if self._on_gpus and _is_gpu(one.kind)]
        if len({one.kind for one in gpus}) == 1 < len(gpus):
            described = [one.describe({}) for one in gpus]
            check_alike('workers="ray", device="cuda"', described, ONE_KIND)

    def builders_anywhere(self) -> list[RemoteStage]:
        """The builders of which only the number was asked for."""
        return [one for place, one in self._mine.items() if place.startswith("anywhere")]

    def short_lived(self) -> list[RemoteStage]:
        """The workers whose actors are lost as soon as they are made."""
        with self._dealing:
            return [one for one in self._mine.values() if one.short_lived]

    def _keep_a_builder(self, dealt: Dealt) -> None:
        """A search without any CPU of its own builds beside another one, and so goes on.

        Others see by its name that there is this search, and give up its share.
        """
        if self._anywhere or any(place in self._slots for place in self._mine):
            spare = self._mine.pop("spare", None) if not self._anywhere else None
            dealt.given_up += [spare] if spare else []
        elif "spare" not in self._mine:
            self._mine["spare"] = self._builder(None, cpus=0 if self._slots else 1)
            dealt.builders.append(self._mine["spare"])

    def _note_share(self) -> None:
        offers = [self._offers[place] for place in self._wanted if place in self._offers]
        slots = sum(place in self._slots for place in self._wanted)
        devices = sum(one.count for one in offers)
        self.share = devices, max(1, slots + (self._anywhere or 0))
        self.waits = bool(self._offers) and not devices

    def _note(self, found: Sequence[Offer]) -> None:
        for one in found:
            self._offers[f"{one.node.id} {one.resource} {one.label}"] = one

    def _note_slots(self, node: Node) -> int:
        count = ray_members.builders_of(node) if self._anywhere is None else 0
        self._slots.update((f"{node.id} build {k}", node) for k in range(count))
        return count

    # --- actors ----------------------------------------------------------------------------------

    def _remote(
        self,
        words: str,
        stage: partial[Any],
        share: Json,
        budget: float,
        hosts: int = 0,
        **more: Any,
    ) -> RemoteStage:
        actor = partial(RemoteHost, hosts) if hosts else RemoteStage
        return actor(
            self.ray, stage, share, budget, self._opened, name=words, search=self.search, **more
        )

    def _measurer(self, offer: Offer) -> RemoteStage:
        seconds = replayed_s(offer.kind)
        whose = (Device(CUDA), CUDA) if offer.gpus else (self._on, self._lock)
        stage: partial[Any] = measuring_stage(
            *whose, self._options, self._run_functions, self._path, cores=offer.cores
        )
        words = " ".join(filter(None, ("whet measure", offer.kind, offer.label)))
        return self._remote(
            f"{words} @{offer.node.host}",
            stage if seconds is None else partial(ReplayedDevices, seconds, offer.count),
            offer.share,
            4 * self._options.run_timeout,  # the reference may run first, and all once more
            node=offer.node.id,
            kind=self.pool_kind(offer.kind),
            apart=offer.cores is not None,
            hosts=0 if seconds is None else offer.count,
        )

    def _builder(self, node: Node | None, cpus: int = 1) -> RemoteStage:
        announced = [one.cores for one in ray_members.announced(node)] if node else []
        apart = sorted(core for cores in announced for core in cores)
        stage: partial[Any] = partial(
            stages.BuildStage,
            self._options,
            self._build_function,
            self._path,
            0 if apart else 1,
            apart,
        )
        if self.kinds and replayed_s(self.kinds[0]) is not None:
            stage = partial(ReplayedBuild)
        number, self._count = self._count, self._count + 1
        return self._remote(
            f"whet build {number}" + (f" @{node.host}" if node else ""),
            stage,
            {"num_cpus": cpus},
            2 * self._options.build_timeout,
            node=node.id if node else "",
        )

    # --- GPUs ------------------------------------------------------------------------------------

    def _free_gpus(self, nodes: Sequence[Node], free: int) -> list[Offer]:
        """The GPUs that nobody holds at the start, all of one kind.

        Raises:
            MeasureError: they are of several kinds.
        """
        on_node = ray_cluster.free_gpus_of_nodes(self.ray)
        found = [one for node in nodes for one in self._gpus_of(node, on_node.get(node.id, 0))]
        if self._named:
            found = [one for one in found if one.kind in self._named]
        else:
            named = [{"fingerprint": o.kind, "name": f"{o.kind} @{o.node.host}"} for o in found]
            check_alike('workers="ray", device="cuda"', named, ONE_KIND)
        if not found:
            raise MeasureError(
                f'workers="ray", device={self._device!r}',
                "no GPU of that kind is free on the cluster",
                '"cuda" is every GPU that nobody holds',
            )
        # the next search shall find them free
        self._opened.callback(ray_cluster.wait_for_gpus, self.ray, free)
        return found

    def _gpus_of(self, node: Node, count: int) -> list[Offer]:
        """The GPUs of a machine; one that does not say of which kind they are gets asked."""
        if not count:
            return []
        said = [(one, name) for name in sorted(node.resources) if (one := parse(name)) is not None]
        gpus = [(one.kind, name) for one, name in said if not one.cores]
        if len(gpus) == 1:
            kind, resource = gpus[0]
        else:
            kind, resource = str(describe_remote_gpu(self.ray, node.id)["fingerprint"]), ""
        return [Offer(node, kind, resource, None, f"gpu{k}", gpus=1) for k in range(count)]


def _word(device: str) -> str:
    """A device's word for its stages: all processors have one lock's, all GPUs one."""
    if device == EVERY_GPU or _is_gpu(device):
        return CUDA
    return CPU if is_device_key(device) and device.startswith(CPU) else device


def _is_gpu(kind: str) -> bool:
    """True for the fingerprint of a GPU."""
    return is_device_key(kind) and kind.startswith(f"{CUDA}-") and not is_model(kind)


def _check_several(words: Mapping[str, str]) -> None:
    if EMULATOR in words.values():
        raise MeasureError(
            f'workers="ray", device={list(words)!r}',
            "the emulator would run on the cores on which the processors are measured",
            "tune for device='cuda-emulator' in a call of its own; it may share the log",
        )
