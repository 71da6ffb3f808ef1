"""The pool on Ray: the same stages as actors, on this machine or on a cluster."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import MeasureError
from whet.compiler.runtime.device import Device
from whet.measure import ray_cluster, stages
from whet.measure.builder import Built
from whet.measure.engine import StagedPool
from whet.measure.gpu.identity import check_alike, measured_device, named_device
from whet.measure.gpu.names import CPU, CUDA, EVERY_GPU
from whet.measure.local import build_function_of
from whet.measure.pool import Known
from whet.measure.runner import RunReport
from whet.measure.values import MeasureInput, MeasureOptions

START_S = 90.0  # a worker's start, on top of a call's own budget
CREATED_S = 10.0  # for actors to come up before they are killed; what is still queued is not


class RayPool(StagedPool):
    """Builders as Ray actors, and one exclusive measurer; on GPUs one for each that is free.

    Args:
        address: ``"ray://host:port"``, ``"host:port"`` or None: the cluster that this process is
            connected to, else a new one on this machine, bound to the loopback interface.
        workers: number of builders; None: one for each CPU but one.
        options: how to measure.
        reference: a default config, whose numbers are taken for right; see
            :meth:`~whet.measure.pool.Pool.compare_with`.
        known: asked with a program's hash between build and run, from the pool's threads.
        device: what candidates are measured on: ``"cuda"`` is every GPU that the cluster offers
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
        self._ray = ray_cluster.connect(address)
        self._connected = True
        try:
            on = measured_device(CUDA if device == EVERY_GPU else device)
            count = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)) - 1)
            path = list(sys.path)
            functions = run_function, prepare_function
            run = _measurers(self._ray, on, device, chosen, functions, path)  # refusals first
            build = [
                _RemoteBuilder(
                    self._ray,
                    stages.BuildStage,
                    {"num_cpus": 1},
                    (chosen, build_function or build_function_of(on), path),
                    chosen.build_timeout,
                )
                for _ in range(count)
            ]
            self._remotes: list[_Remote] = [*build, *run]
            super().__init__(build, run, chosen, reference, known)
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """End all actors at once, and the cluster if it was started here for the last pool."""
        if self._connected:
            _wait_until_created(self._ray, self._remotes)
        super().close()
        self._release()

    def _release(self) -> None:
        if self._connected:
            self._connected = False
            ray_cluster.disconnect()


def _measurers(
    ray: Any,
    on: Device,
    lock: str,
    options: MeasureOptions,
    functions: tuple[str | None, str | None],
    path: list[str],
) -> list[_RemoteMeasurer]:
    """The measuring actors: one, or one for each free GPU."""
    from whet.measure.gpu import stage

    budget = 2 * options.run_timeout  # the reference may have to run first
    run, prepare = functions
    if on.type == CPU:
        ray_cluster.check_measurer(ray)
        args = options, lock, run or stages.RUN, prepare or stages.PREPARE, path
        return [_RemoteMeasurer(ray, stages.RunStage, _ALONE, args, budget)]
    # Ray shows each actor its own GPU alone, which is number 0 there.
    here = options, Device(on.type), run or stage.RUN, prepare or stage.PREPARE, path
    if on.type != CUDA:
        ray_cluster.check_measurer(ray)
        return [_RemoteMeasurer(ray, stage.DeviceStage, _ALONE, here, budget)]
    count = ray_cluster.free_gpus(ray)
    found = [_RemoteMeasurer(ray, stage.DeviceStage, _GPU, here, budget) for _ in range(count)]
    if count > 1:
        check_alike(
            'workers="ray", device="cuda"',
            [one.describe({}) for one in found],
            "a search measures on GPUs of one kind: join a cluster, or start one, with these only",
        )
    return found


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
    """What a GPU of the cluster is, as a log keeps it.

    Args:
        ray: the connected module.

    Raises:
        MeasureError: no GPU is free, or its machine cannot use it.
    """
    from whet.measure.gpu import stage

    free = ray_cluster.free_gpus(ray)
    args = MeasureOptions(), Device(CUDA), stage.RUN, stage.PREPARE, list(sys.path)
    one = _RemoteMeasurer(ray, stage.DeviceStage, _GPU, args, stage.STARTED)
    try:
        return one.describe({})
    finally:
        _wait_until_created(ray, [one])
        one.close()
        ray_cluster.wait_for_gpus(ray, free)


_ALONE = {"num_cpus": 0, "resources": {ray_cluster.MEASURER: 1}}
_GPU = {"num_cpus": 0, "num_gpus": 1}


class _Remote:
    """One stage as an actor, made again when Ray loses it."""

    def __init__(
        self, ray: Any, stage: type, resources: dict[str, Any], args: tuple, budget: float
    ) -> None:
        self._ray = ray
        self._make: Callable[[], Any] = lambda: (
            ray.remote(stage).options(**resources, max_restarts=0, max_task_retries=0).remote(*args)
        )
        self._budget = budget
        self._actor: Any = self._make()
        self._created = self._actor.__ray_ready__.remote()
        self._machine = ""
        self._closed = False

    @property
    def created(self) -> Any:
        """A Ray object that is there when the actor is, or is dead."""
        return self._created

    def start(self) -> str:
        """Start the actor's worker; the name of the machine it is on."""
        if not self._machine:
            self._machine = self._ask("start")
        return self._machine

    def close(self) -> None:
        """Kill the actor; its worker dies with it."""
        self._closed = True
        with contextlib.suppress(Exception):  # Ray itself may be gone: then the actor is too
            self._ray.kill(self._actor)

    def _ask(self, method: str, *args: Any) -> Any:
        if self._closed:
            raise MeasureError(f"{method} on a Ray actor", "the pool is closed")
        try:
            call = getattr(self._actor, method).remote(*args)
            return self._ray.get(call, timeout=self._budget + START_S)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, MeasureError) else None
            raise cause or MeasureError(f"{method} on a Ray actor", str(error)) from error
        except (self._ray.exceptions.RayError, TimeoutError) as error:
            self._replace()
            raise MeasureError(
                f"{method} on a Ray actor", f"{type(error).__name__}: {error}", "the actor is lost"
            ) from error

    def _replace(self) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(self._actor)  # it may hold the only measuring machine
        if not self._closed:
            self._machine = ""
            self._actor = self._make()
            self._created = self._actor.__ray_ready__.remote()


def _wait_until_created(ray: Any, remotes: Sequence[_Remote]) -> None:
    """Wait, a while, until no actor is half made.

    An actor that is killed between the request for its resources and the start of its process may
    leave them taken for as long as this driver runs (Ray 2.60): the one measuring machine would
    be lost to the pools that follow.
    """
    with contextlib.suppress(ray.exceptions.RayError):  # the connection is gone: so are they
        waiting = [remote.created for remote in remotes]
        ray.wait(waiting, num_returns=len(waiting), timeout=CREATED_S)


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

    def run(
        self,
        built: Built,
        options: MeasureOptions,
        reference: Built | None = None,
        best_cost: float | None = None,
    ) -> RunReport:
        return self._ask("run", built, options, reference, best_cost)
