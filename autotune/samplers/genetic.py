"""The genetic sampler: selection, crossover and mutation over whole valid configs."""

from __future__ import annotations

import numpy as np

from whet.autotune.samplers.contract.base import SpaceSampler, point_of
from whet.autotune.samplers.contract.history import History, Point

STARTERS = 24
"""Random trials before the first child."""
POPULATION = 48
"""The best trials: the only ones that have children."""
TOURNAMENT = 3
"""Of so many members drawn at random, the best becomes a parent."""
CHILDREN = 16
"""Children that are made for a trial; the first untried one is it."""
CROSSED = 0.7
"""The share of children with two parents; the others are mutated copies of one."""
MUTATED = 0.5
"""The share of crossed children that are mutated, too."""


class GeneticSampler(SpaceSampler):
    """A steady-state genetic algorithm: each trial is a child of the best ones so far.

    For those who used AutoTVM's ``GATuner``; here no generation has to end before the next begins,
    and every child is valid.
    """

    def propose(self, history: History) -> Point:
        if (seed := self.seed_point(history)) is not None:
            return seed
        order = history.fastest(POPULATION)
        if history.number < STARTERS or len(order) < 2:
            return self.fresh(history)
        rng = self.rng(history.number, salt=2)
        untried = history.untried(self._children(history.told_points(order), rng))
        return point_of(untried[0]) if len(untried) else self.fresh(history)

    def _children(self, ranked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Points made of ``ranked``, the best of which comes first."""
        # of a tournament over a ranked list, the smallest place wins
        drawn = rng.integers(len(ranked), size=(2, CHILDREN, TOURNAMENT)).min(axis=2)
        mothers, fathers = ranked[drawn[0]], ranked[drawn[1]]
        crossed = rng.random(CHILDREN) < CROSSED
        mutated = ~crossed | (rng.random(CHILDREN) < MUTATED)
        children = mothers.copy()
        children[crossed] = self.space.cross_points(mothers[crossed], fathers[crossed], rng)
        children[mutated] = self.space.mutate_points(children[mutated], rng)
        return children
