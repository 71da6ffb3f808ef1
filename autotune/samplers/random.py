"""The random sampler: every config equally likely, none twice."""

from __future__ import annotations

from whet.autotune.samplers.base import Code, History, SpaceSampler


class RandomSampler(SpaceSampler):
    """Uniform draws without repetition: the baseline that every other sampler has to beat."""

    def propose(self, history: History) -> Code:
        return self.fresh(self.rng(history.number), history.taken)
