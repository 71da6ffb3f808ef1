"""The quasi-Monte-Carlo sampler: scrambled Sobol points, which fill a space evenly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from whet.autotune.samplers.contract.sequence import SequenceSampler

BLOCK = 128
"""Points of the sequence that are made at a time: a power of two, as Sobol sequences want it."""
BARREN = 64
"""Blocks in a row without a valid point, after which invalid ones are repaired."""
TIMES = 64
"""The sequence ends after so many points for each config of the space: what is left is random."""
LENGTH = 1 << 24
"""Points of the sequence at most; the numbers that it is made of have 30 bits."""
DIMENSIONS = 21_201
"""Dimensions that there are direction numbers for."""


class QMCSampler(SequenceSampler):
    """A Sobol sequence over the knobs' positions, less the points that constraints exclude.

    What is left of an even sequence is even over the valid points. Where constraints leave next
    to nothing, its points are moved to the nearest valid ones instead.

    Source: I. M. Sobol', 1967; the scrambling is A. B. Owen's, as scipy has it.
    """

    def blocks(self) -> Iterator[np.ndarray]:
        from scipy.stats import qmc  # half a second, which importing this file shall not cost

        dims = np.asarray(self.space.dims, dtype=np.int64)
        free = np.flatnonzero(dims > 1)[:DIMENSIONS]
        if not len(free):
            yield np.zeros((1, len(dims)), dtype=np.int64)
            return
        with warnings.catch_warnings():  # about lengths that are no powers of two
            warnings.simplefilter("ignore")
            sobol = qmc.Sobol(len(free), rng=np.random.default_rng(self.seed))
        barren = 0
        for _ in range(-(-min(LENGTH, TIMES * self.space.size) // BLOCK)):
            points = np.zeros((BLOCK, len(dims)), dtype=np.int64)
            points[:, free] = (sobol.random(BLOCK) * dims[free]).astype(np.int64)
            valid = self.space.valid(points)
            if barren < BARREN:
                barren = 0 if valid.any() else barren + 1
                points = points[valid]
            else:
                points = np.asarray([self.space.repair(p) for p in points], dtype=np.int64)
            if len(points):
                yield points
