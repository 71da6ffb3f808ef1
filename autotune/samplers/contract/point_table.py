"""Points in a growing array, each found again in constant time: 4 bytes a knob and 8 a point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

UNKNOWN = -1
"""Every position of a row whose point is not known yet."""
FIRST_ROOM = 64
"""Rows that there is room for at first; it doubles whenever it is full."""
EMPTY = -1
AT_ONCE = 4096
"""Rows that are entered at a time: numbers of a whole search's would double its memory."""


class PointTable:
    """Rows of points, and an index from a point to its first row.

    The index is a table of row numbers with open addressing, probed for many points at a time. A
    dict of keys would take 130 bytes a point more.

    Args:
        knobs: positions in a point.
    """

    def __init__(self, knobs: int) -> None:
        self._rows = np.empty((FIRST_ROOM, knobs), dtype=np.int32)
        self._slots = np.full(4 * FIRST_ROOM, EMPTY, dtype=np.int32)
        rng = np.random.default_rng(0)  # any odd numbers will do, the same ones in each process
        self._factors = rng.integers(1 << 62, size=knobs, dtype=np.uint64) | np.uint64(1)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def rows(self, which: slice | np.ndarray) -> np.ndarray:
        """The points of rows, int64 of shape ``(n, knobs)``: a copy."""
        return self._rows[: self._length][which].astype(np.int64)

    def append(self, point: Sequence[int] | np.ndarray | None) -> int:
        """Add a point and return its row; None: it is put there later."""
        self._reserve(1)
        row = self._length
        self._length += 1
        self._rows[row] = UNKNOWN
        if point is not None:
            self.put(row, point)
        return row

    def put(self, row: int, point: Sequence[int] | np.ndarray) -> None:
        """Set the point of a row that was added without one."""
        self._rows[row] = point
        self._enter(np.array([row]))

    def extend(self, points: np.ndarray) -> None:
        """Add many points, int of shape ``(n, knobs)``, in order."""
        self._reserve(len(points))
        begin = self._length
        self._length += len(points)
        self._rows[begin : self._length] = points
        self._enter(np.arange(begin, self._length))

    def find(self, points: np.ndarray) -> np.ndarray:
        """The first row of each point, int64 of shape ``(n,)``; -1 where there is none."""
        found = np.full(len(points), EMPTY, dtype=np.int64)
        left = np.arange(len(points))
        slots = self._slots_of(points)
        while len(left):
            rows = self._slots[slots]
            used = rows != EMPTY
            left, rows, slots = left[used], rows[used], slots[used]
            same = (self._rows[rows] == points[left]).all(axis=1)
            found[left[same]] = rows[same]
            left, slots = left[~same], self._after(slots[~same])
        return found

    def _enter(self, rows: np.ndarray) -> None:
        """Enter rows, ascending, into the index; of rows with one point the first stays."""
        for begin in range(0, len(rows), AT_ONCE):
            self._enter_some(rows[begin : begin + AT_ONCE])

    def _enter_some(self, rows: np.ndarray) -> None:
        slots = self._slots_of(self._rows[rows])
        while len(rows):
            empty = self._slots[slots] == EMPTY
            # of several that meet at an empty slot the last assignment counts: the first row's
            self._slots[slots[empty][::-1]] = rows[empty][::-1]
            there = self._slots[slots]
            apart = (self._rows[there] != self._rows[rows]).any(axis=1)
            rows, slots = rows[apart], self._after(slots[apart])

    def _reserve(self, count: int) -> None:
        """Make room for more rows."""
        need, room = self._length + count, len(self._rows)
        if need <= room:
            return
        while room < need:
            room *= 2
        rows = np.empty((room, self._rows.shape[1]), dtype=np.int32)
        rows[: self._length] = self._rows[: self._length]
        self._rows = rows
        self._slots = np.full(4 * room, EMPTY, dtype=np.int32)
        known = np.arange(self._length)
        if rows.shape[1]:
            known = known[rows[: self._length, 0] != UNKNOWN]
        self._enter(known)

    def _slots_of(self, points: np.ndarray) -> np.ndarray:
        """The slot at which each point's probing begins."""
        hashes = (points.astype(np.uint64) * self._factors).sum(axis=1, dtype=np.uint64)
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(32)
        return (hashes & np.uint64(len(self._slots) - 1)).astype(np.int64)

    def _after(self, slots: np.ndarray) -> np.ndarray:
        return (slots + 1) & (len(self._slots) - 1)
