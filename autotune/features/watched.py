"""Loop features from a worker: a template that crashes, hangs or eats memory costs one row.

Features run the user's template under configs that nobody has tried. That happens in a process of
its own, warm and killable, as building and measuring do; one serves all tasks of this process.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.features.rows import Rows, nothing
from whet.measure.stage import machine
from whet.measure.worker.supervisor import Supervisor

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task

SECONDS, EACH = 10.0, 0.1
"""Deadline of a call, and what each of its points adds."""
LOST = 8
"""Workers that a task's template may take down before the search goes on without its features."""
SERVED = "whet.autotune.features.served"

_worker: _Worker | None = None


class WatchedFeatures(Rows):
    """The features of a task's points; as :class:`LoopFeatures`, but nothing can go wrong.

    A row is NaN also where the template hangs or crashes, and 0 once it has crashed :data:`LOST`
    times, from when on it is not run.

    Args:
        task: whose points.

    Attributes:
        lost: workers that the template has taken down.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.lost = 0
        self._key = f"{task.key} {task.level} {task.config_space.fingerprint}"
        super().__init__(len(task.config_space.knobs))

    def structures_of(self, points: np.ndarray) -> int:
        """The number of structures of points, among those whose templates do no harm."""
        rows = self.of_points(points)
        sound = points[~np.isnan(rows).any(axis=1)]
        if not len(sound) or self.lost >= LOST:
            return 1
        number, _ = the_worker().call("structures_of", self.task, self._key, sound)
        return 1 if number is None else number

    def _compute(self, points: np.ndarray) -> np.ndarray:
        out, left = nothing(len(points)), np.arange(len(points))
        while len(left):
            if self.lost >= LOST:
                out[left] = 0.0
                break
            rows, fatal = the_worker().call("of_points", self.task, self._key, points[left])
            if rows is not None:
                out[left] = rows
                break
            self.lost += 1
            same = (points[left] == fatal).all(axis=1)
            if not same.any():  # it died of none of these points
                self.lost = LOST
            left = left[~same]
        return out


class _Worker:
    """The process that runs templates, and what it has been told of."""

    def __init__(self) -> None:
        self._supervisor = Supervisor(
            memory_limit=machine.memory_bytes() // 2,
            cpus=machine.builder_cores(),
            preload=[SERVED],
        )
        self._ready: tuple[int, tuple[str, ...]] = (0, ())
        self._noted = os.memfd_create("whet-features")
        os.truncate(self._noted, 1 << 16)
        self._marker = f"/proc/{os.getpid()}/fd/{self._noted}"
        self._supervisor.start()

    def call(self, name: str, task: Task, key: str, points: np.ndarray) -> tuple[Any, np.ndarray]:
        """The result of a method of a task's features for points.

        None, and the point whose template took the worker down, if one did.
        """
        self._supervisor.start()
        starts, known = self._ready
        if starts != self._supervisor.starts or key not in known:
            spec = (task.workload, task.target.to_json(), task.template.ref(), task.level)
            reply = self._supervisor.call(
                f"{SERVED}:prepare", key, *spec, self._marker, timeout=60.0
            )
            if reply.kind != "ok":
                return None, np.full(points.shape[1], -1)
            self._ready = self._supervisor.starts, reply.value
        timeout = SECONDS + EACH * len(points)
        answer = self._supervisor.call(f"{SERVED}:call", key, name, points, timeout=timeout)
        if answer.kind == "ok":
            return answer.value, np.empty(0)
        knobs = points.shape[1]
        running, *point = np.frombuffer(os.pread(self._noted, 8 * (1 + knobs), 0), dtype=np.int64)
        return None, np.array(point) if running else np.full(knobs, -1)

    def close(self) -> None:
        """End the process."""
        self._supervisor.close()


def the_worker() -> _Worker:
    """The one worker of this process, started when it is first needed."""
    global _worker
    if _worker is None:
        _worker = _Worker()
        atexit.register(_worker.close)
    return _worker
