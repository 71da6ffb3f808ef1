"""The machine's limits: arithmetic, what moving a kernel's bytes costs, its instructions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from whet.bench.arguments import packed_arguments
from whet.bench.roofline import Level
from whet.bench.turns import timed
from whet.compiler.target.machine import host
from whet.compiler.target.machine.bandwidth import bandwidth
from whet.compiler.target.machine.fma import fma_peak

if TYPE_CHECKING:
    from whet.bench.arguments import Arrays
    from whet.compiler.runtime.module import Module

Few = tuple["Module", "Arrays"]
"""A kernel of a work that is small enough for the first cache, and its arrays."""
LARGEST = 1 << 28
"""Bytes of the working set that stands for memory, at most."""


class Peak:
    """The FMA peak of cores that work at the same time.

    Args:
        threads: how many cores.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        # The loop runs in machine code, without Python's lock.
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def flops(self, budget: float) -> float:
        """FLOP/s of all of them, measured for so many seconds."""
        if self._pool is None:
            return fma_peak(seconds=budget)
        return sum(self._pool.map(lambda k: fma_peak(seconds=budget), range(self._threads)))


class Instructions:
    """The instructions of a memory-bound kernel, without its traffic.

    A kernel of the same work that the first cache holds takes what its instructions take; the
    whole work has so many times its elements. Several ways to schedule it may be given, of which
    the quickest counts: a limit of what is known, and not of what could be.

    Args:
        whole: the arrays of the whole work.
        few: kernels that the cache holds, with their arrays.
    """

    CALLS = 20

    def __init__(self, whole: Arrays, few: Sequence[Few]) -> None:
        self._runs = [
            (
                kernel.entry_func.repeater(packed_arguments(kernel, arrays.values)),
                _elements(whole) / _elements(arrays),
            )
            for kernel, arrays in few
        ]

    def seconds(self, budget: float) -> float:
        """Seconds of the whole work by the quickest kernel; each gets its part of the budget."""
        return min(self._of(run, budget / len(self._runs)) * many for run, many in self._runs)

    def _of(self, run: Callable[[int], None], budget: float) -> float:
        once = timed(run, self.CALLS, time.process_time)
        calls = max(1, int(budget / max(once, 1e-9)))
        # in machine code: a call from Python takes as long
        return timed(run, calls, time.process_time)


def _elements(arrays: Arrays) -> int:
    """Of the largest array of a call, as far as it is read."""
    return max(x.size for x in arrays.values[1 if arrays.gathered else 0 :])


class Traffic:
    """Moves the bytes of a kernel's inputs and outputs as fast as the cores can.

    Args:
        arrays: a kernel's.
        threads: how many cores share the bytes, each with its own part.
    """

    def __init__(self, arrays: Arrays, threads: int) -> None:
        from whet.compiler.target.machine.bandwidth import BandwidthProbe

        read, written = arrays.traffic
        parts = -(-read // threads), -(-written // threads)
        self._probes = [BandwidthProbe(*parts) for _ in range(threads)]
        moved = sum(probe.bytes for probe in self._probes)
        self._scale = (read + written) / moved
        # A loop runs in machine code, without Python's lock.
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def seconds(self, budget: float) -> float:
        """Seconds of a pass by the quickest kind of loop; each kind gets its part of the budget."""
        kinds = list(self._probes[0].loops)
        return min(self._of(kind, budget / len(kinds)) for kind in kinds) * self._scale

    def _of(self, kind: str, budget: float) -> float:
        """Seconds of a pass: the mean of those that fit the budget, as a kernel is timed."""
        loops = [probe.loops[kind] for probe in self._probes]
        once = self._run(loops, 1)
        passes = max(1, int(budget / max(once, 1e-9)))
        return self._run(loops, passes) / passes

    def _run(self, loops: list[Callable[..., None]], passes: int) -> float:
        if self._pool is None:
            return timed(loops[0], passes, time.process_time) * passes
        start = time.perf_counter()
        list(self._pool.map(lambda loop: loop(passes), loops))
        return time.perf_counter() - start


def levels(seconds: float = 0.1) -> tuple[Level, ...]:
    """The read bandwidth of each cache and of memory, of one core.

    Args:
        seconds: how long each is measured.
    """
    caches = host.caches()
    sizes = {name: size // 2 for name, size in sorted(caches.items())}
    sizes["memory"] = min(max(4 * max(caches.values(), default=1 << 25), 1 << 26), LARGEST)
    return tuple(Level(n, s, bandwidth(s, 0, seconds)) for n, s in sizes.items())
