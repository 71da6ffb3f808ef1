"""The order of many tasks' trials: they share a budget by what each is expected to gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.autotune.search.goal import Goal

FIRST = 16
"""Trials that each task gets before gains are compared."""
PAST = 32
"""A task's recent progress is that of so many trials."""
HOPE = 0.5
"""A task's gain is never thought to be less than this share over its trials: samplers err."""


class Turns:
    """Gives turns of some trials each, so that a pool stays busy with one task's batch.

    The next turn goes where the weighted sum of the tasks' costs is expected to fall most, as
    Ansor's task scheduler does (Zheng et al., OSDI 2020, section 6): a task's weight times its best
    cost times its expected relative gain. The choice depends on observed costs, never on who
    finished first, nor on how many trials there will be: a search of more trials begins as one of
    fewer does. A turn is no longer than what the task has had, so that few trials are shared, too.

    Args:
        players: the tasks' searches.
        length: trials in a turn at most; it may be changed.
    """

    def __init__(self, players: Sequence[Goal], length: int) -> None:
        self._players = list(players)
        self.length = length
        self._now: Goal | None = None
        self._left = 0
        self._gains: dict[int, tuple[int, float | None]] = {}

    def next(self) -> Goal | None:
        """The task that gets the next trial; None: none can take one."""
        if self._now is None or not self._left or not self._now.is_open:
            self._now = self._choose()
            had = 0 if self._now is None else self._now.proposed
            self._left = min(self.length, max(1, had))
        self._left -= 1
        return self._now

    def _choose(self) -> Goal | None:
        left = [p for p in self._players if p.is_open]
        if len(left) < 2:
            return left[0] if left else None
        new = [p for p in left if p.proposed < FIRST]
        if new:
            return min(new, key=lambda p: p.proposed)
        return max(left, key=self._worth)

    def _worth(self, player: Goal) -> float:
        if not player.bests or not math.isfinite(player.bests[-1]):
            return 0.0  # nothing of it has worked yet
        return player.weight * player.bests[-1] * self._gain(player)

    def _gain(self, player: Goal) -> float:
        # The sampler's opinion is asked once for each state of the search.
        number, expected = self._gains.get(id(player), (-1, None))
        if number != player.proposed:
            expected = player.expected_gain()
            self._gains[id(player)] = player.proposed, expected
        recent = progress(player.bests)
        gain = recent if expected is None else (recent + expected) / 2
        return max(gain, HOPE / player.proposed)


def progress(bests: Sequence[float]) -> float:
    """By how much the best cost has fallen in the latest trials, relative to what it was.

    Args:
        bests: the best cost after each trial; infinity before the first success.
    """
    before = bests[-min(PAST, len(bests))]
    if not math.isfinite(before):
        return 1.0
    return 1.0 - bests[-1] / before
