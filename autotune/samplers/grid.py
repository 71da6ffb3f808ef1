"""The grid sampler: every config in the order of the space's index."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from whet.autotune.samplers.contract.sequence import SequenceSampler

BLOCK = 64
"""Configs that are counted at a time."""


class GridSampler(SequenceSampler):
    """All valid configs from index 0 on, the last knob turning fastest; the seed means nothing.

    For spaces small enough to be tried whole: a budget that ends before the space does has only
    seen the first choices of the first knobs.
    """

    def blocks(self) -> Iterator[np.ndarray]:
        if not self.space.knobs:
            yield np.zeros((1, 0), dtype=np.int64)
            return
        configs = iter(self.space)
        while rows := [self.space.encode(c) for c in itertools.islice(configs, BLOCK)]:
            yield np.asarray(rows, dtype=np.int64).reshape(len(rows), len(self.space.knobs))
