"""The parts in which processors differ for a measurement: memory, clock, and their own state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from whet.compiler.abi.signature import BufferParam
from whet.measure.values import MeasureOptions

Run = Callable[[int], None]
"""Calls a kernel that many times; on a GPU it queues the calls."""
CANARY = 0xA5
"""The byte of watched memory around arrays."""


class Buffer(Protocol):
    """One array of a call, with watched memory around it.

    Attributes:
        param: the kernel's parameter.
        array: the array, as a kernel takes it.
        nbytes: bytes that it holds, here and on a device.
    """

    param: BufferParam
    array: Any

    @property
    def nbytes(self) -> int: ...
    def restore(self) -> None:
        """Give it its first contents again."""

    def poison(self) -> None:
        """Spoil it, so that a kernel that does not write it fails the check."""

    def freeze(self) -> None:
        """Take its contents for those of an input, which no kernel may change."""

    def read(self) -> np.ndarray:
        """Its contents; on a processor the array itself."""

    def intact(self) -> bool:
        """True if the memory around it is untouched."""

    def changed(self) -> bool:
        """True if a kernel wrote this input; it then has its own contents again."""


class Clock(Protocol):
    """Times the calls of one kernel.

    Attributes:
        times: False where calls are run for their numbers alone.
    """

    times: bool

    def first(self) -> float:
        """Seconds of one cold call."""

    def __call__(self, number: int) -> float:
        """Seconds per call of ``number`` calls."""

    def facts(self) -> dict[str, Any]:
        """The conditions of the timing, for the record."""


class Processor(Protocol):
    """A processor or a GPU that measures.

    Attributes:
        name: tells it from others of this process.
        refusals: errors of a kernel that reads its own poisoned output.
    """

    name: str
    refusals: tuple[type[Exception], ...]

    def buffer(
        self, param: BufferParam, shape: tuple[int, ...], initial: np.ndarray | None
    ) -> Buffer:
        """An array of the parameter's dtype.

        Args:
            param: the kernel's parameter.
            shape: the array's shape.
            initial: its first contents; None: it is poisoned.
        """

    def synchronize(self) -> None:
        """Wait for the calls so far."""

    def clock(self, run: Run, options: MeasureOptions) -> Clock:
        """A clock for a kernel's calls."""

    def environment(self) -> dict[str, Any]:
        """The machine's state now, for the record."""


def poison_byte(dtype: np.dtype) -> int:
    """The byte that poisons an array: floats of 0xFF are NaN."""
    return {"b": 1, "i": 0x5A, "u": 0x5A}.get(dtype.kind, 0xFF)
