"""The pool on Ray: the same stages as actors, on all machines of a cluster."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.compiler.runtime.arrays.device import Device
from whet.measure.device.identity import check_alike, measured_device, named_device
from whet.measure.device.names import CPU, CUDA, EVERY_GPU, is_device_key
from whet.measure.pool import ray_cluster, ray_members
from whet.measure.pool.base import check_count
from whet.measure.pool.engine import StagedPool
from whet.measure.pool.local import build_function_of, measuring_stage
from whet.measure.pool.protocol import Known
from whet.measure.pool.ray_actor import RemoteStage
from whet.measure.pool.ray_cluster import Node
from whet.measure.pool.ray_members import Members, Offer
from whet.measure.stage import stages
from whet.measure.values import Json, MeasureInput, MeasureOptions
from whet.search_spaces.values.counted import counted


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
            or those of one kind, by their fingerprint. ``"cuda"`` is every GPU that the cluster
            offers and nobody holds, all of one kind; builders need none. ``"cuda-emulator"`` runs
            on the measuring machines; another word is a processor's, and names the lock that keeps
            unrelated runs apart there.
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
        device: str = "cpu",
        build_function: str | None = None,
        run_function: str | None = None,
        prepare_function: str | None = None,
    ) -> None:
        check_count(workers)
        check_one(device)
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
            every = [one for one in ray_cluster.nodes(ray) if one.alive]
            nodes = [one for one in every if not ray_members.version_differs(one)]
            run = crew.measurers(nodes)  # refusals first
            build = crew.builders(nodes)
            super().__init__(build, run, chosen, reference, known)
            self._crew = crew
            self._members = Members(partial(ray_cluster.nodes, ray), nodes, self._came, self._gone)
            self._opened = opened.pop_all()

    def describe(self, kinds: Sequence[str]) -> Json:
        """The processor that measures; see :func:`describe_remote_cpu`."""
        return describe_remote_cpu(self._crew.ray, self._crew.kind or CPU, kinds)

    def close(self) -> None:
        """End all actors at once, and the cluster if it was started here for the last pool."""
        self._members.close()
        super().close()
        self._opened.close()

    def _check_going(self, groups: Sequence[tuple[bool, str]] | None = None) -> None:
        self._members.check_head()
        super()._check_going(groups)

    def _came(self, node: Node) -> None:
        try:
            measurers, builders = self._crew.of_new(node)
        except MeasureError as error:
            self._news.say(f"whet: node {node.host} cannot take part: {error}")
            return
        for measurer in measurers:
            self.join(measurer, measures=True)
        for builder in builders:
            self.join(builder)
        if measurers or builders:
            self._news.say(f"whet: node {node.host} ({_sizes(measurers, builders)}) joins")

    def _gone(self, node: Node) -> None:
        measurers, builders = self._crew.left(node)
        sizes = _sizes(measurers, builders)
        self._news.say(f"whet: node {node.host} ({sizes}) is lost", lost=True)
        for stage in (*measurers, *builders):
            self.leave(stage, gone=True)


class Crew:
    """The actors of a pool: which ones each machine of the cluster gives.

    Args:
        ray: the connected module.
        device: as of :class:`RayPool`.
        options: how to measure.
        functions: import paths of those that build, run and prepare; None: the stages' own.
        opened: ends the actors.
        anywhere: builders, wherever there is room; None: on each machine as many as it has CPUs.

    Attributes:
        kind: of the processors that measure; "" for other devices, and before there are any.
    """

    def __init__(
        self,
        ray: Any,
        device: str,
        options: MeasureOptions,
        functions: tuple[str | None, str | None, str | None],
        opened: contextlib.ExitStack,
        anywhere: int | None = None,
    ) -> None:
        self.ray, self._options, self._opened = ray, options, opened
        self._lock = CPU if is_device_key(device) and device.startswith(CPU) else device
        self._device = device
        self._on = measured_device(CUDA if device == EVERY_GPU else self._lock)
        self._build_function = functions[0] or build_function_of(self._on)
        self._run_functions = functions[1:]
        self._anywhere = anywhere
        self._path = list(sys.path)
        self._numbers = itertools.count()
        self.kind = ""
        self._of_node: dict[str, tuple[list[RemoteStage], list[RemoteStage]]] = {}

    def measurers(self, nodes: Sequence[Node]) -> list[RemoteStage]:
        """The measuring actors of the machines that are there at the start.

        Raises:
            MeasureError: there is no device, or there are several kinds.
        """
        if self._on.type == CUDA:
            return self._gpus()
        found = ray_members.offers(self.ray, nodes)
        whole = self.ray.cluster_resources()
        if self._on.type == CPU:
            found = ray_members.of_one_kind(found, self._device, whole)
            self.kind = found[0].kind
        elif not found:
            ray_members.of_one_kind(found, self._device, whole)
        return [self._measurer(one) for one in found]

    def builders(self, nodes: Sequence[Node]) -> list[RemoteStage]:
        """The building actors of the machines that are there at the start."""
        if self._anywhere is not None:
            return [self._builder(None) for _ in range(self._anywhere)]
        build = [
            self._builder(node) for node in nodes for _ in range(ray_members.builders_of(node))
        ]
        return build or [self._builder(None)]

    def of_new(self, node: Node) -> tuple[list[RemoteStage], list[RemoteStage]]:
        """The measurers and the builders of a machine that comes during a search.

        Raises:
            MeasureError: it has another version of Whet, or does not say what it is.
        """
        if version := ray_members.version_differs(node):
            raise MeasureError("joining", f"it has Whet {version}", "install ours there")
        found = [] if self._on.type == CUDA else ray_members.offers(self.ray, [node])
        if self._on.type == CPU:
            found = [one for one in found if one.kind == self.kind]
        measurers = [self._measurer(one) for one in found]
        count = ray_members.builders_of(node) if self._anywhere is None else 0
        return measurers, [self._builder(node) for _ in range(count)]

    def left(self, node: Node) -> tuple[list[RemoteStage], list[RemoteStage]]:
        """The measurers and the builders that a lost machine had."""
        return self._of_node.pop(node.id, ([], []))

    def _measurer(self, offer: Offer) -> RemoteStage:
        functions = self._run_functions[0], self._run_functions[1]
        remote = RemoteStage(
            self.ray,
            measuring_stage(
                self._on, self._lock, self._options, functions, self._path, cores=offer.cores
            ),
            {"num_cpus": 0, "resources": {offer.resource: 1}},
            4 * self._options.run_timeout,  # the reference may run first, and all once more
            self._opened,
            name=" ".join(filter(None, ("whet measure", offer.kind, offer.label)))
            + f" @{offer.node.host}",
            node=offer.node.id,
            kind=self.kind,
            apart=offer.cores is not None,
        )
        self._of_node.setdefault(offer.node.id, ([], []))[0].append(remote)
        return remote

    def _builder(self, node: Node | None) -> RemoteStage:
        announced = [one.cores for one in ray_members.announced(node)] if node else []
        apart = sorted(core for cores in announced for core in cores)
        stage = partial(
            stages.BuildStage,
            self._options,
            self._build_function,
            self._path,
            0 if apart else 1,
            apart,
        )
        remote = RemoteStage(
            self.ray,
            stage,
            {"num_cpus": 1},
            2 * self._options.build_timeout,
            self._opened,
            name=f"whet build {next(self._numbers)}" + (f" @{node.host}" if node else ""),
            node=node.id if node else "",
        )
        if node:
            self._of_node.setdefault(node.id, ([], []))[1].append(remote)
        return remote

    def _gpus(self) -> list[RemoteStage]:
        """A measuring actor for each free GPU, wherever it is."""
        # Ray shows each actor its own GPU alone, which is number 0 there.
        functions = self._run_functions[0], self._run_functions[1]
        stage = measuring_stage(self._on, self._lock, self._options, functions, self._path)
        count = ray_cluster.free_gpus(self.ray)
        # the next search shall find them free
        self._opened.callback(ray_cluster.wait_for_gpus, self.ray, count)
        budget = 4 * self._options.run_timeout
        measurers = [
            RemoteStage(self.ray, stage, _GPU, budget, self._opened, name=f"whet measure gpu {k}")
            for k in range(count)
        ]
        if count > 1:
            check_alike(
                'workers="ray", device="cuda"',
                [one.describe({}) for one in measurers],
                "a search measures on GPUs of one kind: join a cluster, or start one, with these "
                "only",
            )
        return measurers


def _sizes(measurers: Sequence[object], builders: Sequence[object]) -> str:
    return f"{counted(len(measurers), 'device')}, {counted(len(builders), 'builder')}"


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


def describe_remote_gpu(ray: Any) -> Json:
    """The description of the cluster's GPUs, as a log keeps it.

    Args:
        ray: the connected module.

    Raises:
        MeasureError: no GPU is free, or its machine cannot use it.
    """
    from whet.measure.gpu.stage import STARTED

    stage = measuring_stage(Device(CUDA), "", MeasureOptions(), path=list(sys.path))
    with contextlib.ExitStack() as opened:
        opened.callback(ray_cluster.wait_for_gpus, ray, ray_cluster.free_gpus(ray))
        one = RemoteStage(ray, stage, _GPU, STARTED, opened, name="whet describe gpu")
        return one.describe({})


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


_GPU = {"num_cpus": 0, "num_gpus": 1}
