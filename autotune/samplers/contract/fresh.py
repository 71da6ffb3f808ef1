"""Untried points of a space: drawn while most are left, counted out when few are."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from whet.compiler.errors import SpaceError

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.history import History
    from whet.search_spaces import ConfigSpace

SMALL = 64
"""Spaces of up to this many configs are counted out from the first trial on."""
SCANNED = 1 << 22
"""The longest range whose points are all looked at; a longer one is walked by its valid configs."""
DRAWS = 16_384
"""Points that are drawn in vain before a space whose size is an estimate counts as exhausted."""


class Fresh:
    """Draws valid points that a history has not taken.

    Args:
        space: the space to draw from.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space

    def points(self, history: History, rng: np.random.Generator, count: int) -> np.ndarray:
        """Different untried points, uniformly drawn; fewer where fewer are left, at least one.

        Args:
            history: what is taken.
            rng: the random numbers.
            count: how many.

        Returns:
            int64 of shape ``(at most count, knobs)``.

        Raises:
            SpaceError: all are taken.
        """
        space, most = self._space, max(SMALL, 2 * (history.rows + count))
        if space.size_is_exact and space.size <= most:
            left = history.untried(self._counted)
            chosen = left[rng.permutation(len(left))[:count]]
        else:
            chosen = self._drawn(history, rng, count)
        if len(chosen):
            return chosen
        raise SpaceError(
            "propose another config",
            f"every config of the space is taken ({space.size} in all)",
            "a search ends when its space is exhausted",
        )

    def _drawn(self, history: History, rng: np.random.Generator, count: int) -> np.ndarray:
        untried = np.empty((0, len(self._space.knobs)), dtype=np.int64)
        drawn, block = 0, count + 8
        while len(untried) < count and drawn < DRAWS:
            more = self._space.sample_points(rng, block)
            untried = history.untried(np.concatenate([untried, more]))
            drawn, block = drawn + block, min(2 * block, DRAWS)
        return untried[:count]

    @cached_property
    def _counted(self) -> np.ndarray:
        """Every valid point, in the order of their indices."""
        space, length = self._space, self._space.range_length
        if length <= SCANNED:
            every = points_at(space, 0, length)
            return every[space.valid(every)]
        return np.asarray([space.encode(config) for config in space], dtype=np.int64)


def points_at(space: ConfigSpace, start: int, stop: int) -> np.ndarray:
    """The points of the indices from ``start`` up to ``stop``, valid or not."""
    rest = np.arange(stop - start)
    columns = []
    for count in reversed(space.dims):
        start, first = divmod(start, count)
        columns.append((rest + first) % count)
        rest = (rest + first) // count
    table = np.stack(columns[::-1], axis=1) if columns else np.zeros((len(rest), 0))
    return table.astype(np.int64)
