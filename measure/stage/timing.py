"""The number of calls and repeats of a kernel until its time is known."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whet.measure.values import Json, MeasureOptions

SHORTEST = 0.5e-3  # seconds: a shorter timing says little about a kernel's speed
COLD = 0.02  # seconds: what a first call may take for page faults alone
SURE = 3.0  # a kernel is behind the best if the distance is this many times its own spread


@dataclass(frozen=True)
class Timing:
    """The repeats of one kernel.

    Attributes:
        costs: seconds per call, one a repeat.
        number: calls in each repeat.
        stopped: why no more repeats were made: ``"spread"``, ``"repeats"``, ``"time"``,
            ``"slow"`` (far behind the best so far: a first figure is enough) or ``"behind"``
            (behind it by more than the spread of its own timings).
    """

    costs: tuple[float, ...]
    number: int
    stopped: str


def time_kernel(
    timed: Callable[[int], float],
    first: float,
    options: MeasureOptions,
    best_cost: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Repeat until the spread is known, the time is up, or the kernel is clearly slow.

    Args:
        timed: calls the kernel that many times and returns seconds per call.
        first: seconds of a first, cold call that was already made.
        options: how many repeats, how long, how alike.
        best_cost: seconds per call of the best kernel so far; None: no early end.
        clock: seconds; replaced in tests.
    """
    start = clock()
    slow = options.slow_factor * best_cost if best_cost else math.inf
    if first > slow and first >= max(COLD, options.min_repeat_ms * 1e-3):
        return Timing((first,), 1, "slow")  # even a warm-up would cost more than it tells
    calls, cost = _warm_up(timed, options)
    if cost > slow:
        return Timing((cost,), calls, "slow")
    number = options.number or max(1, math.ceil(options.min_repeat_ms * 1e-3 / cost))
    costs = [cost] if number == calls else []
    # What it is compared with: the warm-up, or where that is the first repeat, the cold call.
    before = first if number == calls else cost
    while True:
        apart = spread(costs)
        enough = len(costs) >= options.min_repeats
        if costs and is_behind([before, *costs], options, best_cost):
            stopped = "behind"
        elif enough and apart is not None and apart <= options.spread:
            stopped = "spread"
        elif len(costs) >= options.repeat or (enough and apart is None):
            stopped = "repeats"
        elif costs and clock() - start + number * cost > options.max_measure_s:
            stopped = "time"
        else:
            costs.append(timed(number))
            continue
        return Timing(tuple(costs), number, stopped)


def is_behind(timings: list[float], options: MeasureOptions, best_cost: float | None) -> bool:
    """True if a kernel is slower than the best by more than the spread of its own timings.

    Args:
        timings: at least two of the same kernel, the warm-up's among them: one alone does not
            show how much they differ.
        options: ``behind`` is the least distance.
        best_cost: seconds per call of the best kernel so far; None: nothing is behind.
    """
    if best_cost is None or len(timings) < 2:
        return False
    fastest, slowest = min(timings), max(timings)
    apart = math.log(fastest / best_cost)
    return apart > max(math.log(options.behind), SURE * math.log(slowest / fastest))


def spread(costs: Sequence[float]) -> float | None:
    """Interquartile range over median; None for a single figure, which says nothing of it."""
    if len(costs) < 2:
        return None
    from statistics import quantiles  # which takes a while to load

    low, middle, high = quantiles(costs, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


def repeat_facts(costs: Sequence[float]) -> Json:
    """The facts of repeats for a log: their number and spread, null where there is only one."""
    known = spread(costs)
    return {"repeats": len(costs), "spread": None if known is None else round(known, 5)}


def _warm_up(timed: Callable[[int], float], options: MeasureOptions) -> tuple[int, float]:
    """Call until one timing is long enough to be believed: its number of calls, and the cost."""
    calls = 1
    while True:
        cost = max(timed(calls), 1e-10)
        if calls * cost >= SHORTEST:
            return calls, cost
        calls = min(16 * calls, max(calls + 1, math.ceil(2 * SHORTEST / cost)))
