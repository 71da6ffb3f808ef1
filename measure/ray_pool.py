"""The pool on Ray: the same stages as actors, on this machine or on a cluster."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import MeasureError
from whet.measure import ray_cluster, stages
from whet.measure.builder import Built
from whet.measure.engine import StagedPool
from whet.measure.pool import Known
from whet.measure.runner import RunReport
from whet.measure.values import MeasureInput, MeasureOptions

START_S = 90.0  # a worker's start, on top of a call's own budget


class RayPool(StagedPool):
    """Builders and one exclusive measurer as Ray actors.

    Args:
        address: ``"ray://host:port"``, ``"host:port"`` or None: the cluster that this process is
            connected to, else a new one on this machine, bound to the loopback interface.
        workers: number of builders; None: one for each CPU but one.
        options: how to measure.
        reference: a default config, whose numbers are taken for right; see
            :meth:`~whet.measure.pool.Pool.compare_with`.
        known: asked with a program's hash between build and run, from the pool's threads.
        device: names the lock that keeps unrelated runs apart on the measuring machine.
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
        build_function: str = stages.BUILD,
        run_function: str = stages.RUN,
        prepare_function: str = stages.PREPARE,
    ) -> None:
        if workers is not None and workers < 1:
            raise MeasureError(f"workers={workers}", "at least one builder is needed")
        chosen = options or MeasureOptions()
        self._ray = ray_cluster.connect(address)
        self._connected = True
        try:
            ray_cluster.check_measurer(self._ray)
            count = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)) - 1)
            path = list(sys.path)
            build = [
                _RemoteBuilder(
                    self._ray,
                    stages.BuildStage,
                    {"num_cpus": 1},
                    (chosen, build_function, path),
                    chosen.build_timeout,
                )
                for _ in range(count)
            ]
            run = _RemoteMeasurer(
                self._ray,
                stages.RunStage,
                {"num_cpus": 0, "resources": {ray_cluster.MEASURER: 1}},
                (chosen, device, run_function, prepare_function, path),
                2 * chosen.run_timeout,  # the reference may have to run first
            )
            super().__init__(build, [run], chosen, reference, known)
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """End all actors at once, and the cluster if it was started here for the last pool."""
        super().close()
        self._release()

    def _release(self) -> None:
        if self._connected:
            self._connected = False
            ray_cluster.disconnect()


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
        self._machine = ""
        self._closed = False

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


class _RemoteBuilder(_Remote):
    def build(self, inp: MeasureInput) -> Built:
        return self._ask("build", inp)


class _RemoteMeasurer(_Remote):
    _overlaps: bool | None = None

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
