"""The random sampler: every config equally likely, none twice."""

from __future__ import annotations

from whet.autotune.samplers.contract.base import SpaceSampler
from whet.autotune.samplers.contract.history import History, Point


class RandomSampler(SpaceSampler):
    """Uniform draws without repetition: the baseline that every other sampler has to beat."""

    def propose(self, history: History) -> Point:
        return self.fresh(history)
