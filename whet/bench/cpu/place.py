"""Cores of the CPU as a place of contests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import process_time
from typing import TYPE_CHECKING

from whet.bench.contest import Limit, Place
from whet.bench.cpu.libraries import peers_of
from whet.bench.cpu.limits import Few, Instructions, Peak, Traffic
from whet.bench.operators.operator import Operator
from whet.bench.operators.table import expected
from whet.bench.turns import WARM_UPS, HostClock, on_cores
from whet.measure.stage.machine import environment

if TYPE_CHECKING:
    from whet.bench.arguments import Arrays

MOMENT = 0.005
"""Seconds of one sample: short ones fit between the turns of other processes on the core."""
PAUSE = 0.04
"""Seconds, at least, for the threads of a library that has been called to sleep."""


def cores(
    threads: int, operator: Operator | None = None, few: Sequence[Few] | None = None
) -> Place:
    """Cores of the CPU; the process is pinned to as many.

    The limits are the FMA peak of the cores, and streaming as many bytes as the task reads and
    writes. The peers are numpy, PyTorch, onnxruntime and OpenVINO.

    Args:
        threads: as many as the task's target has.
        operator: of a task without a named template.
        few: kernels of the same work that the first cache holds, with their arrays: the limit of
            the instructions is that of the quickest (:class:`Instructions`).
    """
    more: dict[str, Callable[[Arrays], Limit]] = {}
    if few:
        more["instructions"] = lambda arrays: _measured(
            partial(Instructions(arrays, few).seconds, MOMENT)
        )
    if threads > 1:
        more["lone_peaks"] = lambda arrays: _measured(partial(Peak(1).flops, MOMENT))
    return Place(
        name="",
        threads=threads,
        environment=environment,
        pinned=partial(on_cores, threads),
        peers=partial(peers_of, threads, operator=operator),
        exact=partial(expected, operator=operator),
        put=lambda array: array,
        read=lambda array: array,
        timing=partial(_timing, threads),
        more=more,
    )


def clock_of(threads: int) -> HostClock:
    """The clock for work on so many threads.

    On one it leaves out the turns of other processes; on more it waits before each sample until
    the threads of the peer before sleep, which would spin on our core, and warms up three times:
    threads that wake on one core are moved apart within the first calls.
    """
    return HostClock(MOMENT, PAUSE, 3) if threads > 1 else HostClock(MOMENT, 0, 1, process_time)


@contextmanager
def _timing(threads: int, arrays: Arrays) -> Iterator[tuple[HostClock, Limit, Limit]]:
    traffic = Traffic(arrays, threads)
    yield (
        clock_of(threads),
        _measured(partial(Peak(threads).flops, MOMENT)),
        _measured(lambda: traffic.seconds(MOMENT)),
    )


def _measured(measure: Callable[[], float]) -> Limit:
    """A limit that is measured within its own call; the numbers of warm-ups do not count."""
    figures: list[float] = []
    return Limit(lambda: figures.append(measure()), lambda sample: tuple(figures[WARM_UPS:]))
