"""The XGBoost sampler: a cost model learns which configs are fast, evolution asks it for more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whet.autotune.samplers.contract.history import History
from whet.autotune.samplers.contract.planned import Plan, PlannedSampler
from whet.autotune.samplers.model.acquisition import diverse, relative_gain
from whet.autotune.samplers.model.candidates import Effort, evolve
from whet.autotune.samplers.model.featurizer import Featurizer, Programs, featurizers
from whet.autotune.samplers.model.gaussian import on_one_thread
from whet.autotune.samplers.model.posterior import Posterior

WARMUP = 8
"""Trials before the first fit."""
FIRST = 1024
"""Random configs that the first guesses choose their favourites from."""
EFFORT = Effort(drawn=256, generations=3, kept=64, children=4)
SHARED = 128
"""The first trial that is planned with shared candidates. Before it each posterior looks for its
own: what is known is little, and each trial counts."""
LEAN = Effort(drawn=128, generations=3, kept=32, children=3)
"""The effort of evolution for all posteriors together."""
BATCHES = ((64, 4), (128, 8), (256, 16), (512, 32), (1 << 62, 64))
"""Up to which trial how many proposals are planned at a time."""
EXPLORE = (0.05, 0.3)
"""The share of a batch that is random: the least, and that of a model that foretells nothing."""
SHORTLIST = 16
"""Candidates for each place of a batch, after evolution."""
LISTED = 384
"""Shared candidates after evolution at most."""
SPARE = 4
"""Points that each posterior chooses beyond its share: another may have chosen the same ones."""
DRAWN, FEW = 8, 2
"""Points that are drawn for a random one, so that one can be chosen that can be built: before and
from trial :data:`SHARED` on."""


@dataclass(frozen=True)
class Looks:
    """How many points' loop features a plan may ask for.

    Attributes:
        first: of so many random points the first guesses choose their favourites.
        evolving: whether evolution judges by them, too, or by the knobs only.
        shortlist: points for each place of a batch that are looked at in the end; several configs
            make one program.
        shared: the same, where the candidates are those of all posteriors.
    """

    first: int
    evolving: bool
    shortlist: int
    shared: int


AMPLE = Looks(FIRST, True, 64, 16)
SPARING = Looks(128, False, 8, 2)
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

    batches = BATCHES

    @cached_property
    def _featurizers(self) -> list[Featurizer]:
        return featurizers(self.space, self.features, self.prior, self.seed)

    @cached_property
    def _programs(self) -> Programs:
        return Programs(self.features)

    @cached_property
    def _looks(self) -> Looks:
        if self.features is None:
            return AMPLE
        points = self.space.sample_points(self.rng(0, salt=6), TESTED)
        return SPARING if self.features.structures_of(points) > WIDE * TESTED else AMPLE

    @on_one_thread
    def plan(self, history: History, size: int) -> Plan:
        rng = self.rng(history.number, salt=5)
        if len(history.costs) < WARMUP or np.count_nonzero(np.isfinite(history.costs)) < 2:
            return Plan(self._first(history, rng, size))
        posteriors = [
            Posterior(self.space, featurizer, history, self.seed)
            for featurizer in self._featurizers
        ]
        if history.number < SHARED:
            plans = [self._promising(one, posteriors, history, rng, size) for one in posteriors]
        else:
            plans = self._shared(posteriors, history, rng, size)
        low, high = EXPLORE
        share = high + (low - high) * max(one.rank_correlation for one in posteriors)
        random = self._random(history, rng, int(np.count_nonzero(rng.random(size) < share)))
        mixed = history.untried(in_turns([plan.points for plan in plans]))
        mixed = mixed[self._programs.new(history, mixed)][: size - len(random)]
        return Plan(np.concatenate([mixed, random]), max(plan.gain or 0.0 for plan in plans))

    def _promising(
        self,
        posterior: Posterior,
        posteriors: list[Posterior],
        history: History,
        rng: np.random.Generator,
        size: int,
    ) -> Plan:
        """A batch by one of the posteriors, whose last one knows the knobs only."""
        evolving = posterior if self._looks.evolving else posteriors[-1]
        # Where a guess leads, what it says is followed; where nothing does, the unknown draws, too.
        judge = evolving.mean if self._featurizers[0].guesses else evolving.improvement
        points, _ = evolve(self.space, history, judge, rng, EFFORT, self.seeds)
        points = self._shortlist(points[: self._looks.shortlist * size], history)
        chosen, gain = posterior.chosen(points[: SHORTLIST * size], history.pending, size)
        return Plan(points[chosen], relative_gain(gain))

    def _shared(
        self,
        posteriors: list[Posterior],
        history: History,
        rng: np.random.Generator,
        size: int,
    ) -> list[Plan]:
        """A part of a batch by each posterior, from the candidates that all like on average."""
        judges = posteriors if self._looks.evolving else posteriors[-1:]

        def judge(points: np.ndarray) -> np.ndarray:
            return np.mean([one.mean(points) for one in judges], axis=0)

        points, _ = evolve(self.space, history, judge, rng, LEAN, self.seeds)
        points = self._shortlist(points[: self._looks.shared * size], history)[:LISTED]
        share = -(-size // len(posteriors)) + SPARE
        chosen = [one.chosen(points, history.pending, share) for one in posteriors]
        return [Plan(points[of], relative_gain(gain)) for of, gain in chosen]

    def _shortlist(self, points: np.ndarray, history: History) -> np.ndarray:
        """The points that can be built and whose programs are not tried."""
        points = points[~np.isnan(self._featurizers[0].of(points)[1])]
        return points[self._programs.new(history, points)]

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
        """The points among ``drawn`` that are guessed to be fast, and differ."""
        guess = np.nan_to_num(featurizer.of(drawn)[1], nan=-np.inf)
        points = drawn[np.argsort(-guess, kind="stable")]
        points = points[self._programs.new(history, points)]
        return points[diverse(points, wanted)]

    def _random(self, history: History, rng: np.random.Generator, count: int) -> np.ndarray:
        """Random untried points, of which it is not known that they cannot be built."""
        each = DRAWN if history.number < SHARED else FEW
        drawn = history.untried(self.space.sample_points(rng, each * count))
        fails = np.isnan(self._featurizers[0].of(drawn)[1])
        return drawn[np.argsort(fails, kind="stable")[:count]]


def in_turns(lists: list[np.ndarray]) -> np.ndarray:
    """The rows of several arrays, one of each in turn, as long as they last."""
    longest = max(len(rows) for rows in lists)
    return np.concatenate([rows[i : i + 1] for i in range(longest) for rows in lists] or lists)
