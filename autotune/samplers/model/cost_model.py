"""The cost model: a boosted-tree regression from a config's features to how fast it will be."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

ROUNDS = 80
PARAMETERS: dict[str, Any] = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 3,
    "eta": 0.15,
    "subsample": 0.9,
    "colsample_bytree": 0.8,
    # 256 bins cost four times the time at 1,000 rows of 120 columns: knobs have few values
    "max_bin": 32,
    "base_score": 0.0,
    "nthread": 1,  # more would disturb the measurements; also keeps a fit reproducible
    "verbosity": 0,
}
FAILED = float(np.log(2.0))
"""How much worse than the worst success a failed config counts: a factor of two."""


@dataclass(frozen=True)
class CostModel:
    """Predicts a score, higher is better, from features.

    It is fitted from scratch each time: continuing an old model was measured to predict much
    worse (Spearman 0.66 against 0.90) and saves little.
    """

    booster: Any
    center: float

    @staticmethod
    def fit(
        features: np.ndarray,
        scores: np.ndarray,
        seed: int = 0,
        weights: np.ndarray | None = None,
    ) -> CostModel:
        """A model of scores.

        Args:
            features: float32 array of shape (n, d); NaN: unknown.
            scores: n finite scores, e.g. :func:`labels` of costs.
            seed: seed of the rows' and columns' sampling.
            weights: how much each row counts, in (0, 1]; None: all alike.
        """
        import xgboost

        center = float(np.average(scores, weights=weights))
        data = xgboost.DMatrix(
            features, label=scores - center, weight=weights, nthread=PARAMETERS["nthread"]
        )
        parameters = PARAMETERS | {"seed": seed % (1 << 31)}
        return CostModel(xgboost.train(parameters, data, num_boost_round=ROUNDS), center)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Scores, shape (n,), for features of shape (n, d)."""
        return self.booster.inplace_predict(features) + self.center


def load_libraries() -> None:
    """Load what models are fitted with; where it cannot be loaded, the first fit says why."""
    with suppress(ImportError):
        import xgboost  # noqa: F401


def labels(costs: Sequence[float] | np.ndarray) -> np.ndarray:
    """The regression's targets: log of (best cost / cost), so 0 is the best known config.

    A logarithm, because candidates differ by factors; failures are a little worse than the worst.
    All are 0 where nothing is finite.
    """
    values = np.asarray(costs, dtype=np.float64)
    finite = np.isfinite(values) & (values > 0)
    if not finite.any():
        return np.zeros(len(values), dtype=np.float32)
    scores = np.log(values[finite].min()) - np.log(values, where=finite, out=np.zeros_like(values))
    scores[~finite] = scores[finite].min() - FAILED
    return scores.astype(np.float32)


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation; equal values share their mean rank. NaN where one side is all equal."""
    from scipy.stats import rankdata

    if not np.ptp(a) or not np.ptp(b):
        return float("nan")
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
