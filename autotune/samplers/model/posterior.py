"""The posterior of untried configs: a mean and an uncertainty of the score.

Two models that err differently are averaged: boosted trees over the features of knobs and loops,
and a Gaussian process over the knobs' coordinates, whose uncertainty grows with the distance from
what was tried. The process is fitted to what the first guess leaves, as far as the trials bear it
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.samplers.model.acquisition import expected_improvement, varied
from whet.autotune.samplers.model.cost_model import CostModel, labels
from whet.autotune.samplers.model.gaussian import Deviations, Gaussian, subsample

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.history import History
    from whet.autotune.samplers.model.featurizer import Featurizer
    from whet.search_spaces import ConfigSpace

DOUBT = 4.0
"""Trials that speak for a guess of no worth before any speaks for another."""
DECAY = 32.0
"""Trials after which a guess counts half: what is fastest may be what it does not understand."""
LEARNT = 1024
"""Trials that the trees are fitted to: the best, and the latest."""
CANNOT = 100.0
"""How much worse than all others a config counts that cannot be built."""


class Posterior:
    """The models as fitted to a history.

    Args:
        space: the space that is searched.
        featurizer: its points' features.
        history: the trials; at least two worked.
        seed: of the trees' sampling.

    Attributes:
        best: the score of the best trial.
        rank_correlation: of leave-one-out predictions and scores, 0 to 1.
    """

    def __init__(
        self, space: ConfigSpace, featurizer: Featurizer, history: History, seed: int
    ) -> None:
        self._space, self._featurizer = space, featurizer
        y = labels(history.costs).astype(np.float64)
        kept = subsample(y, LEARNT)
        points, y = history.told_points(kept), y[kept]
        features, guess = featurizer.of(points)
        self._slope, self._offset = fitted_line(guess, y)
        rest = y - self._line(guess)
        self._trees = CostModel.fit(features, y, seed)
        kept = subsample(y)
        self._process = Gaussian.fit(space.coordinates(points[kept]), rest[kept])
        mean, deviation = self._process.leave_one_out()
        self.rank_correlation = max(0.0, rank_correlation(mean + y[kept] - rest[kept], y[kept]))
        z = np.square((rest[kept] - mean) / deviation)
        # between a half and two: a handful of residuals says no more
        self._calibration = float(np.clip(np.sqrt(np.mean(z)), 0.5, 2.0))
        self.best = float(y.max())

    def mean(self, points: np.ndarray) -> np.ndarray:
        """The expected scores of points, shape ``(n,)``."""
        features, guess = self._featurizer.of(points)
        process = self._process.mean(self._space.coordinates(points)) + self._line(guess)
        return 0.5 * (self._trees.predict(features) + process) - CANNOT * np.isnan(guess)

    def improvement(self, points: np.ndarray) -> np.ndarray:
        """The expected improvement of points on the best score, shape ``(n,)``."""
        deviation = self._calibration * self._process.predict(self._space.coordinates(points))[1]
        return expected_improvement(self.mean(points), deviation, self.best)

    def chosen(self, points: np.ndarray, pending: np.ndarray, size: int) -> tuple[list[int], float]:
        """Points of the largest expected improvement, each as if those before it were as predicted.

        Args:
            points: the candidates.
            pending: trials in flight, which are taken to be as predicted.
            size: how many are chosen at most.

        Returns:
            Their numbers, and the largest improvement of the best score.
        """
        scores = self.mean(points)
        process = self._process.fantasised(self._space.coordinates(pending))
        deviations = Deviations(process, self._space.coordinates(points), size)

        def improvement(deviation: np.ndarray) -> np.ndarray:
            return expected_improvement(scores, self._calibration * deviation, self.best)

        return varied(deviations, improvement, size)

    def _line(self, guess: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(guess), self._offset, self._offset + self._slope * guess)


def fitted_line(guess: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and offset of ``y = offset + slope * guess``, where the guess is not NaN.

    The slope is between 0 and 1: near 0 while few trials speak for it, and again when there are
    many, from which more can be learnt.
    """
    known = ~np.isnan(guess)
    if np.count_nonzero(known) < 2:
        return 0.0, float(y.mean())
    x, v = guess[known], y[known]
    shared = float(np.cov(x, v, bias=True)[0, 1])
    slope = shared / (float(np.var(x)) * (1 + DOUBT / len(x)) + 1e-9)
    slope = min(max(slope, 0.0), 1.0) * DECAY / (DECAY + len(x))
    return slope, float(v.mean() - slope * x.mean())


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's, -1 to 1; 0 where one of them is constant."""
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    one, two = (np.argsort(np.argsort(v, kind="stable")).astype(np.float64) for v in (a, b))
    return float(np.corrcoef(one, two)[0, 1])
