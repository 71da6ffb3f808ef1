"""The TPE sampler: Optuna's tree-structured Parzen estimator, made a function of the history."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import TrialState, create_trial

from whet.autotune.samplers.contract.base import SpaceSampler
from whet.autotune.samplers.contract.history import History, Point
from whet.autotune.samplers.model.gaussian import subsample

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

EPOCH = 32
"""Trials after which TPE's subsample is chosen anew."""
SUBSAMPLE = 512
"""Trials that TPE learns from: half the best, half the latest. Its time grows with their number."""


class TPE(SpaceSampler):
    """Optuna's TPE, multivariate, with its constant liar for the trials in flight.

    TPE is asked about a study of its own, which holds a bounded part of the search. Each draw comes
    from a new ``TPESampler`` whose seed is made from ours, the trial's number and the attempt, so
    that a resumed search goes on as if it had never stopped. TPE learns nothing from trials that
    Optuna calls failed, therefore it observes failures as infinite costs.
    """

    _mirror: _Mirror | None = None

    def propose(self, history: History) -> Point:
        mirror = self._mirror
        if mirror is None or not mirror.extend(history):
            mirror = self._mirror = _Mirror(self.distributions, history)
        return self.untried(lambda n: mirror.draw(self._inner(history.number, n)), history)

    def _inner(self, number: int, attempt: int) -> TPESampler:
        state = np.random.SeedSequence((self.seed, number, attempt)).generate_state(1)
        with warnings.catch_warnings():  # before Optuna 5 these two options were experimental
            warnings.simplefilter("ignore", ExperimentalWarning)
            return TPESampler(seed=int(state[0]), multivariate=True, constant_liar=True)


class _Mirror:
    """The subsample of a search that TPE learns from, as a study of its own.

    Args:
        distributions: of the study's parameters.
        history: the search so far.
    """

    def __init__(self, distributions: dict[str, BaseDistribution], history: History) -> None:
        self._distributions = distributions
        self.study: Study = optuna.create_study(direction="minimize")
        self._epoch = history.number // EPOCH
        self._last = start = history.before(self._epoch * EPOCH)
        chosen = subsample(-start.costs, SUBSAMPLE).tolist()
        points = start.told_points(np.asarray(chosen, dtype=np.int64))
        costs = [float(start.costs[n]) for n in chosen]
        self.study.add_trials(list(map(self._trial, points, costs)))
        self._places: dict[int, int] = {}
        self._place(start, start.pending_rows)
        self._add(history)

    def extend(self, history: History) -> bool:
        """Add what is new in ``history``; False where another mirror is needed."""
        if history.number // EPOCH != self._epoch or not history.follows(self._last):
            return False
        self._add(history)
        return True

    def draw(self, sampler: TPESampler) -> Point:
        """The next proposal of ``sampler``."""
        self.study.sampler = sampler
        trial = self.study.ask(self._distributions)
        self.study.tell(trial, state=TrialState.FAIL)  # the loop decides what is tried
        return tuple(int(trial.params[name]) for name in self._distributions)

    def _add(self, history: History) -> None:
        self._place(history, np.arange(self._last.rows, history.rows))
        for told in range(self._last.told, history.told):
            row = int(history.told_rows[told])
            self.study.tell(self._places.pop(row), float(history.costs[told]))
        self._last = history

    def _place(self, history: History, rows: np.ndarray) -> None:
        """Add the points of rows that have no cost yet."""
        for row, point in zip(rows.tolist(), history.row_points(rows)):
            self._places[row] = len(self.study.get_trials(deepcopy=False))
            self.study.add_trial(self._trial(point, None))

    def _trial(self, point: np.ndarray, cost: float | None) -> optuna.trial.FrozenTrial:
        return create_trial(
            state=TrialState.RUNNING if cost is None else TrialState.COMPLETE,
            value=cost,
            params=dict(zip(self._distributions, map(int, point))),
            distributions=dict(self._distributions),
        )
