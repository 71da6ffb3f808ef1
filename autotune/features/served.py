"""The worker's side of :mod:`watched`: loop features in a process that a template may crash."""

from __future__ import annotations

import mmap
import os
import signal
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.features.extract import LoopFeatures

if TYPE_CHECKING:
    from whet.search_spaces import TemplateRef, Workload

PATIENCE = 1.0
"""Seconds that one run of a template may take; a slower one counts as failed."""
KEPT = 16
"""Tasks whose structures are kept."""

_served: OrderedDict[str, LoopFeatures] = OrderedDict()


def prepare(
    key: str,
    workload: Workload,
    target: dict[str, Any],
    ref: TemplateRef,
    level: str,
    marker: str,
) -> tuple[str, ...]:
    """Make a task's features ready; returns the keys of all that are.

    Args:
        key: names the task in :func:`call`.
        workload, target, ref, level: what the task is made of.
        marker: path of the file in which the point is noted whose template runs.
    """
    from whet.autotune.tasks.task import Task
    from whet.compiler.target import Target
    from whet.search_spaces import resolve

    task = Task(workload, Target(target), resolve(ref), level)
    _served[key] = LoopFeatures(task, Watch(marker))
    while len(_served) > KEPT:
        _served.popitem(last=False)
    return tuple(_served)


prepare.sets_up = True  # type: ignore[attr-defined]  # its file and its signal stay


def call(key: str, method: str, points: np.ndarray) -> Any:
    """The result of a method of a task's :class:`LoopFeatures` for points."""
    _served.move_to_end(key)
    return getattr(_served[key], method)(points)


class Watch:
    """Notes the point whose template runs, and ends a run that hangs in Python.

    Args:
        marker: path of the file that says which point it is.
    """

    def __init__(self, marker: str) -> None:
        file = os.open(marker, os.O_RDWR)
        self._page = mmap.mmap(file, 0)
        os.close(file)
        signal.signal(signal.SIGALRM, _too_slow)

    @contextmanager
    def __call__(self, point: list[int]) -> Iterator[None]:
        noted = np.array([1, *point], dtype=np.int64).tobytes()
        self._page[: len(noted)] = noted
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._page[:8] = bytes(8)


def _too_slow(number: int, frame: object) -> None:
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)  # what comes after it has its own time
    raise TimeoutError(f"the template ran for more than {PATIENCE:g} s")
