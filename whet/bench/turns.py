"""Timing in turns: everything that is compared runs in one process, round after round.

A moment in which the machine is slow then strikes all alike, and ratios can be trusted where the
numbers themselves cannot.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

WARM_UPS = 2
"""Calls of a contestant before its first round."""


@dataclass(frozen=True)
class Sample:
    """Seconds per call of one contestant, a number for each round."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The quickest round."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median round."""
        return statistics.median(self.seconds)


def in_turns(names: Iterable[str], rounds: int) -> Iterator[str]:
    """Names in turn, round after round; each round begins with the next one."""
    order = list(names)
    for k in range(rounds):
        yield from order[k % len(order) :] + order[: k % len(order)]


def interleaved(
    contestants: dict[str, Callable[[], Any]],
    rounds: int = 25,
    seconds: float = 0.02,
    pause: float = 0.0,
) -> dict[str, Sample]:
    """Time all contestants in turn, round after round, so that noise meets all of them alike.

    Args:
        contestants: name -> a function that does the work once.
        rounds: how often each is timed.
        seconds: the least time of one sample; quick work is repeated within it.
        pause: seconds before a sample, for threads of the one before it that still spin; the
            work is then done once more before it is timed, so that its own threads are awake.
    """
    number = {}
    for name, run in contestants.items():
        run()
        start = time.perf_counter()
        run()
        number[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-9)))
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for name in in_turns(contestants, rounds):
        run, n = contestants[name], number[name]
        if pause:
            time.sleep(pause)
            run()
        start = time.perf_counter()
        for _ in range(n):
            run()
        found[name].append((time.perf_counter() - start) / n)
    return {name: Sample(tuple(values)) for name, values in found.items()}


_library_threads: list[int] = []


def library_threads(number: int) -> None:
    """Let numpy's and the others' libraries start with so many threads.

    They read the number when they are loaded, so that it comes too late once numpy is imported.
    """
    if "numpy" in sys.modules:
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(number)
    _library_threads[:] = [number]


def numpy_threads() -> int | None:
    """How many threads numpy's library was started with; None: as many as it liked."""
    return _library_threads[0] if _library_threads else None


@contextmanager
def on_cores(number: int) -> Iterator[None]:
    """Keep this process on its last ``number`` allowed cores; no limit where a system has none."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(allowed)[-number:]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
