"""The last measurement: the best candidates and the default, interleaved: noise crowns nobody."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from whet.autotune.results.trial import Trial
from whet.autotune.search.loop import plausible
from whet.db.values.decision import median_interval
from whet.measure.values import is_time

if TYPE_CHECKING:
    from whet.measure import Pool
    from whet.measure.values import MeasureInput
    from whet.search_spaces import Config

FINALISTS = 4
"""How many of the fastest candidates are measured again, beside the default."""
KEPT = 64
"""Fastest trials that a search keeps of the programs that it measures, at least."""
ENOUGH = 2 * FINALISTS
"""Fastest programs that are looked for among recorded trials."""
FEWEST, MOST = 6, 30
"""Rounds of the last measurement; six are the fewest that an interval can be told from."""
SOONEST = 3
"""Rounds after which a candidate may be dropped."""
SECONDS = 10.0
"""Time for the last measurement; slow candidates that are close to each other make it longer."""
SHORTEST = 0.08
"""Seconds that one turn takes at least, loading and checking included."""


def finalists(trials: Iterable[Trial], default: Config) -> list[Trial]:
    """The trials to measure again: the default first, then the fastest of different programs."""
    ok = sorted((t for t in trials if t.result.ok), key=lambda t: (t.cost, t.number))
    chosen = [t for t in ok if t.config.key == default.key][:1]
    programs = {t.result.program_hash for t in chosen if t.result.program_hash}
    room = FINALISTS + len(chosen)
    for trial in ok:
        if len(chosen) == room:
            break
        if trial.config.key == default.key or trial.result.program_hash in programs:
            continue
        if trial.result.program_hash:
            programs.add(trial.result.program_hash)
        chosen.append(trial)
    return chosen


class Leaders:
    """The fastest trials of different programs so far: any of them may become a finalist.

    A program's later trials have the costs of its first, whose result they take.
    """

    def __init__(self) -> None:
        self._of: dict[str, Trial] = {}  # by program, or by config where its program is not known

    def __iter__(self) -> Iterator[Trial]:
        return iter(sorted(self._of.values(), key=_order))

    def __len__(self) -> int:
        return len(self._of)

    @property
    def best(self) -> Trial | None:
        """The fastest of all; None before the first success."""
        return min(self._of.values(), key=_order, default=None)

    def add(self, trial: Trial) -> None:
        """Take note of a trial; failures are passed over."""
        if not trial.result.ok:
            return
        key = trial.result.program_hash or trial.config.key
        known = self._of.get(key)
        if known is None or _order(trial) < _order(known):
            self._of[key] = trial
        if len(self._of) > 2 * KEPT:
            self._of = {t.result.program_hash or t.config.key: t for t in list(self)[:KEPT]}


def _order(trial: Trial) -> tuple[float, int]:
    return trial.cost, trial.number


def leaders_of(fastest: Iterable[Trial]) -> Leaders:
    """The leaders among recorded trials.

    Args:
        fastest: the fastest first; as many are looked at as it takes.
    """
    leaders = Leaders()
    for trial in fastest:
        leaders.add(trial)
        if len(leaders) >= ENOUGH:
            break
    return leaders


def numbered(chosen: list[Trial]) -> list[Trial]:
    """The chosen trials, each under a number of its own; those that were searched keep theirs.

    A trial of the full space, measured again by a search of its quick part, has the number of
    another search, which one of this search may have as well.
    """
    taken: set[int] = set()
    free = 1 + max((trial.number for trial in chosen), default=0)
    renumbered = []
    for trial in chosen:
        if trial.number in taken:
            trial = replace(trial, number=free)
            free += 1
        taken.add(trial.number)
        renumbered.append(trial)
    return renumbered


def measure_again(
    chosen: list[Trial],
    pool: Pool,
    make_input: Callable[[Config], MeasureInput],
    seconds: float = SECONDS,
) -> list[Trial]:
    """The chosen trials with the results of an interleaved measurement.

    Args:
        chosen: the default first, if it worked.
        pool: who measures.
        make_input: a candidate's measurement.
        seconds: time for it.
    """
    inputs = [make_input(trial.config) for trial in chosen]
    results = pool.remeasure(inputs, Rounding(len(chosen), seconds))
    measured = zip(chosen, map(plausible, results), strict=True)
    return [replace(trial, result=result) for trial, result in measured]


class Rounding:
    """Says who is measured in each round: those that may still be the fastest.

    Who is behind the leader beyond the noise is left out, and its time goes to rounds of those
    that are close. The default is kept for enough rounds to tell its distance with confidence.

    A turn takes what the clock says, not only what its cost says: sending, loading, checking, the
    calls of which a cost is the mean.

    Args:
        count: how many are measured; the first of them is the default.
        seconds: time for all rounds, from the first call on.
        clock: tells seconds.
    """

    def __init__(
        self, count: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._left = list(range(count))
        self._seconds = seconds
        self._round = 0
        self._clock = clock
        self._calls: list[float] = []  # when each round so far began
        self._turns = 0  # of the last round

    def __call__(self, costs: list[list[float]]) -> list[int]:
        self._calls = [*self._calls, self._clock()]
        if self._round:
            # A failure has no cost to show for its round, or one that is no time.
            self._left = [
                i for i in self._left if len(costs[i]) == self._round and is_time(costs[i][-1])
            ]
            self._drop(costs)
        if self._is_over(costs):
            return []
        self._round += 1
        self._turns = len(self._left)
        return list(self._left)

    def _drop(self, costs: list[list[float]]) -> None:
        if self._round < SOONEST or len(self._left) < 2:
            return
        lead = min(self._left, key=lambda i: sorted(costs[i])[(self._round - 1) // 2])
        self._left = [
            i
            for i in self._left
            if i == lead
            or (i == 0 and self._round < FEWEST and sum(costs[0]) < self._seconds)
            or not is_behind(costs[i], costs[lead])
        ]

    def _is_over(self, costs: list[list[float]]) -> bool:
        if not self._left or self._round >= MOST:
            return True
        if self._round < FEWEST:
            return False
        if len(self._left) == 1:
            return True
        spent = sum(max(cost, SHORTEST) for own in costs for cost in own if is_time(cost))
        another = sum(max(costs[i][-1], SHORTEST) for i in self._left)
        first, last, now = self._calls[0], self._calls[-2], self._calls[-1]
        by_clock = now - first + (now - last) / self._turns * len(self._left)
        return max(spent + another, by_clock) > self._seconds


def is_behind(own: list[float], leader: list[float]) -> bool:
    """True if a candidate is slower than another beyond the noise of their common rounds."""
    apart = [math.log(a / b) for a, b in zip(own, leader)]
    interval = median_interval(apart)
    if interval is not None:
        return interval[0] > 0
    # Too few for an interval: behind each time, and by more than the times differ.
    return min(apart) > max(apart) - min(apart) and min(apart) > 0
