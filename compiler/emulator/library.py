"""A compiled text that is loaded: its kernels, and launching them."""

from __future__ import annotations

import _ctypes
import ctypes
import functools
import mmap
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path

from whet.compiler.emulator.compile import compile_emulated
from whet.compiler.emulator.report import Report, error_of

CELL_BYTES = 24
"""Of ``Cell`` in ``checks.h``; there is at most one a byte of memory."""
_LAST_INTERVAL = 0xF0000000  # intervals between barriers have numbers of 32 bits
_STACK_BYTES = 256 << 10
"""``STACK_BYTES`` in ``fibers.h``, of one thread."""
_Three = ctypes.c_uint32 * 3
_stacks_lock = threading.Lock()


@functools.cache
def _stacks() -> ctypes.c_char:
    """The first byte of memory for the stacks of 1024 threads, one block's at a time."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return ctypes.c_char.from_buffer(mmap.mmap(-1, 1024 * _STACK_BYTES, flags=flags))


@dataclass
class Intervals:
    """The numbers of intervals between barriers, which grow over all launches of the process.

    Attributes:
        next: the first that no launch has used.
        round: how often they began anew; what was noted of memory in another round is void.
    """

    next: int = 1
    round: int = 0

    def used(self, last: int) -> None:
        """Go on behind the last number that a launch has used."""
        self.next = last + 1
        if self.next > _LAST_INTERVAL:
            self.next = 1
            self.round += 1


INTERVALS = Intervals()


class Allocation(ctypes.Structure):
    """As ``Allocation`` in ``checks.h``: memory of the device, and what is known of it."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("defined", ctypes.c_void_p),
        ("cells", ctypes.c_void_p),
    ]


class Launch(ctypes.Structure):
    """As ``Launch`` in ``launch.h``."""

    _fields_ = [
        ("grid", _Three),
        ("block", _Three),
        ("shared_bytes", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("first_interval", ctypes.c_uint32),
        ("allocation_count", ctypes.c_uint32),
        ("allocations", ctypes.POINTER(Allocation)),
        ("packed", ctypes.c_char_p),
        ("stacks", ctypes.c_void_p),
    ]


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel of a library: its number, and how many bytes its packed arguments have."""

    number: int
    packed_bytes: int


class EmulatedLibrary:
    """A text, compiled and loaded.

    Args:
        source: CUDA C.
        checks: whether accesses of memory are looked at.
        quick: whether compiling fast matters more than running fast.
    """

    def __init__(self, source: str, checks: bool, quick: bool) -> None:
        self.source = source
        self.path: Path = compile_emulated(source, checks, quick)
        self._library = ctypes.CDLL(str(self.path))
        weakref.finalize(self, _ctypes.dlclose, self._library._handle)
        self._launch = self._library.whet_emulator_launch
        self._find = self._library.whet_emulator_find

    def entry(self, name: str) -> Entry:
        """A kernel of the text by its name."""
        size = ctypes.c_size_t()
        number = self._find(name.encode(), ctypes.byref(size))
        return Entry(number, size.value)

    def launch(self, entry: Entry, launch: Launch) -> None:
        """Run a kernel, one at a time in a process.

        Raises:
            EmulatorError: what the kernel did wrong.
        """
        report = Report()
        with _stacks_lock:
            launch.stacks = ctypes.addressof(_stacks())
            launch.first_interval = INTERVALS.next
            last = ctypes.c_uint32(INTERVALS.next)
            self._launch(
                entry.number, ctypes.byref(launch), ctypes.byref(report), ctypes.byref(last)
            )
            INTERVALS.used(last.value)
        if report.fault:
            raise error_of(report, self.path, self.source)
