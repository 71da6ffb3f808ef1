"""A stage on another machine: a Ray actor, made again when it is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from functools import partial
from typing import Any

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.measure.pool import ray_cluster
from whet.measure.stage.builder import Built
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.values import Json, MeasureInput

START_S = 90.0  # a worker's start, on top of a call's own budget
LOOK_S = 0.5  # how often who waits for an answer sees whether the pool is closed
_numbers = itertools.count()


class RemoteStage:
    """One stage as an actor of its own, which ends with this process.

    Args:
        ray: the connected module.
        stage: its class and arguments.
        resources: the actor's share of its machine.
        budget: seconds that its longest call may take.
        opened: closes it.
        name: for people, also in Ray's dashboard: ``"whet build 3 @host"``.
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
        node: str = "",
        kind: str = "",
        apart: bool = False,
    ) -> None:
        self._ray, self._stage = ray, stage
        self._resources = resources
        self._budget = budget
        self.name, self.node, self.kind, self.apart = name, node, kind, apart
        self._machine = ""
        self._overlaps: bool | None = None
        self._closed = False
        self._ending = threading.Lock()  # no actor is made while the last one is ended
        opened.callback(self.close)
        self._begin()

    def start(self) -> str:
        """Start the actor's worker; the name of the machine it is on.

        Raises:
            WorkerLostError: the actor is lost, or does not come up.
        """
        if not self._machine:
            self._machine = self._ask("start")
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
            # A Ray that has ended would be started again; a head that is gone answers nobody.
            if self._ray.is_initialized() and not ray_cluster.head_lost.is_set():
                with contextlib.suppress(Exception):
                    self._end()

    def _begin(self) -> None:
        # Names are unique in a namespace, and a lost actor keeps its own for a while.
        unique = f"{self.name} ({os.getpid()}.{next(_numbers)})"
        options: dict[str, Any] = {**self._resources, "max_restarts": 0, "max_task_retries": 0}
        if self.node:
            options["scheduling_strategy"] = ray_cluster.on_node(self.node)
        remote = self._ray.remote(_that_leaves(self._stage.func))
        self._actor = remote.options(name=unique, **options).remote(*self._stage.args)
        self._created = self._actor.start.remote()

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
            WorkerLostError: the actor is lost, does not come up, or its pool closes.
            MeasureError: the actor said so, or this process has left Ray.
        """
        request = f"{method} on {self.name!r}"
        if self._closed:
            raise WorkerLostError(request, "the pool is closed")
        if not self._ray.is_initialized():
            raise MeasureError(
                request,
                "this process is no longer connected to Ray",
                "ray.shutdown() comes after the search",
            )
        actor = self._actor
        try:
            call = getattr(actor, method).remote(*args)
            if self._arrives(call):
                return self._ray.get(call)
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

    def _arrives(self, call: Any) -> bool:
        """True if an answer comes in time, and before the pool is closed."""
        end = time.monotonic() + self._budget + START_S
        while not self._closed and (left := end - time.monotonic()) > 0:
            if self._ray.wait([call], timeout=min(left, LOOK_S))[0]:
                return True
        return False

    def _replace(self, lost: Any) -> str:
        """Make the actor anew, unless it is not there yet: waiting goes on. What has been done.

        Args:
            lost: the actor that did not answer; another thread may have replaced it already.
        """
        with self._ending:
            if self._closed:
                return "the pool is closed"
            if not self._ray.is_initialized():
                return "this process is no longer connected to Ray"
            if self._actor is not lost:
                return "another one has taken its place"
            if not self._is_made():
                return "it is not made yet: `ray status` says what it waits for, and who holds that"
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(self._actor)  # it may hold the only measuring machine
            self._machine = ""
            self._begin()
            return "the actor is lost; another one takes its place"


def _that_leaves(stage: Any) -> type:
    """A stage's class whose actors can end themselves.

    Ray's own methods for that are not there for who comes in by ``ray://``.
    """

    def leave(_: Any) -> None:
        import ray

        ray.actor.exit_actor()

    return type(stage.__name__, (stage,), {"leave": leave})
