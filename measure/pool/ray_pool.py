"""The pool on Ray: the same stages as actors, on this machine or on a cluster."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from whet.compiler.errors import MeasureError
from whet.compiler.runtime.arrays.device import Device
from whet.measure.device.identity import check_alike, measured_device, named_device
from whet.measure.device.names import CUDA, EVERY_GPU
from whet.measure.pool import ray_cluster
from whet.measure.pool.engine import StagedPool
from whet.measure.pool.local import build_function_of, measuring_stage
from whet.measure.pool.protocol import Known
from whet.measure.stage import stages
from whet.measure.stage.builder import Built
from whet.measure.stage.measurement import Measurement
from whet.measure.stage.runner import RunReport
from whet.measure.values import MeasureInput, MeasureOptions

START_S = 90.0  # a worker's start, on top of a call's own budget
LOOK_S = 0.5  # how often who waits for an answer sees whether the pool is closed


class RayPool(StagedPool):
    """Builders as Ray actors, and one exclusive measurer; on GPUs one for each that is free.

    Args:
        address: ``"ray://host:port"``, ``"host:port"`` or None: the cluster that this process is
            connected to, else a new one on this machine, bound to the loopback interface.
        workers: number of builders; None: one for each CPU but one.
        options: how to measure.
        reference: a default config, whose numbers are taken for right; see
            :meth:`~whet.measure.pool.protocol.Pool.compare_with`.
        known: asked with a program's hash between build and run, from the pool's threads.
        device: measures the candidates: ``"cuda"`` is every GPU that the cluster offers
            and nobody holds, all of one kind; builders need none. ``"cuda-emulator"`` runs on the
            measuring machine; another word is a processor's, and names the lock that keeps
            unrelated runs apart there.
        build_function: import path of the function that builds; replaced in tests.
        run_function: import path of the function that runs; replaced in tests.
        prepare_function: import path of the function that runs the reference.

    Raises:
        MeasureError: Ray is missing, the cluster cannot be reached, or has no room for the actors.

    A cluster that was started by hand offers the measurer with
    ``ray start --resources='{"whet_measurer": 1}'`` on the machine to measure on.
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
        if workers is not None and workers < 1:
            raise MeasureError(f"workers={workers}", "at least one builder is needed")
        check_one(device)
        chosen = options or MeasureOptions()
        with contextlib.ExitStack() as opened:  # what is there already ends with what is refused
            ray = ray_cluster.connect(address)
            opened.callback(ray_cluster.disconnect)
            on = measured_device(CUDA if device == EVERY_GPU else device)
            count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)) - 1)
            path = list(sys.path)
            functions = run_function, prepare_function
            run = _measurers(ray, on, device, chosen, functions, path, opened)  # refusals first
            stage = partial(
                stages.BuildStage, chosen, build_function or build_function_of(on), path
            )
            budget = 2 * chosen.build_timeout
            build = [
                _RemoteBuilder(ray, stage, {"num_cpus": 1}, budget, opened) for _ in range(count)
            ]
            super().__init__(build, run, chosen, reference, known)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """End all actors at once, and the cluster if it was started here for the last pool."""
        super().close()
        self._opened.close()


def _measurers(
    ray: Any,
    on: Device,
    lock: str,
    options: MeasureOptions,
    functions: tuple[str | None, str | None],
    path: list[str],
    opened: contextlib.ExitStack,
) -> list[_RemoteMeasurer]:
    """The measuring actors: one, or one for each free GPU; ``opened`` ends them."""
    budget = 4 * options.run_timeout  # the reference may have to run first, and all once more
    # Ray shows each actor its own GPU alone, which is number 0 there.
    stage = measuring_stage(on, lock, options, functions, path)
    if on.type != CUDA:
        ray_cluster.check_measurer(ray)
        return [_RemoteMeasurer(ray, stage, _ALONE, budget, opened)]
    count = ray_cluster.free_gpus(ray)
    opened.callback(ray_cluster.wait_for_gpus, ray, count)  # the next search shall find them free
    measurers = [_RemoteMeasurer(ray, stage, _GPU, budget, opened) for _ in range(count)]
    if count > 1:
        check_alike(
            'workers="ray", device="cuda"',
            [one.describe({}) for one in measurers],
            "a search measures on GPUs of one kind: join a cluster, or start one, with these only",
        )
    return measurers


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


def describe_remote_gpu(ray: Any) -> dict[str, Any]:
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
        one = _RemoteMeasurer(ray, stage, _GPU, STARTED, opened)
        return one.describe({})


_ALONE = {"num_cpus": 0, "resources": {ray_cluster.MEASURER: 1}}
_GPU = {"num_cpus": 0, "num_gpus": 1}


class _Remote:
    """One stage as an actor, made again when Ray loses it.

    Args:
        ray: the connected module.
        stage: its class and arguments.
        resources: the actor's share of its machine.
        budget: seconds that its longest call may take.
        opened: closes it.
    """

    def __init__(
        self,
        ray: Any,
        stage: partial[Any],
        resources: dict[str, Any],
        budget: float,
        opened: contextlib.ExitStack,
    ) -> None:
        self._ray = ray
        self._make: Callable[[], Any] = lambda: (
            ray.remote(_that_leaves(stage.func))
            .options(**resources, max_restarts=0, max_task_retries=0)
            .remote(*stage.args)
        )
        self._budget = budget
        self._machine = ""
        self._closed = False
        self._ending = threading.Lock()  # no actor is made while the last one is ended
        opened.callback(self.close)
        self._begin()

    def start(self) -> str:
        """Start the actor's worker; the name of the machine it is on."""
        if not self._machine:
            self._machine = self._ask("start")
        return self._machine

    def close(self) -> None:
        """End the actor; its worker dies with it."""
        with self._ending:
            if self._closed:
                return
            self._closed = True
            if self._ray.is_initialized():  # else it is gone, and asking would start another Ray
                with contextlib.suppress(Exception):
                    self._end()

    def _begin(self) -> None:
        self._actor = self._make()
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
            MeasureError: the actor is lost, does not come up, or said so.
        """
        if self._closed:
            raise MeasureError(f"{method} on a Ray actor", "the pool is closed")
        if not self._ray.is_initialized():
            raise MeasureError(
                f"{method} on a Ray actor",
                "this process is no longer connected to Ray",
                "ray.shutdown() comes after the search",
            )
        try:
            call = getattr(self._actor, method).remote(*args)
            if self._arrives(call):
                return self._ray.get(call)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, MeasureError) else None
            raise cause or MeasureError(f"{method} on a Ray actor", str(error)) from error
        except self._ray.exceptions.RayError as error:
            raise MeasureError(
                f"{method} on a Ray actor", f"{type(error).__name__}: {error}", self._replace()
            ) from error
        why = f"no answer in {self._budget + START_S:g} s"
        raise MeasureError(f"{method} on a Ray actor", why, self._replace())

    def _arrives(self, call: Any) -> bool:
        """True if an answer comes in time, and before the pool is closed."""
        end = time.monotonic() + self._budget + START_S
        while not self._closed and (left := end - time.monotonic()) > 0:
            if self._ray.wait([call], timeout=min(left, LOOK_S))[0]:
                return True
        return False

    def _replace(self) -> str:
        """Make the actor anew, unless it is not there yet: waiting goes on. What has been done."""
        with self._ending:
            if self._closed:
                return "the pool is closed"
            if not self._ray.is_initialized():
                return "this process is no longer connected to Ray"
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


class _RemoteBuilder(_Remote):
    def build(self, inp: MeasureInput) -> Built:
        return self._ask("build", inp)


class _RemoteMeasurer(_Remote):
    _overlaps: bool | None = None

    def describe(self, target: dict[str, Any]) -> dict[str, Any]:
        return self._ask("describe", target)

    def overlaps_builds(self) -> bool:
        if self._overlaps is None:
            self._overlaps = bool(self._ask("overlaps_builds"))
        return self._overlaps

    def run(self, measurement: Measurement) -> RunReport:
        return self._ask("run", measurement)
