"""The processor of this machine: a memory and the host's clock."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from whet.compiler.abi.signature import BufferParam
from whet.measure.stage import machine
from whet.measure.stage.memory import Buffer, GuardedBuffer
from whet.measure.values import Json, MeasureOptions

Run = Callable[[int], None]
"""Calls a kernel that many times; on a GPU it queues the calls."""


class Clock:
    """Times the calls of one kernel by the host's clock.

    Args:
        run: calls the kernel.
    """

    times = True
    """False where calls are run for their numbers alone."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def first(self) -> float:
        """Seconds of one cold call."""
        return self(1)

    def __call__(self, number: int) -> float:
        """Seconds per call of ``number`` calls."""
        run = self._run
        start = time.perf_counter()
        run(number)
        return (time.perf_counter() - start) / number

    def facts(self) -> Json:
        """The conditions of the timing, for the record, beside the machine's state."""
        return {}


class Processor:
    """A processor that measures: this machine's; a GPU has a memory and a clock of its own."""

    name = "cpu"
    """Tells it from others of this process."""
    refusals: tuple[type[Exception], ...] = ()
    """Errors of a kernel that reads its own poisoned output."""

    def buffer(
        self, param: BufferParam, shape: tuple[int, ...], initial: np.ndarray | None
    ) -> Buffer:
        """An array of the parameter's dtype, with watched memory around it.

        Args:
            param: the kernel's parameter.
            shape: the array's shape.
            initial: its first contents; None: it is poisoned.
        """
        return GuardedBuffer(param, shape, initial)

    def synchronize(self) -> None:
        """Wait for the calls so far; here a call returns when it is done."""

    def clock(self, run: Run, options: MeasureOptions) -> Clock:
        """A clock for a kernel's calls."""
        return Clock(run)

    def environment(self) -> Json:
        """The machine's state now, for the record."""
        return machine.environment()


HOST = Processor()
