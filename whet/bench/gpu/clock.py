"""Timing on a device, in turns: events around each call, the L2 cache flushed before it.

Before each call the device is given work that pushes everything out of its L2 cache. It takes
longer than the host needs to put a call into the stream, so that the host stays ahead and its time
is in no sample; where that failed, it is said.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.bench.turns import Sample

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver import Context, Event

CALLS = 20
"""Calls of one sample at most."""
FLUSHES = 4
"""The flushed bytes are at least so many times the L2 cache: it keeps what it likes."""
FLUSHED = 512 << 20
"""Bytes that are flushed at least on a device that has the memory: some 120 us of an H200."""


@dataclass(frozen=True)
class Turns:
    """What was timed.

    Attributes:
        samples: contestant -> seconds of a call on the device, the median of each round's calls.
        late: contestants that the host was too slow for: their times hold the host's, too.
    """

    samples: dict[str, Sample]
    late: tuple[str, ...]


class Clock:
    """Times calls that put work into a device's default stream.

    Args:
        context: the device's.
        flush: whether the L2 cache is emptied before each call. Otherwise it holds what the call
            before it left, and the calls of a sample follow each other without a gap.
    """

    def __init__(self, context: Context, flush: bool = True) -> None:
        self.context, self.flush = context, flush
        l2, (free, _) = context.properties.l2_bytes, context.memory()
        self._nbytes = min(max(FLUSHES * l2, FLUSHED), free // 8)
        self._address = context.alloc(self._nbytes)
        self._events = [(context.event(), context.event()) for _ in range(CALLS)]

    def close(self) -> None:
        """Give the flushed memory back."""
        self.context.synchronize()
        self.context.free(self._address)

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
        order = list(contestants)
        for k in range(rounds):
            for name in order[k % len(order) :] + order[: k % len(order)]:
                cost, ahead = self._sample(contestants[name], number[name])
                found[name].append(cost)
                late[name] += not ahead
        return Turns(
            {name: Sample(tuple(costs)) for name, costs in found.items()},
            tuple(name for name in order if 2 * late[name] > rounds),
        )

    def _number(self, run: Callable[[], Any], seconds: float) -> int:
        """How many calls a sample has; the calls that find it out warm everything up."""
        for _ in range(2):
            run()
        self.context.synchronize()
        once = min(self._sample(run, 1)[0] for _ in range(3))
        return min(max(int(seconds / max(once, 1e-7)), 1), CALLS)

    def _sample(self, run: Callable[[], Any], number: int) -> tuple[float, bool]:
        """Seconds of a call, and whether the host was ahead of the device all the time."""
        gap, first = self.context.event(), self._events[0][0]
        gap.record()
        self._fill()  # the host's lead
        began = time.perf_counter()
        last = self._each(run, number) if self.flush else self._all(run, number)
        host = time.perf_counter() - began
        last.synchronize()
        # The device was busy for so long with what it had; a host that took longer came late.
        ahead = host <= last.seconds_since(gap)
        if not self.flush:
            return last.seconds_since(first) / number, ahead
        pairs = self._events[:number]
        return statistics.median(end.seconds_since(start) for start, end in pairs), ahead

    def _each(self, run: Callable[[], Any], number: int) -> Event:
        for start, end in self._events[:number]:
            self._fill()
            start.record()
            run()
            end.record()
        return self._events[number - 1][1]

    def _all(self, run: Callable[[], Any], number: int) -> Event:
        start, end = self._events[0]
        start.record()
        for _ in range(number):
            run()
        end.record()
        return end

    def _fill(self) -> None:
        self.context.fill(self._address, 0, self._nbytes)
