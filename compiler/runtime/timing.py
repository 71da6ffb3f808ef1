"""Timing a kernel: TVM's time_evaluator and its result."""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays.ndarray import as_numpy

GOLDEN_RATIO = 1.618


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds per call.

    Attributes:
        results: one mean for each repeat.
    """

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the repeats in seconds."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Median of the repeats in seconds."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """The quickest repeat in seconds."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest repeat in seconds."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation of the repeats in seconds."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{name + ' (ms)':>14}" for name in names)
        body = "".join(f"{getattr(self, name) * 1e3:14.4f}" for name in names)
        return f"Execution time summary:\n{head}\n{body}"


@functools.cache
def _flushing_bytes() -> np.ndarray:
    """Twice as many bytes as the largest cache holds."""
    from whet.compiler.target.machine import host

    # Written from the start: memory that was only asked for is one page of zeros, many times.
    return np.full(2 * max([*host.caches().values(), 1 << 20]), 1, np.uint8)


def flush_cache_but_first(args: tuple[object, ...]) -> None:
    """Push every argument but the first one out of the caches."""
    flushing = _flushing_bytes()
    np.add(flushing, 1, out=flushing)
    first = as_numpy(args[0]) if args else None
    if first is not None:
        np.ascontiguousarray(first).reshape(-1).view(np.uint8).sum()


# TVM's names of what may run before each repeat.
PREPARATIONS: dict[str, Callable[[tuple[object, ...]], None]] = {
    "cache_flush_cpu_non_first_arg": flush_cache_but_first,
}


def preparation(f_preproc: str | Callable) -> Callable[[tuple[object, ...]], None] | None:
    """The function that ``f_preproc`` names, of the arguments; None for an empty name.

    Raises:
        ArgumentError: the name is not in the table.
    """
    if callable(f_preproc):
        return f_preproc
    if not f_preproc:
        return None
    if not isinstance(f_preproc, str) or f_preproc not in PREPARATIONS:
        raise ArgumentError(
            f"time_evaluator(f_preproc={f_preproc!r})",
            "there is no such preparation",
            f"known: {', '.join(PREPARATIONS)}",
        )
    return PREPARATIONS[f_preproc]


def check_counts(least: int = 1, **counts: object) -> None:
    """Refuse counts that are no integers or too small, by their names.

    Raises:
        ArgumentError: one of ``counts`` is no integer, or below ``least``.
    """
    for name, value in counts.items():
        request = f"time_evaluator({name}={value!r})"
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ArgumentError(request, "it must be an integer")
        if value < least:
            raise ArgumentError(request, f"it must be at least {least}")


def check_times(**times: object) -> None:
    """Refuse what is no time in milliseconds, by its name.

    Raises:
        ArgumentError: one of ``times`` is no number, negative or not finite.
    """
    for name, value in times.items():
        request = f"time_evaluator({name}={value!r})"
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise ArgumentError(request, "it must be a number of milliseconds")
        if not 0 <= value < math.inf:
            raise ArgumentError(request, "it must be finite and 0 or more")


def measure(
    run: Callable[[int], object],
    *,
    number: int,
    repeat: int,
    min_repeat_ms: float,
    limit_zero_time_iterations: int,
    cooldown_interval_ms: float,
    repeats_to_cooldown: int,
    prepare: Callable[[], None] | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
    timer: Callable[[int], int] | None = None,
) -> BenchmarkResult:
    """Time ``run`` by TVM's rule (WrapTimeEvaluator of TVM 0.11).

    Args:
        run: calls the kernel as often as it is told.
        number: calls in one repeat; it grows until a repeat takes ``min_repeat_ms``.
        repeat: how many times are taken.
        min_repeat_ms: shorter attempts are thrown away.
        limit_zero_time_iterations: attempts that may take no measurable time at all.
        cooldown_interval_ms: pause after each ``repeats_to_cooldown``-th repeat.
        repeats_to_cooldown: see there.
        prepare: called before each repeat, outside the time.
        clock: nanoseconds.
        timer: calls the kernel as often as it is told, as ``run`` does, and says how many
            nanoseconds that took; by default those of ``clock``.
    """

    def by_clock(number: int) -> int:
        start = clock()
        run(number)
        return clock() - start

    spend = timer or by_clock
    run(1)  # a first call may pay for pages and caches
    results: list[float] = []
    for i in range(repeat):
        if prepare is not None:
            prepare()
        duration_ms, zeros = 0.0, 0
        while True:
            if duration_ms > 0:
                number = int(max(min_repeat_ms / (duration_ms / number) + 1, number * GOLDEN_RATIO))
            spent = spend(number)
            zeros += spent == 0
            duration_ms = spent / 1e6
            if duration_ms >= min_repeat_ms or zeros >= limit_zero_time_iterations:
                break
        results.append(duration_ms / 1e3 / number)
        if cooldown_interval_ms > 0 and i % repeats_to_cooldown == 0:
            time.sleep(cooldown_interval_ms / 1e3)
    return BenchmarkResult(tuple(results))
