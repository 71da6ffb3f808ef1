"""Samplers that follow a fixed sequence of points: always the first one that nobody has tried."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from whet.autotune.samplers.contract.base import SpaceSampler, point_of
from whet.autotune.samplers.contract.history import History, Point


class SequenceSampler(SpaceSampler):
    """Proposes the first untried point of a sequence; a subclass writes :meth:`blocks`.

    A point that was passed over stays taken, so a search walks through the sequence once; another
    search, or an earlier moment of this one, starts at its beginning again.
    """

    _blocks: Iterator[np.ndarray] = iter(())
    _block: np.ndarray | None = None
    _last: History | None = None

    @abstractmethod
    def blocks(self) -> Iterator[np.ndarray]:
        """The sequence: int64 arrays of shape ``(n, knobs)``, ``n >= 1``, of valid points.

        Where it ends before the space is exhausted, random points follow.
        """

    def propose(self, history: History) -> Point:
        if not history.follows(self._last):
            self._blocks = self.blocks()
            self._block = next(self._blocks, None)
        self._last = history
        while self._block is not None:
            taken = history.taken(self._block)
            if not taken.all():
                return point_of(self._block[np.argmin(taken)])
            self._block = next(self._blocks, None)
        return self.fresh(history)
