"""Rows of features, kept by point, so that a second look costs little."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict

import numpy as np

from whet.autotune.features.columns import NAMES

ROWS_KEPT = 16_384
"""Rows kept, about 15 MB; those that were not asked for for longest are dropped."""
AT_ONCE = 512
"""Points whose rows are computed at a time."""


class Rows(ABC):
    """The rows of points, each computed once.

    Args:
        knobs: positions in a point.
    """

    def __init__(self, knobs: int) -> None:
        self._knobs = knobs
        self._rows: OrderedDict[bytes, np.ndarray] = OrderedDict()

    @abstractmethod
    def _compute(self, points: np.ndarray) -> np.ndarray:
        """float32 rows of shape (n, len(NAMES)) of points that are not known, (n, knobs)."""

    def of_points(self, points: np.ndarray) -> np.ndarray:
        """The features of points.

        Args:
            points: int64 of shape (n, knobs): a position for each knob.

        Returns:
            float32 of shape (n, len(NAMES)); a row of NaN where the template raises, or makes a
            schedule that cannot be lowered.
        """
        table = np.ascontiguousarray(points, dtype=np.int64).reshape(len(points), self._knobs)
        keys = [row.tobytes() for row in table]
        new = {k: i for i, k in enumerate(keys) if k not in self._rows}
        for begin in range(0, len(new), AT_ONCE):
            some = list(new.items())[begin : begin + AT_ONCE]
            rows = self._compute(table[[i for _, i in some]])
            self._rows.update((k, row) for (k, _), row in zip(some, rows))
        out = np.stack([self._rows[k] for k in keys]) if keys else nothing(0)
        for key in keys:
            self._rows.move_to_end(key)
        while len(self._rows) > ROWS_KEPT:
            self._rows.popitem(last=False)
        return out


def nothing(n: int) -> np.ndarray:
    """``n`` rows of NaN."""
    return np.full((n, len(NAMES)), np.nan, np.float32)
