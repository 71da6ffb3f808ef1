"""Samplers that plan a batch of proposals at a time, from one fit of a model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whet.autotune.samplers.contract.base import SpaceSampler, point_of
from whet.autotune.samplers.contract.history import History, Point

BATCHES = ((64, 4), (256, 8), (1 << 62, 16))
"""Up to which trial how many proposals are planned at a time. A fit's time grows with the trials,
what one batch more teaches falls with them."""


@dataclass(frozen=True)
class Plan:
    """The proposals of a batch.

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

    Attributes:
        batches: up to which trial how many proposals are planned at a time.
    """

    batches: tuple[tuple[int, int], ...] = BATCHES

    @cached_property
    def _plans(self) -> dict[Callable[[History, int], History], tuple[History, Plan]]:
        """The last plan of each view of a history, with that view."""
        return {}

    @abstractmethod
    def plan(self, history: History, size: int) -> Plan:
        """Plan trials ``history.number`` to ``history.number + size - 1``."""

    def propose(self, history: History) -> Point:
        if (seed := self.seed_point(history)) is not None:
            return seed
        start, _ = batch_of(history.number, self.batches)
        points = self._planned(history, History.before, history.number).points
        # Its own place in the plan first: the others belong to the trials around it.
        untried = history.untried(np.roll(points, start - history.number, axis=0))
        return point_of(untried[0]) if len(untried) else self.fresh(history)

    def expected_gain(self, history: History) -> float | None:
        # Of the trials observed, not of the plan in hand: what was in flight when that was made is
        # not known to a search that is resumed.
        return self._planned(history, History.settled, len(history.costs)).gain

    def _planned(
        self, history: History, view: Callable[[History, int], History], number: int
    ) -> Plan:
        """The plan of the batch of a trial; made once, while the search goes on.

        Args:
            history: of the search now.
            view: makes the history that the plan is for, as of the batch's first trial.
            number: of the trial.
        """
        start, size = batch_of(number, self.batches)
        last, plan = self._plans.get(view, (None, None))
        if plan is None or last is None or last.number != start or not history.follows(last):
            last = view(history, start)
            plan = self.plan(last, size)
            self._plans[view] = last, plan
        return plan


def batch_of(number: int, batches: tuple[tuple[int, int], ...] = BATCHES) -> tuple[int, int]:
    """The first trial of the batch that trial ``number`` belongs to, and the batch's size."""
    begin = 0
    for end, size in batches:
        if number < end:
            return number - (number - begin) % size, size
        begin = end
    raise ValueError(number)
