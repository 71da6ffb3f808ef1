"""A stage on another machine: a Ray actor, made again when it is lost."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.compiler.runtime.arrays.device import Device
from whet.measure.cluster.shares import Search, actor_name
from whet.measure.device.names import CUDA
from whet.measure.pool import ray_cluster
from whet.measure.pool.local import measuring_stage
from whet.measure.stage.builder import Built
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.values import Json, MeasureInput, MeasureOptions

START_S = 90.0  # a worker's start, on top of a call's own budget
SOON_S = 20.0  # in which an actor comes up, unless somebody else holds what it needs
BRIEF_S = 5.0  # an actor that is lost sooner after it was made never worked
FEW = 3  # brief ones in a row: the next one is made later, and trusted later
REST_S, LONGEST_S = 0.5, 16.0  # before the next one is made: at first, doubled each time, at most
_numbers = itertools.count()


class RemoteStage:
    """One stage as an actor of its own, which ends with this process.

    A lost actor is made again at once. Where several in a row are lost as soon as they are made,
    as by a head that takes this process for dead, the next ones come at growing intervals, and
    :meth:`start` returns only when one has lived for :data:`BRIEF_S`: so a pool in which no stage
    has such an actor finds that nothing is left, and ends.

    Args:
        ray: the connected module.
        stage: its class and arguments.
        resources: the actor's share of its machine.
        budget: seconds that its longest call may take.
        opened: closes it.
        name: for people, also in Ray's dashboard: ``"whet build 3 @host"``.
        search: whose it is, for others; None: nobody's.
        node: id of the machine that it must be on; "": any.
        kind: of the device that it measures on.
        apart: nothing else runs on its cores.
    """

    def __init__(
        self,
        ray: Any,
        stage: partial[Any],
        resources: dict[str, Any],
        budget: float,
        opened: contextlib.ExitStack,
        *,
        name: str = "whet worker",
        search: Search | None = None,
        node: str = "",
        kind: str = "",
        apart: bool = False,
    ) -> None:
        self._ray, self._stage = ray, stage
        self._resources = resources
        self._budget = budget
        self.name, self.node, self.kind, self.apart = name, node, kind, apart
        self._search = search
        self._machine = ""
        self._overlaps: bool | None = None
        self._closed, self._over = False, threading.Event()
        self._ending = threading.Lock()  # no actor is made while the last one is ended
        self._waiting: set[threading.Event] = set()  # of those who wait for answers
        self._began, self._brief = time.monotonic(), 0
        self._due: float | None = None  # when an actor is to be made that is none yet
        opened.callback(self.close)
        self._begin()

    @property
    def stages(self) -> Sequence[Worker]:
        """The workers that the actor is for its pool: itself."""
        return [self]

    @property
    def starts(self) -> bool:
        """True for an actor that was made a moment ago, and is not up yet."""
        return not self._machine and time.monotonic() < self._began + SOON_S

    @property
    def short_lived(self) -> bool:
        """True while its last actors were all lost within :data:`BRIEF_S` of their making."""
        return self._brief >= FEW and not self._machine

    def start(self) -> str:
        """Start the actor's worker; the name of the machine it is on.

        Raises:
            WorkerLostError: the actor is lost, or does not come up.
        """
        if not self._machine:
            machine = self._ask("start")
            if self.short_lived:  # this one may be lost like those before
                self._over.wait(max(0.0, self._began + BRIEF_S - time.monotonic()))
                machine = self._ask("start")
            self._machine = machine
        return self._machine

    def build(self, inp: MeasureInput) -> Built:
        return self._ask("build", inp)

    def run(self, measurement: Measurement) -> RunReport:
        return self._ask("run", measurement)

    def describe(self, target: Json) -> Json:
        return self._ask("describe", target)

    def overlaps_builds(self) -> bool:
        if self._overlaps is None:
            self._overlaps = bool(self._ask("overlaps_builds"))
        return self._overlaps

    def close(self) -> None:
        """End the actor; its worker dies with it."""
        with self._ending:
            if self._closed:
                return
            self._closed = True
            self._over.set()
            for arrived in tuple(self._waiting):
                arrived.set()
            # A Ray that has ended would be started again; a head that is gone answers nobody.
            if self._ray.is_initialized() and not ray_cluster.head_lost.is_set():
                with contextlib.suppress(Exception):
                    self._end()

    def _begin(self) -> None:
        """Make the actor.

        Raises:
            WorkerLostError: Ray refuses.
        """
        self._began = time.monotonic()
        # Names are unique in a namespace, and a lost actor keeps its own for a while.
        number = next(_numbers)
        unique = f"{self.name} ({os.getpid()}.{number})"
        if self._search is not None:
            unique = actor_name(self.name, self._search, os.getpid(), number)
        options: dict[str, Any] = {**self._resources, "max_restarts": 0, "max_task_retries": 0}
        options["enable_task_events"] = False  # nobody reads them, and a head hears of each
        if self.node:
            options["scheduling_strategy"] = ray_cluster.on_node(self.node)
        remote = self._ray.remote(_that_leaves(self._stage.func))
        try:
            self._actor = remote.options(name=unique, **options).remote(*self._stage.args)
            self._created = self._actor.start.remote()
        except self._ray.exceptions.RayError as error:  # its machine died, and is listed yet
            why = f"it cannot be made: {type(error).__name__}: {error}"
            raise WorkerLostError(f"start of {self.name!r}", why) from error

    def _end(self) -> None:
        """Kill the actor; one that is still being made leaves by itself when it is.

        One that is killed between the request for its resources and the start of its process may
        leave them taken for as long as this driver runs (Ray 2.60): the one measuring machine
        would be lost to the pools that follow. What an actor was asked keeps it until it is done.
        """
        if self._is_made():
            self._ray.kill(self._actor)
        else:
            self._actor.leave.remote()

    def _is_made(self) -> bool:
        """True if the actor has come up, or died."""
        return bool(self._ray.wait([self._created], timeout=0)[0])

    def _ask(self, method: str, *args: Any) -> Any:
        """Wait for a method's answer.

        Raises:
            WorkerLostError: the actor is lost, does not come up, or its pool closes; or this
                process has left Ray.
            MeasureError: the actor said so.
        """
        request = f"{method} on {self.name!r}"
        if self._closed:
            raise WorkerLostError(request, "the pool is closed")
        if not self._ray.is_initialized():
            raise WorkerLostError(
                request,
                "this process is no longer connected to Ray",
                "is the head alive? ray.shutdown() comes after the search",
            )
        self._make_due()
        actor = self._actor
        try:
            answer = getattr(actor, method).remote(*args).future()
            if self._arrives(answer):
                return answer.result()
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, MeasureError) else None
            raise cause or MeasureError(request, str(error)) from error
        except self._ray.exceptions.RayError as error:
            why = f"{type(error).__name__}: {error}"
            raise WorkerLostError(request, why, self._replace(actor)) from error
        if self._closed:
            raise WorkerLostError(request, "the pool is closed, or has let it go")
        why = f"no answer in {self._budget + START_S:g} s"
        raise WorkerLostError(request, why, self._replace(actor))

    def _arrives(self, answer: Future[Any]) -> bool:
        """True if an answer comes in time, and before the pool is closed."""
        arrived = threading.Event()  # or the pool is closed
        self._waiting.add(arrived)
        try:
            answer.add_done_callback(lambda _: arrived.set())
            if not self._closed:
                arrived.wait(self._budget + START_S)
        finally:
            self._waiting.discard(arrived)
        return answer.done()

    def _replace(self, lost: Any) -> str:
        """Make the actor anew, unless it is not there yet: waiting goes on. What has been done.

        Args:
            lost: the actor that did not answer; another thread may have replaced it already.
        """
        lasted = time.monotonic() - self._began
        with self._ending:
            if self._closed:
                return "the pool is closed"
            if not self._ray.is_initialized():
                return "this process is no longer connected to Ray"
            if self._actor is not lost or self._due is not None:
                return "another one has taken its place"
            if not self._is_made():
                return "it is not made yet: `ray status` says what it waits for, and who holds that"
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(self._actor)  # it may hold the only measuring machine
            # One in doubt is asked only after a while: it may have been lost long before.
            self._brief = self._brief + 1 if lasted < BRIEF_S or self.short_lived else 0
            self._machine = ""
            if self._brief >= FEW:
                rest = min(REST_S * 2 ** (self._brief - FEW), LONGEST_S)
                self._due = time.monotonic() + rest
                return f"{self._brief} in a row were lost at once; the next one in {rest:g} s"
            self._begin()
            return "the actor is lost; another one takes its place"

    def _make_due(self) -> None:
        """Make the actor that was put off, at its time; nobody waits for it before."""
        if (due := self._due) is None:
            return
        self._over.wait(max(0.0, due - time.monotonic()))
        with self._ending:
            if self._due is not None and not self._closed and self._ray.is_initialized():
                self._due = None
                self._begin()


class RemoteHost(RemoteStage):
    """An actor whose process hosts several devices, for which no core has to be kept free.

    It ends with the last of them. Its class has ``run_on(place, measurement)``.
    """

    def __init__(
        self,
        count: int,
        ray: Any,
        stage: partial[Any],
        resources: dict[str, Any],
        *args: Any,
        **more: Any,
    ) -> None:
        # One thread more than devices: it is asked to end while they sleep.
        threads = {"max_concurrency": count + 1}
        super().__init__(ray, stage, resources | threads, *args, **more)
        self._stages = [HostedStage(self, place) for place in range(count)]
        self._open = set(range(count))

    @property
    def stages(self) -> Sequence[Worker]:
        """A measurer for each device."""
        return self._stages

    def run_on(self, place: int, measurement: Measurement) -> RunReport:
        return self._ask("run_on", place, measurement)

    def let_go(self, place: int) -> None:
        """End the actor if none of its other devices is in use."""
        self._open.discard(place)
        if not self._open:
            self.close()


class HostedStage:
    """One of the devices of a :class:`RemoteHost`."""

    def __init__(self, host: RemoteHost, place: int) -> None:
        self._host, self._place = host, place
        self.kind, self.apart = host.kind, host.apart

    def start(self) -> str:
        """Start the host; the name of the machine it is on.

        Raises:
            WorkerLostError: the host's actor is lost, or does not come up.
        """
        return self._host.start()

    def overlaps_builds(self) -> bool:
        """It takes no core."""
        return False

    def run(self, measurement: Measurement) -> RunReport:
        return self._host.run_on(self._place, measurement)

    def close(self) -> None:
        """Use the device no more."""
        self._host.let_go(self._place)


@functools.cache
def _that_leaves(stage: Any) -> type:
    """A stage's class whose actors can end themselves; one class, which Ray sends once.

    Ray's own methods for that are not there for who comes in by ``ray://``. While any actor of the
    cluster waits for its resources, Ray has each of its processes collect garbage again and
    again: what an actor has imported is out of that, which would disturb measurements beside it.
    """

    def __init__(actor: Any, *args: Any) -> None:
        stage.__init__(actor, *args)
        gc.freeze()

    def leave(_: Any) -> None:
        import ray

        ray.actor.exit_actor()

    return type(stage.__name__, (stage,), {"__init__": __init__, "leave": leave})


Worker = RemoteStage | HostedStage
"""An actor, as its pool has it."""


def describe_remote_gpu(ray: Any, node: str = "") -> Json:
    """The description of the cluster's GPUs, as a log keeps it.

    Args:
        ray: the connected module.
        node: id of the machine whose GPU it is; "": any that has a free one.

    Raises:
        MeasureError: no GPU is free, or its machine cannot use it.
    """
    from whet.measure.gpu.stage import STARTED

    if not node:
        ray_cluster.free_gpus(ray)
        on_nodes = ray_cluster.free_gpus_of_nodes(ray)
        node = next((one for one, count in sorted(on_nodes.items()) if count), "")

    def describe() -> Json:
        stage = measuring_stage(Device(CUDA), "", MeasureOptions(), path=list(sys.path))
        with contextlib.ExitStack() as opened:
            opened.callback(ray_cluster.wait_for_gpus, ray, ray_cluster.free_gpus(ray))
            share, name = {"num_cpus": 0, "num_gpus": 1}, "whet describe gpu"
            return RemoteStage(ray, stage, share, STARTED, opened, name=name, node=node).describe(
                {}
            )

    return ray_cluster.remembered(f"gpu of {node}", describe)
