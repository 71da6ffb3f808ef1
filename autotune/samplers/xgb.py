"""The XGBoost sampler: a cost model learns which configs are fast, evolution asks it for more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.samplers.contract.history import History
from whet.autotune.samplers.contract.planned import Plan, PlannedSampler
from whet.autotune.samplers.model.acquisition import diverse, expected_improvement, relative_gain
from whet.autotune.samplers.model.candidates import Effort, evolve
from whet.autotune.samplers.model.featurizer import Featurizer, Programs, featurizers
from whet.autotune.samplers.model.gaussian import on_one_thread
from whet.autotune.samplers.model.posterior import Posterior

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import Features
    from whet.autotune.search.transfer import Prior
    from whet.search_spaces import ConfigSpace

WARMUP = 8
"""Trials before the first fit."""
FIRST = 1024
"""Random configs that the first guesses choose their favourites from."""
EFFORT = Effort(drawn=256, generations=3, kept=64, children=4)
EXPLORE = (0.05, 0.3)
"""The share of a batch that is random: the least, and that of a model that foretells nothing."""
SHORTLIST = 16
"""Candidates for each place of a batch, after evolution."""
DRAWN = 8
"""Points that are drawn for a random one, so that one can be chosen that can be built."""


@dataclass(frozen=True)
class Looks:
    """How many points' loop features a plan may ask for.

    Attributes:
        first: of so many random points the first guesses choose their favourites.
        evolving: whether evolution judges by them, too, or by the knobs only.
        shortlist: points for each place of a batch that are looked at in the end; several configs
            make one program.
    """

    first: int
    evolving: bool
    shortlist: int


AMPLE = Looks(FIRST, True, 64)
SPARING = Looks(128, False, 8)
"""Where nearly each point has a structure of its own, whose features cost milliseconds."""
TESTED = 64
"""Random points whose structures are counted."""
WIDE = 0.4
"""Structures a point from which on a space is looked at sparingly."""


class XGBSampler(PlannedSampler):
    """Whole configs that are expected to improve on the best, by all that is known.

    Evolution looks for the highest expected scores among a thousand candidates. Of the best of
    them, those with the largest expected improvement fill the batch, each as if those before it
    and those in flight had turned out as predicted. A share of random configs, the larger the worse
    the trials could be foretold, keeps the models from erring for ever about what they never see.

    A first guess is the analytic estimate among the loop features, or a model of other tasks'
    trials. One that is right nearly everywhere can be wrong where it matters, and then blinds what
    is built on it; so a batch is shared with models that began with another guess, and with none.
    All learn from all trials. The first trials are favourites of each guess; random ones where
    there is none.
    """

    def __init__(
        self,
        space: ConfigSpace,
        seed: int = 0,
        features: Features | None = None,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(space, seed, features, prior)
        self._featurizers = featurizers(space, features, prior, seed)
        self._featurizer = self._featurizers[0]
        self._programs = Programs(features)
        self._features = features
        starts = np.asarray(self._seeds, dtype=np.int64)
        self._starts = starts.reshape(len(self._seeds), len(space.knobs))

    @cached_property
    def _looks(self) -> Looks:
        if self._features is None:
            return AMPLE
        points = self.space.sample_points(self.rng(0, salt=6), TESTED)
        return SPARING if self._features.structures_of(points) > WIDE * TESTED else AMPLE

    @on_one_thread
    def plan(self, history: History, size: int) -> Plan:
        rng = self.rng(history.number, salt=5)
        if len(history.costs) < WARMUP or np.count_nonzero(np.isfinite(history.costs)) < 2:
            return Plan(self._first(history, rng, size))
        judged = [
            Posterior(self.space, featurizer, history, self.seed)
            for featurizer in self._featurizers
        ]
        # the last featurizer is of the knobs only
        judges = judged if self._looks.evolving else [judged[-1]] * len(judged)
        views = [
            self._promising(posterior, judge, history, rng, size)
            for posterior, judge in zip(judged, judges)
        ]
        low, high = EXPLORE
        share = high + (low - high) * max(view.rank_correlation for view in views)
        random = self._random(history, rng, int(np.count_nonzero(rng.random(size) < share)))
        mixed = history.untried(in_turns([view.points for view in views]))
        mixed = mixed[self._programs.new(history, mixed)][: size - len(random)]
        return Plan(np.concatenate([mixed, random]), max(view.gain for view in views))

    def _promising(
        self,
        posterior: Posterior,
        evolving: Posterior,
        history: History,
        rng: np.random.Generator,
        size: int,
    ) -> _View:
        """The points that fill a batch by one posterior, and the gain that they promise.

        Args:
            posterior: chooses in the end.
            evolving: guides evolution.
            history: what is tried.
            rng: the random numbers.
            size: of the batch.
        """
        # Where a guess leads, what it says is followed; where nothing does, the unknown draws, too.
        judge = evolving.mean if self._featurizer.guesses else evolving.improvement
        points, _ = evolve(self.space, history, judge, rng, EFFORT, self._starts)
        points = points[: self._looks.shortlist * size]
        points = points[~np.isnan(self._featurizer.of(points)[1])]
        points = points[self._programs.new(history, points)[: SHORTLIST * size]]
        scores = posterior.mean(points)
        process = posterior.fantasised(history.pending)
        chosen: list[int] = []
        gain = 0.0
        for _ in range(min(size, len(points))):
            deviation = posterior.deviation(process, points)
            improvement = expected_improvement(scores, deviation, posterior.best)
            improvement[chosen] = -1.0
            chosen.append(int(np.argmax(improvement)))
            gain = max(gain, float(improvement[chosen[-1]]))
            process = process.fantasised(self.space.coordinates(points[chosen[-1:]]))
        return _View(points[chosen], posterior.rank_correlation, relative_gain(gain))

    def _first(self, history: History, rng: np.random.Generator, size: int) -> np.ndarray:
        """Favourites of each first guess in turn; random points where there is none."""
        guessing = [featurizer for featurizer in self._featurizers if featurizer.guesses]
        if not guessing:
            return self._random(history, rng, size)
        # of a sample, not of all: what is guessed to be the very best is much alike
        drawn = history.untried(self.space.sample_points(rng, self._looks.first))
        liked = [self._favourites(featurizer, history, drawn, size) for featurizer in guessing]
        if history.number // size % 2:  # where one place is left, each guess has its turn
            liked.reverse()
        return history.untried(in_turns(liked))[:size]

    def _favourites(
        self, featurizer: Featurizer, history: History, drawn: np.ndarray, wanted: int
    ) -> np.ndarray:
        """Those of the points ``drawn`` that are guessed to be fast, and differ."""
        guess = np.nan_to_num(featurizer.of(drawn)[1], nan=-np.inf)
        points = drawn[np.argsort(-guess, kind="stable")]
        points = points[self._programs.new(history, points)]
        return points[diverse(points, wanted)]

    def _random(self, history: History, rng: np.random.Generator, count: int) -> np.ndarray:
        """Random untried points, of which it is not known that they cannot be built."""
        drawn = history.untried(self.space.sample_points(rng, DRAWN * count))
        fails = np.isnan(self._featurizer.of(drawn)[1])
        return drawn[np.argsort(fails, kind="stable")[:count]]


@dataclass(frozen=True)
class _View:
    """Proposals by one featurizer: points, its rank correlation, its expected gain."""

    points: np.ndarray
    rank_correlation: float
    gain: float


def in_turns(lists: list[np.ndarray]) -> np.ndarray:
    """The rows of several arrays, one of each in turn, as long as they last."""
    longest = max(len(rows) for rows in lists)
    return np.concatenate([rows[i : i + 1] for i in range(longest) for rows in lists] or lists)
