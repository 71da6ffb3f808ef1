"""Why a search may end before its trials: nothing to gain, enough gained, or nothing works."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whet.autotune.results.failures import grouped, last_line
from whet.autotune.results.result import pruned_words
from whet.compiler.errors import MeasureError
from whet.measure.stage.timing import spread
from whet.measure.values import OK, MeasureResult
from whet.search_spaces.values.counted import counted, duration

EARLIEST = 32
"""Trials before a search may end for want of an expected gain."""
EVERY, PATIENCE = 8, 2
"""Trials between two looks at the expected gain, and looks in a row that must find too little."""
LEAST_NOISE = 0.005
"""Relative noise that any measurement has: the best and a rival that near are the same."""
LATEST = 64
"""The noise is that of so many latest successes."""
HOPELESS, ALL_PRUNED = 50, 500
"""Failures, and pruned candidates, with no success at all before a search gives up: what is pruned
costs little, and says that the space is larger than the target, not that anything is broken."""
TIMEOUT = "timeout"
"""How the reason begins where the time was up, which says nothing about the search."""
FAILED_ONCE = MeasureResult("run_error")
"""A failure, of which nothing else counts."""


@dataclass(frozen=True)
class Limits:
    """The reasons of a call of tune to end early.

    Attributes:
        timeout: seconds of the whole call; None: no limit.
        target_cost: seconds per call that are fast enough; None: nothing is.
        early_stop: True: end when the expected gain is below the noise; a number: when so many
            trials brought no improvement; False: never for these.
    """

    timeout: float | None = None
    target_cost: float | None = None
    early_stop: bool | int = False


class Ending:
    """Watches one task's results in the order of its trials, and says when it may end.

    The reason depends on costs only, so that a resumed search ends where the first one did.

    Args:
        limits: the reasons that count.
        expected_gain: asked for the relative improvement that the next trials promise.
    """

    def __init__(self, limits: Limits, expected_gain: Callable[[], float | None]) -> None:
        self.limits = limits
        self._expected_gain = expected_gain
        self._best = float("inf")
        self._observed = self._improved = self._in_vain = 0
        self._spreads: list[float] = []

    def observe(self, result: MeasureResult) -> str:
        """Take the next result; returns why the search ends here, or ""."""
        self._observed += 1
        if result.ok:
            if result.cost < self._best:
                self._best, self._improved = result.cost, self._observed
            if len(result.costs) >= 3:
                self._spreads.append(noise_of(result.costs))
                del self._spreads[:-LATEST]
        target = self.limits.target_cost
        if target is not None and self._best <= target:
            return f"target cost: {duration(self._best)} is within {duration(target)}"
        if self.limits.early_stop is True:
            return self._gain()
        vain = self._observed - self._improved
        if self.limits.early_stop and vain >= self.limits.early_stop and self._best < float("inf"):
            return f"no improvement in {counted(vain, 'trial')}"
        return ""

    def resume(self, costs: np.ndarray) -> str:
        """Take the results of a search that goes on at once; returns why it ended there, or "".

        Not where the expected gain may end it, which is asked for along the way.

        Args:
            costs: in the order in which they were told, infinity for failures.
        """
        bests = np.minimum.accumulate(costs)
        places = np.arange(1, len(costs) + 1)
        falls = bests < np.concatenate([[np.inf], bests[:-1]])
        improved = np.maximum.accumulate(np.where(falls, places, 0))
        ends = np.zeros(len(costs), dtype=bool)
        if (target := self.limits.target_cost) is not None:
            ends |= bests <= target
        if self.limits.early_stop:
            ends |= (places - improved >= self.limits.early_stop) & np.isfinite(bests)
        end = int(np.argmax(ends)) if ends.any() else len(costs)
        # Up to the one that ends it, which says why.
        if end:
            self._best, self._improved = float(bests[end - 1]), int(improved[end - 1])
        self._observed = end
        if end == len(costs):
            return ""
        cost = float(costs[end])
        return self.observe(MeasureResult(OK, (cost,)) if math.isfinite(cost) else FAILED_ONCE)

    @property
    def noise(self) -> float:
        """The relative noise of a cost, from the repeats of the latest successes."""
        return max(statistics.median(self._spreads or [0.0]), LEAST_NOISE)

    def _gain(self) -> str:
        if self._observed < EARLIEST or self._observed % EVERY or self._best == float("inf"):
            return ""
        gain = self._expected_gain()
        self._in_vain = self._in_vain + 1 if gain is not None and gain < self.noise else 0
        if self._in_vain < PATIENCE:
            return ""
        return f"expected gain {gain:.2%} is below the noise of a measurement, {self.noise:.2%}"


def noise_of(costs: tuple[float, ...]) -> float:
    """The relative standard error of a median of repeats.

    An interquartile range is 1.35 standard deviations, and a median's error 1.25 times a mean's.
    """
    return 1.25 / 1.35 * (spread(costs) or 0.0) / len(costs) ** 0.5


class Failing:
    """Counts failures until something works.

    Attributes:
        over: something has worked.
    """

    def __init__(self) -> None:
        self.over = False
        self._failures: list[MeasureResult] = []

    def count(self, result: MeasureResult) -> MeasureError | None:
        """Count a result; returns the error that ends the search, where nothing at all works."""
        self.over |= result.ok
        if self.over:
            self._failures = []
            return None
        self._failures.append(result)
        pruned = sum(one.pruned for one in self._failures)
        if len(self._failures) - pruned < HOPELESS and pruned < ALL_PRUNED:
            return None
        return nothing_works(self._failures)


def _all_failed(failures: list[MeasureResult], commonest: int, status: str) -> str:
    pruned = sum(one.pruned for one in failures)
    failed = len(failures) - pruned
    if not failed:
        which = "the only candidate was" if pruned == 1 else f"all {pruned} candidates were"
        why = pruned_words(failures)
        return f"{which} pruned: the target has no room for them" + (f" ({why})" if why else "")
    apart = f", and {pruned} were pruned" if pruned else ""
    if failed == 1:
        return f"the only candidate failed with {status}" + apart.replace("were", "besides were")
    return f"all {failed} candidates failed, {commonest} of them with {status}{apart}"


def nothing_works(failures: list[MeasureResult]) -> MeasureError:
    """The error of a search in which no candidate worked; quotes the commonest failure."""
    if not failures:
        return MeasureError(
            "tune", "no trial of this task came to an end", "give it more trials, or more time"
        )
    broken = [failure for failure in failures if not failure.pruned]
    commonest = grouped(broken or failures, lambda one: (one.status, last_line(one.error)))[0]
    quoted = commonest[0]
    return MeasureError(
        "tune",
        _all_failed(failures, len(commonest), quoted.status),
        quoted.error.strip() or f"(no text; it ended in stage {quoted.stage!r})",
    )
