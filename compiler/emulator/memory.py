"""The emulated device's memory: the host's, with what is known of each byte."""

from __future__ import annotations

import bisect
import ctypes

import numpy as np

from whet.compiler.emulator.library import CELL_BYTES, INTERVALS, Allocation
from whet.compiler.errors import ArgumentError, OutOfMemoryError

_ALIGNMENT = 512


class _Piece:
    """One allocation; its bytes count as unwritten until they are written.

    Attributes:
        whole: whether all of it counts as written, whatever ``defined`` says.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._held = np.empty(nbytes + _ALIGNMENT, np.uint8)
        offset = -self._held.ctypes.data % _ALIGNMENT
        self.bytes = self._held[offset : offset + nbytes]
        self.bytes.fill(0xFF)  # not a number
        self.address = int(self._held.ctypes.data) + offset
        self.defined = np.zeros(nbytes, np.uint8)
        self.whole = False
        self.cells: np.ndarray | None = None  # made when a checked launch first needs them
        self.round = 0  # of the intervals that the cells speak of

    def described(self, checks: bool) -> Allocation:
        if not checks:
            return Allocation(self.address, self.nbytes, None, None)
        if self.cells is None or self.round != INTERVALS.round:
            self.round = INTERVALS.round
            self.cells = np.zeros((self.nbytes + 1) * CELL_BYTES, np.uint8)
        defined = None if self.whole else self.defined.ctypes.data
        return Allocation(self.address, self.nbytes, defined, self.cells.ctypes.data)


class EmulatedMemory:
    """Allocations by address.

    Args:
        total: bytes that the device is said to have.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._addresses: list[int] = []
        self._pieces: dict[int, _Piece] = {}

    def alloc(self, nbytes: int) -> int:
        """The address of new memory.

        Raises:
            OutOfMemoryError: there is not so much left.
        """
        if self.used + nbytes > self.total:
            raise OutOfMemoryError(
                f"{nbytes} bytes on the emulator",
                f"{self.total - self.used} of its {self.total} bytes are free",
                "drop arrays that are not needed, or take smaller ones",
            )
        piece = _Piece(nbytes)
        bisect.insort(self._addresses, piece.address)
        self._pieces[piece.address] = piece
        self.used += nbytes
        return piece.address

    def free(self, address: int) -> None:
        """Give memory back."""
        piece = self._pieces.pop(address, None)
        if piece is None:
            raise ArgumentError(
                f"freeing the address {address:#x}", "the emulator has no memory allocated there"
            )
        self._addresses.remove(address)
        self.used -= piece.nbytes

    def bytes_at(self, address: int, nbytes: int) -> tuple[np.ndarray, np.ndarray]:
        """Bytes of memory, and whether each was written; views.

        Raises:
            ArgumentError: they are not within one allocation.
        """
        k = bisect.bisect_right(self._addresses, address) - 1
        piece = self._pieces[self._addresses[k]] if k >= 0 else None
        if piece is None or address + nbytes > piece.address + piece.nbytes:
            raise ArgumentError(
                f"{nbytes} bytes at {address:#x} of the emulator",
                "they are not within one allocation",
            )
        if piece.whole:  # from now on ``defined`` alone says so
            piece.defined.fill(1)
            piece.whole = False
        first = address - piece.address
        return piece.bytes[first : first + nbytes], piece.defined[first : first + nbytes]

    def described(self, checks: bool) -> ctypes.Array:
        """All allocations, for a launch."""
        # A copy: what is allocated here may let the garbage collector free others.
        pieces = [piece.described(checks) for piece in tuple(self._pieces.values())]
        return (Allocation * len(pieces))(*pieces)

    def all_written(self) -> None:
        """Take all memory as written: an unchecked kernel may have done so."""
        for piece in tuple(self._pieces.values()):
            piece.whole = True
