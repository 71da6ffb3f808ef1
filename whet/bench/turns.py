"""Timing in turns: everything that is compared runs in one process, round after round.

A moment in which the machine is slow then strikes all alike, and ratios can be trusted where the
numbers themselves cannot.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

WARM_UPS = 2
"""Calls of a contestant before its first round."""
FEW = 15
"""Rounds that there are however long they take."""

_TRIED, _LONG = 5, 0.1  # calls that say how many a sample has, or those of so many seconds
_PATIENCE, _MOMENT = 0.25, 0.005  # seconds that other threads are waited for, and between looks


@dataclass(frozen=True)
class Sample:
    """Times of one contestant.

    Attributes:
        seconds: per call, a number for each round.
        late: the host was too slow in most rounds: the times of a device hold the host's, too.
    """

    seconds: tuple[float, ...]
    late: bool = False

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


Repeated = Callable[[int], None]
"""Does a work that many times; on a device it queues them."""


class Clock(Protocol):
    """Times contestants."""

    def calls(self, run: Repeated) -> int:
        """Calls of a sample; those that find it out warm everything up."""

    def sample(self, run: Repeated, calls: int) -> tuple[float, bool]:
        """Seconds per call, and whether the host came late: its own time is in them, too."""


class HostClock:
    """The host's clock; a sample is the mean of its calls.

    Args:
        seconds: the least time of one sample; quick work is repeated within it.
        pause: seconds before a sample, at least: it waits until no other thread of this process
            runs, as those of the one before it spin (OpenBLAS's for 100 ms).
        warm: how often the work is done before each sample, so that the caches hold what is its
            own, and its threads are awake and on cores of their own.
        clock: reads the time; on one core :func:`time.process_time` leaves out the turns of
            other processes.
    """

    def __init__(
        self,
        seconds: float = 0.02,
        pause: float = 0.0,
        warm: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._seconds, self._pause, self._warm, self._clock = seconds, pause, warm, clock

    def calls(self, run: Repeated) -> int:
        """Calls of a sample, by the quickest of some: threads of the first still wake."""
        run(1)
        least, begin = float("inf"), time.monotonic()
        for _ in range(_TRIED):
            least = min(least, timed(run, 1, self._clock))
            if time.monotonic() - begin > _LONG:
                break
        return max(1, int(self._seconds / max(least, 1e-9)))

    def sample(self, run: Repeated, calls: int) -> tuple[float, bool]:
        """Seconds per call; the host is never late for itself."""
        if self._pause:
            time.sleep(self._pause)
            _wait_until_quiet()
        if self._warm:
            run(self._warm)
        return timed(run, calls, self._clock), False


def _wait_until_quiet() -> None:
    """Wait until the other threads of this process sleep, where a system tells; not for long."""
    own, until = threading.get_native_id(), time.monotonic() + _PATIENCE
    while time.monotonic() < until and any(
        _runs(thread) for thread in Path("/proc/self/task").glob("*") if thread.name != str(own)
    ):
        time.sleep(_MOMENT)


def _runs(thread: Path) -> bool:
    """Whether a thread runs, by its folder in ``/proc``."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:  # it has ended
        return False


def timed(run: Repeated, calls: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a call, the mean of so many."""
    start = clock()
    run(calls)
    return (clock() - start) / calls


def _repeated(run: Callable[[], Any], calls: int) -> None:
    for _ in range(calls):
        run()


def interleaved(
    contestants: Mapping[str, Callable[[], Any]],
    rounds: int = 25,
    clock: Clock | None = None,
    seconds: float = float("inf"),
) -> dict[str, Sample]:
    """Time all contestants in turn, round after round, so that noise meets all of them alike.

    Args:
        contestants: name -> a function that does the work once.
        rounds: how often each is timed.
        clock: where the work is done; None: the host's.
        seconds: no further round begins after so long, but for the first :data:`FEW`.
    """
    clock = clock or HostClock()
    runs = {name: partial(_repeated, run) for name, run in contestants.items()}
    calls = {name: clock.calls(run) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    late = dict.fromkeys(runs, 0)
    begin = time.monotonic()
    for k, name in enumerate(in_turns(runs, rounds)):
        done = k // len(runs)
        if k % len(runs) == 0 and done >= FEW and time.monotonic() - begin > seconds:
            break
        took, came_late = clock.sample(runs[name], calls[name])
        times[name].append(took)
        late[name] += came_late
    return {n: Sample(tuple(times[n]), 2 * late[n] > len(times[n])) for n in runs}


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
