"""Seconds of calls on a GPU by its own clock; the L2 cache as it is, or overwritten before each.

A GPU that is faster than the host can ask it to work would be measured waiting: before short
kernels it gets something else to do, long enough for the host to queue them all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from whet.compiler.runtime.gpu.array import Memory
from whet.compiler.runtime.gpu.driver import Context

QUEUED = 200
"""Calls between two waits: the driver queues about a thousand launches, a call may have several."""
PAIRS = 64
"""Calls between two waits where each has its own pair of events."""
ASKING_S = 10e-6
"""Seconds that the host takes to queue one call, at most."""
LONG_S = 50e-6
"""Calls that take longer wait for nothing: the host is far ahead of them."""
LEAST_BYTES = 64 << 20
MOST_FILLS = 256


class EventTimer:
    """Times calls of one function.

    Args:
        context: of the GPU.
        run: queues that many calls on the default stream.
        flush_l2: whether each call finds none of its inputs in the L2 cache.
    """

    def __init__(self, context: Context, run: Callable[[int], None], flush_l2: bool) -> None:
        self._context, self._run, self._flush = context, run, flush_l2
        self._bytes = max(2 * context.properties.l2_bytes, LEAST_BYTES)
        self._scratch = Memory(context, self._bytes)
        self._pairs = [(context.event(), context.event()) for _ in range(PAIRS if flush_l2 else 1)]
        self._cost = 0.0
        self._fill_s = 0.0

    def first(self) -> float:
        """Seconds of one call by the host's clock, all that comes with a first call included."""
        start = time.perf_counter()
        self._run(1)
        self._context.synchronize()
        return time.perf_counter() - start

    def __call__(self, number: int) -> float:
        """Seconds per call of ``number`` calls."""
        left, total = number, 0.0
        while left:
            count = min(left, len(self._pairs) if self._flush else QUEUED)
            total += self._apart(count) if self._flush else self._together(count)
            left -= count
        self._cost = total / number
        return self._cost

    def _together(self, count: int) -> float:
        begin, end = self._pairs[0]
        for _ in range(self._head_start(count)):
            self._fill()
        begin.record()
        self._run(count)
        end.record()
        end.synchronize()
        return end.seconds_since(begin)

    def _apart(self, count: int) -> float:
        pairs = self._pairs[:count]
        for begin, end in pairs:
            self._fill()
            begin.record()
            self._run(1)
            end.record()
        pairs[-1][1].synchronize()
        return sum(end.seconds_since(begin) for begin, end in pairs)

    def _fill(self) -> None:
        self._context.fill(self._scratch.address, 0, self._bytes)

    def _head_start(self, count: int) -> int:
        """Fills that keep the GPU busy while the host queues so many calls."""
        if self._cost >= LONG_S or not self._cost:
            return 0
        if not self._fill_s:
            self._fill_s = self._timed_fill()
        return min(math.ceil(count * ASKING_S / self._fill_s), MOST_FILLS)

    def _timed_fill(self) -> float:
        begin, end = self._pairs[0]
        self._fill()
        begin.record()
        self._fill()
        end.record()
        end.synchronize()
        return max(end.seconds_since(begin), 1e-6)
