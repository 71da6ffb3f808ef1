"""Seconds of calls on a GPU by its own clock; the L2 cache as it is, or overwritten before each.

A GPU that is faster than the host can ask it to work would be measured waiting. So before timed
calls it gets something else to do, filling memory, until the host has queued them; the same fills
flush the L2 cache. Whether they last long enough is looked at, and not believed: the event in front
of the calls must not be reached yet when the one behind them is queued. Where it is, the fills
become more, and the calls are timed again.

A GPU that had nothing to do has lowered its frequency (an H200 from 1980 to 345 MHz): it is kept
busy for a while before its first calls are timed, so that a candidate is not slow for coming first.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass

from whet.compiler.runtime.arrays.device_array import Memory
from whet.compiler.runtime.gpu.driver.interface import Context
from whet.measure.stage.processor import Clock, Run
from whet.measure.values import Json

QUEUED = 200
"""Calls between two waits: the driver queues about a thousand launches, a call may have several."""
PAIRS = 64
"""Calls between two waits where each has its own pair of events."""
FLUSHES = 4
"""The filled bytes are so many times the L2 cache: it keeps what it likes."""
LEAST_BYTES = 64 << 20
MOST_FILLS, MOST_LEAD_S = 256, {False: 5e-3, True: 0.5e-3}
"""Before one event: the most fills, and about the longest time of them, of each call if flushed."""
AGAIN = 4
"""Timings of the same calls, the first included, where the host comes late."""
ROOM = 1.25
"""So much longer than the host took last time are the fills that it is given."""
RESTED_S, AWAKE_S = 0.1, 0.03
"""After so long without calls a GPU is kept busy for so long before its next ones are timed."""
BUSY = 0.9
"""A host that takes so much of the time of calls without gaps keeps the GPU waiting."""


@dataclass(frozen=True)
class Timed:
    """Times of calls.

    Attributes:
        seconds: of a call on the device: one figure each where they are timed apart, else the mean.
        ahead: the host was ahead of the device, so that none of its time is in them.
    """

    seconds: tuple[float, ...]
    ahead: bool


class DeviceClock:
    """Times calls that put work into a device's default stream.

    Args:
        context: the device's.
        flush: the L2 cache is overwritten before each call. Otherwise it holds what the
            call before has left, and calls follow each other without a gap.
    """

    def __init__(self, context: Context, flush: bool) -> None:
        self._context, self._flush = context, flush
        wanted = max(FLUSHES * context.properties.l2_bytes, LEAST_BYTES)
        self._bytes = max(min(wanted, context.memory()[0] // 8), 1)
        self._scratch: Memory | None = Memory(context, self._bytes)
        self._pairs = [(context.event(), context.event()) for _ in range(PAIRS if flush else 1)]
        self._rests_since = -math.inf
        self._lead_s = 0.0  # that the host needs, as far as it came late before
        self._fill_s = 0.0

    @property
    def most(self) -> int:
        """Calls that one :meth:`timed` takes."""
        return PAIRS if self._flush else QUEUED

    def close(self) -> None:
        """Give the filled memory back."""
        self._context.synchronize()
        self._scratch = None

    def timed(self, run: Run, count: int) -> Timed:
        """Time calls; once more, with a longer lead, where the host came late.

        Args:
            run: queues them.
            count: how many, at most :attr:`most`.
        """
        self.wake()
        for _ in range(AGAIN):
            fills = self._fills()
            timed, needed = (self._apart if self._flush else self._together)(run, count, fills)
            if timed.ahead:
                break
            self._lead_s = max(self._lead_s, ROOM * needed)
            if self._fills() <= fills:
                break  # as much as there may be
        self._rests_since = time.perf_counter()
        return timed

    def wake(self) -> None:
        """Keep a device busy that has rested, until its frequency is up again."""
        start = time.perf_counter()
        if start - self._rests_since < RESTED_S:
            return
        while time.perf_counter() - start < AWAKE_S:
            self._fill(1)
            self._context.synchronize()
        self._rests_since = time.perf_counter()

    def _together(self, run: Run, count: int, fills: int) -> tuple[Timed, float]:
        """Calls between one pair of events; the lead that they need."""
        begin, end = self._pairs[0]
        self._fill(fills)
        start = time.perf_counter()
        begin.record()
        run(1)
        one, waited = time.perf_counter() - start, not begin.reached()
        run(count - 1)
        end.record()
        every, waits = time.perf_counter() - start, not begin.reached()
        end.synchronize()
        total = end.seconds_since(begin)
        # After the first, calls that take longer than queueing them keep the device busy.
        busy = every < BUSY * total
        return Timed((total / count,), waits or (waited and busy)), one if busy else every

    def _apart(self, run: Run, count: int, fills: int) -> tuple[Timed, float]:
        """Each call behind its own fills; the lead that one of those needs that came late."""
        pairs, late = self._pairs[:count], {}
        for k, (begin, end) in enumerate(pairs):
            self._fill(fills)
            start = time.perf_counter()
            begin.record()
            run(1)
            end.record()
            if begin.reached():
                late[k] = time.perf_counter() - start
        pairs[-1][1].synchronize()
        ahead = 2 * len(late) < count
        kept = [pair for k, pair in enumerate(pairs) if not (ahead and k in late)]
        seconds = tuple(end.seconds_since(begin) for begin, end in kept)
        return Timed(seconds, ahead), statistics.median(late.values()) if late else 0.0

    def _fills(self) -> int:
        """Fills before an event: as long as the host needs to queue what stands behind it."""
        if not self._lead_s:
            return 1
        self._fill_s = self._fill_s or self._timed_fill()
        most = max(min(MOST_FILLS, int(MOST_LEAD_S[self._flush] / self._fill_s)), 1)
        return min(math.ceil(self._lead_s / self._fill_s), most)

    def _fill(self, times: int) -> None:
        assert self._scratch is not None, "the clock was closed"
        for _ in range(times):
            self._context.fill(self._scratch.address, 0, self._bytes)

    def _timed_fill(self) -> float:
        begin, end = self._pairs[0]
        self._fill(1)
        begin.record()
        self._fill(1)
        end.record()
        end.synchronize()
        return max(end.seconds_since(begin), 1e-6)


class EventTimer(Clock):
    """Times calls of one function for a search.

    Args:
        context: of the GPU.
        run: queues that many calls on the default stream.
        flush_l2: each call finds none of its inputs in the L2 cache.

    Attributes:
        late: the host came late for some of the calls that were timed: any may be a cost.
    """

    def __init__(self, context: Context, run: Run, flush_l2: bool) -> None:
        super().__init__(run)
        self._context, self._flushed = context, flush_l2
        self._clock = DeviceClock(context, flush_l2)
        self.late = False

    def first(self) -> float:
        """Seconds of one call by the host's clock, all that comes with a first call included."""
        self._clock.wake()
        start = time.perf_counter()
        self._run(1)
        self._context.synchronize()
        return time.perf_counter() - start

    def __call__(self, number: int) -> float:
        """Seconds per call of ``number`` calls."""
        left, total = number, 0.0
        while left:
            count = min(left, self._clock.most)
            timed = self._clock.timed(self._run, count)
            total += count * statistics.fmean(timed.seconds)
            self.late |= not timed.ahead
            left -= count
        return total / number

    def facts(self) -> Json:
        """The conditions of the timing, for the record."""
        late = {"late": True} if self.late else {}  # the host's time is in the costs
        return {"cost": "measured", "flushed": self._flushed, **late}
