"""The order of telling: whose turn it is, how many trials may wait, who is late and set aside."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.autotune.search.goal import Goal
    from whet.db.values.records import Told
    from whet.measure import Pool
    from whet.measure.values import MeasureResult

WINDOWS = tuple(4 << i for i in range(13))
"""Sizes of windows."""
FEW, A_DEVICE = 16, 4
"""The window of a pool that is not short of devices, at most; and for each device of another."""
BEYOND = 8
"""Windows of trials in the order at most, where some of them are measured by other searches."""
LATE, FLOOR = 3.0, 5.0
"""A trial is late that has run for so many medians of the others, and for so many seconds."""
LASTED, LEAST = 64, 4
"""Trials whose times count for the median: the latest ones, and how many there have to be while
others are under way."""


def window_of(capacity: int, devices: int | None = None) -> int:
    """Trials that are proposed before the first of them is observed: a power of two, 4 to 16,384.

    Few sizes, so that pools of similar size give one seed the same search. Samplers get worse when
    they learn late, so that it is no larger than the devices need to be kept busy: builders alone
    make it no larger than :data:`FEW`.

    Args:
        capacity: candidates that the pool keeps in flight.
        devices: that measure; None: not known, and as many as such a pool may have.
    """
    wanted = capacity if devices is None else max(min(capacity, FEW), A_DEVICE * devices)
    wanted = min(wanted, capacity)
    return next((window for window in WINDOWS if wanted <= window), WINDOWS[-1])


def window_for(pool: Pool) -> int:
    """The window of a search on a pool as it is now."""
    devices: dict[str, int] = getattr(pool, "devices", {})
    return window_of(pool.capacity, sum(devices.values()) or None)


@dataclass(eq=False)
class Turn:
    """A trial in the order of telling.

    Attributes:
        goal: whose.
        number: the trial's.
        name: as the log says what was told; None: it has none there.
        own: it is measured here, or was recorded by an earlier search.
        result: of it; None while it is not there.
        known: results that its task was told of when it was proposed.
        after: those of them that were told before the recorded trial before it, whose record says
            them.
        told: those of them that came since the proposal before.
        since: ``time.monotonic()`` when it went to be measured.
    """

    goal: Goal
    number: int
    name: int | str | None
    own: bool = True
    result: MeasureResult | None = None
    known: int = 0
    after: int = 0
    told: Told = ()
    since: float = field(default_factory=time.monotonic)


class Order:
    """The trials that were proposed and not told yet.

    They are told in the order in which they were proposed. One that holds all others up for too
    long is set aside: it has no place in the window any more, and is told when it comes.

    Args:
        window: as of :func:`window_of`; it may grow.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self._turns: deque[Turn] = deque()
        self._aside: list[Turn] = []
        self._lasted: deque[float] = deque(maxlen=LASTED)

    def add(self, turn: Turn) -> None:
        """Append a trial that was proposed."""
        self._turns.append(turn)

    def lasted(self, turn: Turn) -> None:
        """Note how long a trial took from its submission to its result."""
        self._lasted.append(time.monotonic() - turn.since)

    def is_full(self, elsewhere: bool) -> bool:
        """True if nothing can be proposed before something is told.

        Args:
            elsewhere: others' configs are waited for; they shall keep nobody idle.
        """
        if len(self._turns) < self.window or sum(t.own for t in self._turns) < self.window:
            return False
        return not elsewhere or len(self._turns) >= BEYOND * self.window

    def next(self) -> Turn | None:
        """The trial to tell now, taken out: one that was late, else the first if it is there."""
        for turn in self._aside:
            if turn.result is not None:
                self._aside.remove(turn)
                return turn
        return self._turns.popleft() if self._turns and self._turns[0].result is not None else None

    def next_of_others(self) -> Turn | None:
        """As :meth:`next`, where the first trial is another search's."""
        mine = not self._turns or self._turns[0].own
        return None if mine and not any(turn.result for turn in self._aside) else self.next()

    def set_aside(self) -> bool:
        """Set those aside that are late; True if there were any."""
        usual = median(self._lasted) if self._lasted else 0.0
        before = time.monotonic() - max(FLOOR, LATE * usual)
        away = [turn for turn in self._turns if turn.result is None]
        late = [turn for turn in away if turn.since < before]
        none_waits = len(away) == len(self._turns)
        if len(self._lasted) < LEAST and (len(late) < len(away) or none_waits):
            return False  # who else runs will tell what is usual
        self._leave(late)
        return bool(late)

    def next_as(self, told: Iterable[int], elsewhere: bool) -> list[Turn]:
        """The trials to tell before a recorded one is placed, taken out.

        Who was passed over by then was late, as is who would have held it up.

        Args:
            told: numbers of the trials that its proposer was told of.
            elsewhere: as of :meth:`is_full`.
        """
        found: list[Turn] = []
        for number in told:
            turns = [*self._turns, *self._aside]
            turn = next((one for one in turns if one.number == number), None)
            if turn is None or turn.result is None:
                continue
            found.append(turn)
            if turn in self._aside:
                self._aside.remove(turn)
                continue
            place = self._turns.index(turn)
            passed = [self._turns[at] for at in range(place) if self._turns[at].own]
            self._turns.remove(turn)
            self._leave(passed)
        while self._turns and self._turns[0].result is None and self.is_full(elsewhere):
            self._leave([self._turns[0]])
        return found

    def _leave(self, late: Iterable[Turn]) -> None:
        for turn in late:
            self._turns.remove(turn)
            self._aside.append(turn)
