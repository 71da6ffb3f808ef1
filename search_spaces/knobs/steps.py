"""Steps of a knob: from each choice to another one, near choices likelier, many at a time."""

from __future__ import annotations

from whet.compiler.late_numpy import np

NEAREST = 32
"""Choices of which the distance decides how likely they are; all the others are equally likely."""
FAR = 0.05
"""The share that all other choices have together, so that a walk can leave a valley."""
_ROWS_KEPT = 4096
# Longer knobs are looked at in part: a row must not cost a millisecond.
_LOOKED_AT = 1 << 14
_CELLS = 1 << 18


class Steps:
    """Random steps between the choices of one knob.

    The step from ``p`` to another choice has the weight ``4 ** -distance`` for the :data:`NEAREST`
    choices (of a knob of more than 16,384 choices: the nearest among as many drawn at random, and
    beside it in the list), and :data:`FAR` of the steps go to any other choice with equal chances.
    Rows of weights are made when a position is first asked about; 4,096 are kept.

    Args:
        coordinates: float32 of shape ``(choices, n)``; distances are L1.
    """

    def __init__(self, coordinates: np.ndarray) -> None:
        self._coordinates = coordinates
        self._count = len(coordinates)
        width = min(NEAREST, self._count - 1)
        self._slots = np.full(self._count, -1, dtype=np.int64)
        self._near = np.zeros((0, width), dtype=np.int32)
        self._sums = np.zeros((0, width), dtype=np.float64)
        self._used = 0

    def step(self, positions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Another position for each of ``positions`` (int64, shape (n,)); its own if none other is.

        Args:
            positions: positions in the knob's list.
            rng: where the random numbers come from: three for each position.
        """
        n = len(positions)
        if self._count == 1 or not n:
            return positions.copy()
        slots = self._rows(positions)
        draws = rng.random((3, n))
        # The sums of row r lie between r and r + 1, so that one search finds all rows' columns.
        width = self._near.shape[1]
        found = np.searchsorted(self._sums.ravel(), slots + draws[0], side="right")
        near = self._near.ravel()[np.clip(found, slots * width, slots * width + width - 1)]
        # Any of the others: a number that skips the position itself.
        anywhere = (draws[2] * (self._count - 1)).astype(np.int64)
        anywhere += anywhere >= positions
        return np.where(draws[1] < FAR, anywhere, near).astype(np.int64)

    def _rows(self, positions: np.ndarray) -> np.ndarray:
        missing = np.unique(positions[self._slots[positions] < 0])
        if not len(missing):
            return self._slots[positions]
        if self._used + len(missing) > _ROWS_KEPT:
            self._slots[:] = -1
            self._used = 0
            missing = np.unique(positions)
        self._grow(self._used + len(missing))
        # Many rows at a time while that fits a cache.
        some = max(1, _CELLS // max(self._coordinates.size, 1))
        for begin in range(0, len(missing), some):
            self._fill(missing[begin : begin + some])
        return self._slots[positions]

    def _grow(self, rows: int) -> None:
        if rows <= len(self._near):
            return
        more = max(rows, 2 * len(self._near)) - len(self._near)
        self._near = np.pad(self._near, ((0, more), (0, 0)))
        self._sums = np.pad(self._sums, ((0, more), (0, 0)), constant_values=np.inf)

    def _fill(self, positions: np.ndarray) -> None:
        if self._count > _LOOKED_AT:
            for position in positions:
                self._store(np.array([position]), self._others(int(position))[None])
            return
        others = np.broadcast_to(np.arange(self._count), (len(positions), self._count))
        others = others[others != positions[:, None]].reshape(len(positions), -1)
        self._store(positions, others)

    def _store(self, positions: np.ndarray, others: np.ndarray) -> None:
        """Keep rows: of ``others``, a row of positions for each position, the nearest ones."""
        here = self._coordinates[positions]
        away = np.abs(self._coordinates[others] - here[:, None]).sum(axis=2)
        width = self._near.shape[1]
        if others.shape[1] > width:
            nearest = np.argpartition(away, width - 1, axis=1)[:, :width]
            nearest.sort(axis=1)  # the order of the list, whatever the partition made of it
            others = np.take_along_axis(others, nearest, axis=1)
            away = np.take_along_axis(away, nearest, axis=1)
        # Relative to the nearest: weights of far choices alone must not underflow.
        weights = np.exp2(-2.0 * (away - away.min(axis=1, keepdims=True)).astype(np.float64))
        rows = slice(self._used, self._used + len(positions))
        self._near[rows] = others
        numbers = np.arange(rows.start, rows.stop)
        sums = np.cumsum(weights, axis=1)
        self._sums[rows] = sums / sums[:, -1:] + numbers[:, None]
        self._slots[positions] = numbers
        self._used = rows.stop

    def _others(self, position: int) -> np.ndarray:
        drawn = np.random.default_rng(position).integers(0, self._count, _LOOKED_AT - 2 * NEAREST)
        beside = np.arange(position - NEAREST, position + NEAREST + 1)
        found = np.unique(np.concatenate([drawn, beside]))
        return found[(found >= 0) & (found < self._count) & (found != position)]
