"""Arrays of a call, with watched memory around them; those of this machine stand between walls.

Inputs cannot be written (the pages are read-only), nothing behind a buffer can be touched (the next
page does not exist), and bytes just before it are watched: a kernel that strays is caught at once
instead of spoiling its successors' numbers.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any, Protocol

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam

CANARY = 0xA5
"""The byte of watched memory around arrays."""
PROT_NONE, PROT_READ = 0, 1
ALIGN = 64  # the alignment of numpy's large buffers, and of ours
FRONT = 256  # watched bytes before each buffer, at least
HUGE = 4 << 20  # numpy asks for huge pages from this size on; measure under the same conditions

_libc = ctypes.CDLL(None, use_errno=True)


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


def poison_byte(dtype: np.dtype) -> int:
    """The byte that poisons an array: floats of 0xFF are NaN."""
    return {"b": 1, "i": 0x5A, "u": 0x5A}.get(dtype.kind, 0xFF)


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


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise MemoryError(f"mprotect: {os.strerror(ctypes.get_errno())}")
