"""The cost model: a boosted-tree regression from a config's features to how fast it will be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ROUNDS = 80
PARAMETERS: dict[str, Any] = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 4,
    "eta": 0.15,
    "subsample": 0.9,
    "colsample_bytree": 0.8,
    "nthread": 1,  # more would disturb the measurements; also keeps a fit reproducible
    "verbosity": 0,
}
FAILED = float(np.log(2.0))
"""How much worse than the worst success a failed config counts: a factor of two."""


class CostModel:
    """Predicts a score, higher is better, from features.

    It is fitted from scratch each time: continuing an old model was measured to predict much
    worse (Spearman 0.66 against 0.90) and saves little.
    """

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    @classmethod
    def fit(cls, features: np.ndarray, costs: Sequence[float], seed: int = 0) -> CostModel:
        """A model of the measured costs.

        Args:
            features: float32 array of shape (n, d).
            costs: n costs in seconds; infinity for a failed config. At least one is finite.
            seed: seed of the rows' and columns' sampling.
        """
        import xgboost

        data = xgboost.DMatrix(features, label=labels(costs), nthread=PARAMETERS["nthread"])
        parameters = PARAMETERS | {"seed": seed % (1 << 31)}
        return cls(xgboost.train(parameters, data, num_boost_round=ROUNDS))

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Scores, shape (n,), for features of shape (n, d)."""
        return self._booster.inplace_predict(features)


def labels(costs: Sequence[float]) -> np.ndarray:
    """The regression's targets: log of (best cost / cost), so 0 is the best known config.

    A logarithm, because candidates differ by factors; failures are a little worse than the worst.
    """
    values = np.asarray(costs, dtype=np.float64)
    finite = np.isfinite(values)
    scores = np.log(values[finite].min()) - np.log(values, where=finite, out=np.zeros_like(values))
    scores[~finite] = scores[finite].min() - FAILED
    return scores.astype(np.float32)
