"""Samplers that plan a batch of proposals at a time, from one fit of a model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whet.autotune.samplers.contract.base import SpaceSampler, point_of
from whet.autotune.samplers.contract.history import History, Point

STALE = 4
"""A batch ends after so many times its size of trials, whoever proposed them: a search of its own
proposes all of them, one of many on a log a part."""
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
    _begun: tuple[int, History | None] = 0, None  # the batch that was found last, and when

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
        points = self._planned(history, History.before, history.number).points
        # Its own place in the plan first: the others belong to the trials around it.
        first = self._first_of(history, history.number)
        untried = history.untried(np.roll(points, -own_between(history, first, history.number), 0))
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
        start = self._first_of(history, number)
        size = batch_of(start, self.batches)[1]
        last, plan = self._plans.get(view, (None, None))
        if plan is None or last is None or last.number != start or not history.follows(last):
            last = view(history, start)
            plan = self.plan(last, size)
            self._plans[view] = last, plan
        return plan

    def _first_of(self, history: History, number: int) -> int:
        """As :func:`first_of`, from the batch on that was found last: batches do not change."""
        start, before = self._begun
        if number < start or not history.follows(before):
            start = 0
        start = first_of(history, number, self.batches, start)
        self._begun = start, history
        return start


def batch_of(number: int, batches: tuple[tuple[int, int], ...] = BATCHES) -> tuple[int, int]:
    """The first trial of the batch that trial ``number`` belongs to, and the batch's size."""
    begin = 0
    for end, size in batches:
        if number < end:
            return number - (number - begin) % size, size
        begin = end
    raise ValueError(number)


def first_of(
    history: History,
    number: int,
    batches: tuple[tuple[int, int], ...] = BATCHES,
    known: int = 0,
) -> int:
    """The first trial of the batch that trial ``number`` belongs to.

    A batch ends once so many trials were proposed here as were planned: those of other searches on
    the log, which have numbers here, too, do not use the plan up.

    Args:
        history: of the search.
        number: the trial's.
        batches: as of :class:`Planned`.
        known: the first trial of an earlier batch, or of this one; 0: none is known.
    """
    elsewhere = history.elsewhere
    if not len(elsewhere) or number <= elsewhere[0]:
        return batch_of(number, batches)[0]
    start = max(known, batch_of(int(elsewhere[0]), batches)[0])
    owns = elsewhere - np.arange(len(elsewhere))  # trials proposed here before each of them
    while True:
        size = batch_of(start, batches)[1]
        own = start - int(np.searchsorted(elsewhere, start)) + size
        after = own + int(np.searchsorted(owns, own, side="right"))
        after = min(after, start + STALE * size)
        if after > number:
            return start
        start = after


def own_between(history: History, first: int, number: int) -> int:
    """How many trials from ``first`` on, before ``number``, were proposed here."""
    begin, end = np.searchsorted(history.elsewhere, (first, number))
    return number - first - int(end - begin)
