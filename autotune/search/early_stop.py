"""Why a search may end before its number of trials: nothing to gain, or enough gained."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.measure.stage.timing import spread
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    from whet.measure.values import MeasureResult

EARLIEST = 32
"""Trials before a search may end for want of an expected gain."""
EVERY, PATIENCE = 8, 2
"""Trials between two looks at the expected gain, and looks in a row that must find too little."""
LEAST_NOISE = 0.005
"""Relative noise that any measurement has: the best and a rival that near are the same."""
LATEST = 64
"""The noise is that of so many latest successes."""
TIMEOUT = "timeout"
"""How the reason begins where the time was up, which says nothing about the search."""


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
