"""A device's clock for contests: the L2 cache flushed before each call, if that is wanted."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from whet.measure.gpu.events import DeviceClock

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver.interface import Context
    from whet.measure.stage.processor import Run

CALLS = 20
"""Calls of one sample at most."""


class EventClock:
    """Times functions that put work into the default stream; a sample is the median of its calls.

    Args:
        context: the device's.
        flush: whether the L2 cache is emptied before each call. Otherwise it holds what the call
            before it left, and the calls of a sample follow each other without a gap.
        seconds: of calls in a sample, about: short work is done several times in it.
    """

    def __init__(self, context: Context, flush: bool = True, seconds: float = 0.005) -> None:
        self._context, self._seconds = context, seconds
        self._clock = DeviceClock(context, flush)

    def close(self) -> None:
        """Give the flushed memory back."""
        self._clock.close()

    def calls(self, run: Run) -> int:
        """Calls of a sample; those that find it out warm everything up."""
        run(2)
        self._context.synchronize()
        once = min(self._clock.timed(run, 1).seconds[0] for _ in range(3))
        return min(max(int(self._seconds / max(once, 1e-7)), 1), CALLS)

    def sample(self, run: Run, calls: int) -> tuple[float, bool]:
        """Seconds per call on the device, and whether the host came late."""
        timed = self._clock.timed(run, calls)
        return statistics.median(timed.seconds), not timed.ahead
