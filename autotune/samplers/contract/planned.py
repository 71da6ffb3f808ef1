"""Samplers that plan a batch of proposals at a time, from one fit of a model."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from whet.autotune.samplers.contract.base import SpaceSampler, point_of
from whet.autotune.samplers.contract.history import History, Point

BATCHES = ((64, 4), (256, 8), (1 << 62, 16))
"""Up to which trial how many proposals are planned at a time. A fit's time grows with the trials,
what one batch more teaches falls with them."""


@dataclass(frozen=True)
class Plan:
    """What to try next.

    Attributes:
        points: int64 of shape ``(n, knobs)``, in the order of trial; ``n`` may be less than the
            batch, what follows is random.
        gain: the expected relative improvement of the best cost by these trials; None: unknown.
    """

    points: np.ndarray
    gain: float | None = None


class PlannedSampler(SpaceSampler):
    """A plan is a function of the seed and of the history as it was at the batch's first trial.

    A resumed search therefore makes the same plan again in the middle of a batch, wherever it was
    stopped. A subclass writes :meth:`plan`.
    """

    _plan: Plan | None = None
    _planned_for: History | None = None
    _gain: float | None = None
    _gain_for: History | None = None

    @abstractmethod
    def plan(self, history: History, size: int) -> Plan:
        """Plan trials ``history.number`` to ``history.number + size - 1``."""

    def propose(self, history: History) -> Point:
        if (seed := self.seed_point(history)) is not None:
            return seed
        start, size = batch_of(history.number)
        points = self._planned(history, start, size).points
        # Its own place in the plan first: the others belong to the trials around it.
        untried = history.untried(np.roll(points, start - history.number, axis=0))
        return point_of(untried[0]) if len(untried) else self.fresh(history)

    def expected_gain(self, history: History) -> float | None:
        # Of the trials told, not of the plan in hand: what was in flight when that was made is not
        # known to a search that is resumed.
        start, size = batch_of(len(history.costs))
        last = self._gain_for
        if last is None or last.number != start or not history.follows(last):
            self._gain_for = history.settled(start)
            self._gain = self.plan(self._gain_for, size).gain
        return self._gain

    def _planned(self, history: History, start: int, size: int) -> Plan:
        """The plan of the batch from trial ``start`` on; made once, while the search goes on."""
        last = self._planned_for
        if self._plan is None or last is None or last.number != start or not history.follows(last):
            self._planned_for = history.before(start)
            self._plan = self.plan(self._planned_for, size)
        return self._plan


def batch_of(number: int) -> tuple[int, int]:
    """The first trial of the batch that trial ``number`` belongs to, and the batch's size."""
    begin = 0
    for end, size in BATCHES:
        if number < end:
            return number - (number - begin) % size, size
        begin = end
    raise ValueError(number)
