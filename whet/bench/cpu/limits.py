"""The machine's limits: what moving a kernel's bytes costs, and the bandwidth of each cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from whet.bench.roofline import Level
from whet.compiler.target.machine import host
from whet.compiler.target.machine.bandwidth import bandwidth

if TYPE_CHECKING:
    from whet.bench.arguments import Arrays

LARGEST = 1 << 28
"""Bytes of the working set that stands for memory, at most."""


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
        start = time.perf_counter()
        if self._pool is None:
            loops[0](passes)
        else:
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
