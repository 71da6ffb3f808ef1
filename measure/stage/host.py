"""The processor of this machine: arrays between walls, and the host's clock.

Inputs cannot be written (the pages are read-only), nothing behind a buffer can be touched (the next
page does not exist), and bytes just before it are watched: a kernel that strays is caught at once
instead of spoiling its successors' numbers.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam
from whet.measure.stage import machine
from whet.measure.stage.processor import CANARY, Buffer, poison_byte
from whet.measure.values import Json, MeasureOptions

Run = Callable[[int], None]
"""Calls a kernel that many times; on a GPU it queues the calls."""
PROT_NONE, PROT_READ, PROT_WRITE = 0, 1, 2
ALIGN = 64  # the alignment of numpy's large buffers, and of ours
FRONT = 256  # watched bytes before each buffer, at least
HUGE = 4 << 20  # numpy asks for huge pages from this size on; measure under the same conditions

_libc = ctypes.CDLL(None, use_errno=True)


class GuardedBuffer:
    """One C-contiguous array whose end touches an inaccessible page.

    Args:
        param: the kernel's parameter.
        shape: the array's shape.
        initial: its first contents; None: it is poisoned.

    Attributes:
        param: the kernel's parameter.
        array: the array.
    """

    def __init__(
        self, param: BufferParam, shape: tuple[int, ...], initial: np.ndarray | None
    ) -> None:
        self.param = param
        dtype, page = numpy_dtype(param.dtype), mmap.PAGESIZE
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        padded = -(-size // ALIGN) * ALIGN
        self._inside = -(-(padded + FRONT) // page) * page
        self._map = mmap.mmap(-1, self._inside + page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE, 0, self._inside)
        _protect(self._base + self._inside, page, PROT_NONE)
        bytes_ = np.frombuffer(self._map, np.uint8, self._inside)
        begin = self._inside - padded
        self._walls = (bytes_[begin - FRONT : begin], bytes_[begin + size :])
        for wall in self._walls:
            wall[:] = CANARY
        self._bytes = bytes_[begin : begin + size]
        self.array: np.ndarray = self._bytes.view(dtype).reshape(shape)
        self._initial = initial if param.written else None
        if initial is None:
            self.poison()
        elif not param.written:
            self.array[...] = initial
            self.freeze()

    @property
    def nbytes(self) -> int:
        """Bytes of the array and of its first contents."""
        return self.array.nbytes + (0 if self._initial is None else self._initial.nbytes)

    def restore(self) -> None:
        """Give an output its first contents again."""
        self.array[...] = self._initial

    def poison(self) -> None:
        """Spoil it, so that a kernel that does not write it fails the check."""
        self._bytes[...] = poison_byte(self.array.dtype)

    def freeze(self) -> None:
        """Make the array's pages read-only: a kernel that writes them dies of a fault."""
        _protect(self._base, self._inside, PROT_READ)

    def read(self) -> np.ndarray:
        """The array itself."""
        return self.array

    def intact(self) -> bool:
        """True if the watched bytes around the array are untouched."""
        return all(bool((wall == CANARY).all()) for wall in self._walls)

    def changed(self) -> bool:
        """False: inputs are read-only."""
        return False


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


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise MemoryError(f"mprotect: {os.strerror(ctypes.get_errno())}")
