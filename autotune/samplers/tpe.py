"""The TPE sampler: Optuna's tree-structured Parzen estimator, made a function of the history."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, TPESampler

from whet.autotune.samplers.foreign import ForeignSampler

if TYPE_CHECKING:
    from whet.search_spaces import ConfigSpace


class TPE(ForeignSampler):
    """Optuna's TPE, multivariate, with its constant liar for the trials in flight.

    Each draw comes from a new ``TPESampler`` whose seed is made from ours, the trial's number and
    the attempt, so that a resumed search goes on as if it had never stopped. TPE learns nothing
    from trials that Optuna calls failed, therefore failures are told to it as infinite costs.
    """

    failures_are_infinite = True

    def __init__(self, space: ConfigSpace, seed: int = 0) -> None:
        super().__init__(space, _tpe(seed), seed)

    def inner(self, number: int, attempt: int) -> BaseSampler:
        state = np.random.SeedSequence((self.seed, number, attempt)).generate_state(1)
        return _tpe(int(state[0]))


def _tpe(seed: int) -> TPESampler:
    with warnings.catch_warnings():  # before Optuna 5 these two options were experimental
        warnings.simplefilter("ignore", ExperimentalWarning)
        return TPESampler(seed=seed, multivariate=True, constant_liar=True)
