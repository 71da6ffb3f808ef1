"""The pool on Ray: the same stages as actors, on all machines of a cluster."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.measure.device.identity import named_device
from whet.measure.device.names import CPU, is_device_key
from whet.measure.pool import ray_cluster, ray_members
from whet.measure.pool.base import check_count
from whet.measure.pool.engine import StagedPool
from whet.measure.pool.protocol import Known
from whet.measure.pool.ray_cluster import Node
from whet.measure.pool.ray_crew import Crew
from whet.measure.pool.ray_members import Members
from whet.measure.pool.traffic import AHEAD, Job
from whet.measure.stage.replayed import replayed_s
from whet.measure.values import Json, MeasureInput, MeasureOptions
from whet.search_spaces.values.counted import counted

END_S = 3.0
"""Seconds that the end of a pool waits for who takes workers in or lets them go."""


class RayPool(StagedPool):
    """Builders as Ray actors, and one measurer for each device that the cluster announces.

    Machines may come and go: :meth:`notes` says so, and what they had in hand others take. When
    nothing is left that can build or measure, :meth:`collect` says what was lost and when.

    Args:
        address: ``"ray://host:port"``, ``"host:port"`` or None: the cluster that this process is
            connected to, else a new one on this machine, bound to the loopback interface.
        workers: number of builders, anywhere; None: as many on each machine as it has CPUs for.
        options: how to measure.
        reference: a default config, whose numbers are taken for right; see
            :meth:`~whet.measure.pool.protocol.Pool.compare_with`.
        known: asked with a program's hash between build and run, from the pool's threads.
        device: measures the candidates: ``"cpu"``, the processors of the cluster, all of one kind;
            or those of one kind, by their fingerprint. ``"replay-1000ms"`` are devices that only
            wait (:mod:`whet.measure.stage.replayed`). ``"cuda"`` is every GPU that the cluster
            offers and nobody holds, all of one kind; builders need none. ``"cuda-emulator"`` runs
            on the measuring machines; another word is a processor's, and names the lock that keeps
            unrelated runs apart there. Or several kinds, processors and ``"cuda"``, each by the
            fingerprint that candidates have for it in ``MeasureInput.device``.
        build_function: import path of the function that builds; replaced in tests.
        run_function: import path of the function that runs; replaced in tests.
        prepare_function: import path of the function that runs the reference.

    Raises:
        MeasureError: Ray is missing, the cluster cannot be reached, has no room for the actors, or
            has devices of several kinds.

    ``whet worker`` announces a machine's devices. A cluster that was started by hand offers a
    measurer with ``ray start --resources='{"whet_measurer": 1}'`` on each machine to measure on.
    """

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        *,
        options: MeasureOptions | None = None,
        reference: MeasureInput | None = None,
        known: Known | None = None,
        device: str | Mapping[str, str] = "cpu",
        build_function: str | None = None,
        run_function: str | None = None,
        prepare_function: str | None = None,
    ) -> None:
        check_count(workers)
        for name in [device] if isinstance(device, str) else device.values():
            check_one(name)
        chosen = options or MeasureOptions()
        with contextlib.ExitStack() as opened:  # what is there already ends with what is refused
            ray = opened.enter_context(ray_cluster.connected(address))
            crew = Crew(
                ray,
                device,
                chosen,
                (build_function, run_function, prepare_function),
                opened,
                anywhere=workers,
            )
            # Others are refused, and named, when the members are looked at.
            every = [one for one in ray_cluster.nodes(ray) if one.alive and not one.leaving]
            nodes = [one for one in every if not ray_members.version_differs(one)]
            self._others = ray_cluster.searches(ray)
            crew.begin(nodes)  # refusals first
            dealt = crew.deal(self._others)
            crew.check_alike(dealt.measurers)
            build = [*crew.builders_anywhere(), *dealt.builders]
            super().__init__(build, dealt.measurers, chosen, reference, known)
            self._traffic.kinds.update(map(crew.pool_kind, crew.kinds))
            self._crew, self._waits, self._short = crew, False, False
            # A dealt worker joins before anybody gives it up: each machine comes in a thread.
            self._moving = threading.Lock()
            self._say_share()
            self._members = Members(
                self._listed,
                nodes,
                self._came,
                self._gone,
                self._leaves,
                self._deal,
                ray.is_initialized,
            )
            self._opened = opened.pop_all()

    @property
    def capacity(self) -> int:
        """As of all workers of this search, those that start yet, too."""
        devices, builders = self._crew.share
        return max(super().capacity, builders + (1 + AHEAD) * devices)

    def describe(self, kinds: Sequence[str], device: str = CPU) -> Json:
        """The processor that measures; see :func:`describe_remote_cpu`."""
        wanted = device if is_device_key(device) else next(iter(self._crew.kinds), CPU)
        return describe_remote_cpu(self._crew.ray, wanted, kinds)

    def close(self) -> None:
        """End all actors at once, and the cluster if it was started here for the last pool."""
        self._members.close()
        super().close()
        self._members.close(END_S)
        moved = self._moving.acquire(timeout=END_S)  # no actor is made after
        try:
            self._opened.close()
        finally:
            if moved:
                self._moving.release()

    def _check_going(self, groups: Sequence[tuple[bool, str]] | None = None) -> None:
        self._members.check_head()
        if self._crew.waits:  # for other searches, however long they take
            needed = self._traffic.stranded() if groups is None else groups
            groups = [(measures, kind) for measures, kind in needed if not measures]
        super()._check_going(groups)

    def _again(self, job: Job, lost: WorkerLostError, queue: Callable[[], None]) -> None:
        """Nobody takes a candidate when it is the head that is lost: that ends the pool."""
        try:
            self._members.check_head()
        except MeasureError as error:
            self._fail(error)
        else:
            super()._again(job, lost, queue)

    # --- members, from their thread --------------------------------------------------------------

    def _listed(self) -> list[Node]:
        """The machines, and who else searches on them."""
        nodes = ray_cluster.nodes(self._crew.ray)
        self._others = ray_cluster.searches(self._crew.ray)
        return nodes

    def _came(self, node: Node) -> None:
        try:
            sizes = self._crew.add(node)
        except MeasureError as error:
            self._news.say(f"whet: node {node.host} cannot take part: {error}")
            return
        if any(sizes):
            self._news.say(f"whet: node {node.host} ({_sizes(sizes)}) joins")
        self._deal()

    def _gone(self, node: Node) -> None:
        with self._moving:
            stages, sizes = self._crew.remove(node)
            if stages or any(sizes):  # else it drained before, or was refused
                self._news.say(f"whet: node {node.host} ({_sizes(sizes)}) is lost", lost=True)
            for stage in stages:
                self.leave(stage, gone=True)

    def _leaves(self, node: Node) -> None:
        with self._moving:
            stages, sizes = self._crew.remove(node)
            if stages or any(sizes):
                what = f"node {node.host} ({_sizes(sizes)})"
                said = f"whet: {what} leaves once it is done with what it has"
                self._news.say(said, lost=True)
            for stage in stages:
                self.leave(stage)

    def _deal(self) -> None:
        """Take what is this search's share now, and give up what is another one's."""
        with self._moving:
            if self._closed:
                return
            try:
                dealt = self._crew.deal(self._others)
            except Exception as error:  # nobody else would hear of it
                self._fail(error)
                return
            for measurer in dealt.measurers:
                self.join(measurer, measures=True)
            for builder in dealt.builders:
                self.join(builder)
            for stage in dealt.given_up:
                self.leave(stage)
            self._say_share()
            self._say_short_lived()

    def _say_short_lived(self) -> None:
        """Once, and for the error with which the pool ends where nobody works."""
        short, said = self._crew.short_lived(), self._short
        if short and not said:
            names = ", ".join(repr(one.name) for one in short[:3])
            more = f" and {len(short) - 3} others" if len(short) > 3 else ""
            self._news.say(
                f"whet: Ray ends the actors of {names}{more} as soon as they are made, as if it "
                "took this process for dead: they are made again at growing intervals",
                lost=True,
            )
        self._short = bool(short)

    def _say_share(self) -> None:
        waits, self._waits = self._waits, self._crew.waits
        if self._waits and not waits:
            devices = counted(self._crew.devices, "device")
            others = counted(self._crew.others, "other search", "other searches")
            self._news.say(f"whet: {devices} for this and {others}: it waits for one")


def _sizes(sizes: tuple[int, int]) -> str:
    return f"{counted(sizes[0], 'device')}, {counted(sizes[1], 'builder')}"


def check_one(device: str) -> None:
    """Refuse GPUs by their numbers.

    Raises:
        MeasureError: so it is.
    """
    named = named_device(device)
    if "," in device or (named is not None and named.index):
        raise MeasureError(
            f'workers="ray", device={device!r}',
            "the GPUs of a cluster have no numbers here",
            '"cuda" is every GPU that the cluster offers and nobody holds',
        )


def describe_remote_cpu(ray: Any, device: str, kinds: Sequence[str]) -> Json:
    """The description of the processors on which a search measures, as a log keeps it.

    Args:
        ray: the connected module.
        device: a kind of them; any other word: the only one that the cluster has.
        kinds: of targets: their canonical form there is in ``"targets"``.

    Raises:
        MeasureError: there is none of the kind, or there are several kinds.
    """
    nodes = [one for one in ray_cluster.nodes(ray) if one.alive]
    found = ray_members.of_one_kind(ray_members.offers(ray, nodes), device, ray.cluster_resources())
    while True:
        try:
            described = ray_cluster.describe(ray, found[0].node.id, kinds)
            break
        except WorkerLostError:  # it died after Ray listed it: another one of the kind tells
            found = [one for one in found if one.node.id != found[0].node.id]
            if not found:
                raise
    if replayed_s(found[0].kind) is not None:
        described = {"fingerprint": found[0].kind, "targets": described["targets"]}
    if described["fingerprint"] != found[0].kind:
        raise MeasureError(
            'workers="ray"',
            f"{found[0].node.host} announces {found[0].kind}, and is {described['fingerprint']}",
            "start its worker again",
        )
    sizes = [len(one.cores) for one in found if one.cores is not None]
    for target in described["targets"].values():
        if sizes and "num_threads" in target:
            target["num_threads"] = min(sizes)
    return described
