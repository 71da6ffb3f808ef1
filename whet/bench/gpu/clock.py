"""Timing on a device, in turns: by its own clock, the L2 cache flushed before each call."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.bench.turns import Sample, in_turns
from whet.measure.gpu.events import DeviceClock, Timed

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver.interface import Context

CALLS = 20
"""Calls of one sample at most."""


@dataclass(frozen=True)
class Turns:
    """Times of contestants.

    Attributes:
        samples: contestant -> seconds of a call on the device, the median of each round's calls.
        late: contestants that the host was too slow for: their times hold the host's, too.
    """

    samples: dict[str, Sample]
    late: tuple[str, ...]


class Clock:
    """Times contestants in turns.

    Args:
        context: the device's.
        flush: whether the L2 cache is emptied before each call. Otherwise it holds what the call
            before it left, and the calls of a sample follow each other without a gap.
    """

    def __init__(self, context: Context, flush: bool = True) -> None:
        self._context = context
        self._clock = DeviceClock(context, flush)

    def close(self) -> None:
        """Give the flushed memory back."""
        self._clock.close()

    def interleaved(
        self,
        contestants: Mapping[str, Callable[[], Any]],
        rounds: int = 15,
        seconds: float = 0.005,
    ) -> Turns:
        """Time all contestants in turn, round after round, so that noise meets all of them alike.

        Args:
            contestants: name -> a function that puts the work into the default stream once.
            rounds: how often each is timed.
            seconds: of calls in a sample, about: short work is done several times in it.
        """
        number = {name: self._number(run, seconds) for name, run in contestants.items()}
        found: dict[str, list[float]] = {name: [] for name in contestants}
        late: dict[str, int] = dict.fromkeys(contestants, 0)
        for name in in_turns(contestants, rounds):
            timed = self._timed(contestants[name], number[name])
            found[name].append(statistics.median(timed.seconds))
            late[name] += not timed.ahead
        return Turns(
            {name: Sample(tuple(costs)) for name, costs in found.items()},
            tuple(name for name in contestants if 2 * late[name] > rounds),
        )

    def _number(self, run: Callable[[], Any], seconds: float) -> int:
        """How many calls a sample has; the calls that find it out warm everything up."""
        for _ in range(2):
            run()
        self._context.synchronize()
        once = min(self._timed(run, 1).seconds[0] for _ in range(3))
        return min(max(int(seconds / max(once, 1e-7)), 1), CALLS)

    def _timed(self, run: Callable[[], Any], number: int) -> Timed:
        def queue(times: int) -> None:
            for _ in range(times):
                run()

        return self._clock.timed(queue, number)
