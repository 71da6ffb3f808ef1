"""Cores of the CPU as a place of contests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from whet.bench.contest import Limit, Place
from whet.bench.cpu.libraries import peers_of
from whet.bench.cpu.limits import Traffic
from whet.bench.operators.table import expected
from whet.bench.turns import WARM_UPS, HostClock, on_cores
from whet.compiler.target.machine.fma import fma_peak
from whet.measure.stage.machine import environment

if TYPE_CHECKING:
    from whet.bench.arguments import Arrays

MOMENT = 0.02
"""Seconds of one sample."""
PAUSE = 0.01
"""Seconds until the threads of a library sleep that has been called."""


def cores(threads: int) -> Place:
    """Cores of the CPU; the process is pinned to as many.

    The limits are the FMA peak of the cores, and streaming as many bytes as the task reads and
    writes. The peers are numpy and PyTorch.

    Args:
        threads: as many as the task's target has.
    """
    return Place(
        name="",
        threads=threads,
        environment=environment,
        pinned=partial(on_cores, threads),
        peers=partial(peers_of, threads),
        exact=expected,
        put=lambda array: array,
        read=lambda array: array,
        timing=partial(_timing, threads),
    )


@contextmanager
def _timing(threads: int, arrays: Arrays) -> Iterator[tuple[HostClock, Limit, Limit]]:
    traffic = Traffic(arrays, threads)
    yield (
        HostClock(MOMENT, PAUSE if threads > 1 else 0.0),
        _measured(lambda: threads * fma_peak(seconds=MOMENT)),
        _measured(lambda: traffic.seconds(MOMENT)),
    )


def _measured(measure: Callable[[], float]) -> Limit:
    """A limit that is measured within its own call; the numbers of warm-ups do not count."""
    figures: list[float] = []
    return Limit(lambda: figures.append(measure()), lambda sample: tuple(figures[WARM_UPS:]))
