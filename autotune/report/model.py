"""A cost model of a task's trials: how well it predicts, and from which knobs.

Everything is out of sample: the successes are dealt into folds, and each is predicted by a model
that was fitted to the other folds. Failures are left out: they have no cost to predict. A knob
matters as much as the predictions get worse when its choices are shuffled among the trials of a
fold (permutation importance; Breiman, "Random Forests", 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whet.autotune.samplers.model.cost_model import CostModel, spearman

FOLDS = 5
ROWS = 1500
"""Trials that a model is fitted to at most: five fits of these take half a second."""
FEWEST = 20
"""Successes below which a model says nothing."""
SHUFFLES = 3


@dataclass(frozen=True)
class Predictions:
    """Predicted beside measured costs, out of sample.

    Attributes:
        rows: which of the trials were used, rising.
        predicted: seconds per call, one for each of ``rows``.
        measured: the same, measured.
        importance: by knob, the share of the variance of log(cost) that the predictions lose
            when the knob is shuffled; the largest first. About 0: the knob does not matter.
        sampled: whether there were more successes than a model was fitted to.
    """

    rows: np.ndarray
    predicted: np.ndarray
    measured: np.ndarray
    importance: dict[str, float]
    sampled: bool

    @property
    def spearman(self) -> float:
        """Rank correlation of predicted and measured: 1 is the right order, 0 is chance."""
        return spearman(self.predicted, self.measured)

    @property
    def typical_error(self) -> float:
        """The factor within which half of the predictions are."""
        return float(np.exp(np.median(np.abs(np.log(self.predicted / self.measured)))))


def cross_validate(
    costs: Sequence[float] | np.ndarray,
    knobs: np.ndarray,
    owners: Sequence[str],
    loops: np.ndarray | None = None,
    seed: int = 0,
) -> Predictions | None:
    """Predict every success from the others.

    Args:
        costs: seconds per call, infinity for a failure; n of them.
        knobs: float32 (n, k): what is known of the configs.
        owners: the knob of each column.
        loops: float32 (n, d): features of the loops, where the log has them; NaN where unknown.
        seed: of the folds, the shuffles and the fits.

    Returns:
        None where too few worked, or all cost the same.
    """
    values = np.asarray(costs, dtype=np.float64)
    ok = chosen = np.flatnonzero(np.isfinite(values))
    if len(ok) < FEWEST or np.ptp(values[ok]) == 0 or not knobs.shape[1]:
        return None
    rng = np.random.default_rng(seed)
    if len(ok) > ROWS:
        chosen = np.sort(rng.choice(ok, ROWS, replace=False))
    values, knobs = values[chosen], knobs[chosen]
    fold = rng.permutation(len(chosen)) % FOLDS
    scores = -np.log(values)  # higher is better

    def models(table: np.ndarray) -> list[CostModel]:
        others = [fold != k for k in range(FOLDS)]
        return [CostModel.fit(table[rows], scores[rows], seed) for rows in others]

    of_knobs = models(knobs)
    importance = _importance(of_knobs, fold, scores, knobs, np.asarray(owners), rng)
    table = knobs if loops is None else np.concatenate([knobs, loops[chosen]], axis=1)
    predicted = np.zeros(len(chosen))
    for k, model in enumerate(of_knobs if loops is None else models(table)):
        predicted[fold == k] = model.predict(table[fold == k])
    return Predictions(chosen, np.exp(-predicted), values, importance, len(ok) > len(chosen))


def _importance(
    models: Sequence[CostModel],
    fold: np.ndarray,
    scores: np.ndarray,
    knobs: np.ndarray,
    owners: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, float]:
    """By knob, the share of the variance that is lost when it is shuffled, largest first."""
    rises = dict.fromkeys(owners.tolist(), 0.0)
    for k, model in enumerate(models):
        here, true = knobs[fold == k], scores[fold == k]
        error = np.square(model.predict(here) - true).sum()
        for name in rises:
            columns = np.flatnonzero(owners == name)
            for _ in range(SHUFFLES):
                shuffled = here.copy()
                shuffled[:, columns] = here[rng.permutation(len(here))][:, columns]
                worse = np.square(model.predict(shuffled) - true).sum()
                rises[name] += (worse - error) / SHUFFLES
    variance = len(scores) * float(np.var(scores))
    shares = {name: max(float(rise) / variance, 0.0) for name, rise in rises.items()}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
