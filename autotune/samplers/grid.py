"""The grid sampler: every config in the order of the space's index."""

from __future__ import annotations

from whet.autotune.samplers.base import Code, History, SpaceSampler, first_free


class GridSampler(SpaceSampler):
    """All configs from index 0 on, the last knob turning fastest; the seed means nothing.

    For spaces small enough to be tried whole: a budget that ends before the space does has only
    seen the first choices of the first knobs.
    """

    def propose(self, history: History) -> Code:
        cardinalities = self.space.cardinalities
        return first_free((0,) * len(cardinalities), history.taken, cardinalities)
