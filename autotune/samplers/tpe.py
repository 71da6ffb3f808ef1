"""The TPE sampler: Optuna's tree-structured Parzen estimator, made a function of the history."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import TrialState, create_trial

from whet.autotune.samplers.contract.base import SpaceSampler, point_of
from whet.autotune.samplers.contract.history import History, Point

if TYPE_CHECKING:
    from optuna.study import Study

ATTEMPTS = 8
"""Draws before a mutation of the last one is tried: TPE repeats its favourite."""
EPOCH = 32
"""Trials after which what TPE is shown is chosen anew."""
SHOWN = 512
"""Trials that TPE is shown: half the best, half the latest. Its time grows with their number."""


class TPE(SpaceSampler):
    """Optuna's TPE, multivariate, with its constant liar for the trials in flight.

    TPE is asked about a study of its own, which holds a bounded part of the search. Each draw comes
    from a new ``TPESampler`` whose seed is made from ours, the trial's number and the attempt, so
    that a resumed search goes on as if it had never stopped. TPE learns nothing from trials that
    Optuna calls failed, therefore failures are told to it as infinite costs.
    """

    _mirror: _Mirror | None = None

    def propose(self, history: History) -> Point:
        mirror = self._mirror
        if mirror is None or not mirror.extend(history):
            mirror = self._mirror = _Mirror(self, history)
        point: Point = ()
        for attempt in range(ATTEMPTS):
            point = mirror.draw(self.distributions, self._inner(history.number, attempt))
            point = point_of(self.space.repair(point))
            if not history.is_taken(point):
                return point
        return self.near(point, history)

    def _inner(self, number: int, attempt: int) -> TPESampler:
        state = np.random.SeedSequence((self.seed, number, attempt)).generate_state(1)
        with warnings.catch_warnings():  # before Optuna 5 these two options were experimental
            warnings.simplefilter("ignore", ExperimentalWarning)
            return TPESampler(seed=int(state[0]), multivariate=True, constant_liar=True)


class _Mirror:
    """The part of a search that TPE is shown, as a study of its own.

    Args:
        sampler: whose distributions the study has.
        history: what is known now.
    """

    def __init__(self, sampler: TPE, history: History) -> None:
        self._sampler = sampler
        self.study: Study = optuna.create_study(direction="minimize")
        self._epoch = history.number // EPOCH
        self._last = history
        start = history.before(self._epoch * EPOCH)
        self._shown = {number: place for place, number in enumerate(subsample(start.costs))}
        self.study.add_trials(
            [self._trial(start, number, start.costs[number]) for number in self._shown]
        )
        self._told = self._asked = len(start.costs)
        self._show(history)

    def extend(self, history: History) -> bool:
        """Add what is new in ``history``; False where another mirror is needed."""
        if history.number // EPOCH != self._epoch or not history.follows(self._last):
            return False
        self._show(history)
        return True

    def draw(self, dists: dict, sampler: TPESampler) -> Point:
        """What ``sampler`` would try next."""
        self.study.sampler = sampler
        trial = self.study.ask(dists)
        self.study.tell(trial, state=TrialState.FAIL)  # the loop decides what is tried
        return tuple(int(trial.params[name]) for name in dists)

    def _show(self, history: History) -> None:
        for number in range(self._asked, history.number):
            self._shown[number] = len(self.study.get_trials(deepcopy=False))
            self.study.add_trial(self._trial(history, number, None))
        for number in range(self._told, len(history.costs)):
            self.study.tell(self._shown[number], float(history.costs[number]))
        self._asked, self._told, self._last = history.number, len(history.costs), history

    def _trial(self, history: History, number: int, cost: float | None) -> optuna.trial.FrozenTrial:
        dists = self._sampler.distributions
        return create_trial(
            state=TrialState.RUNNING if cost is None else TrialState.COMPLETE,
            value=None if cost is None else float(cost),
            params=dict(zip(dists, map(int, history.points[number]))),
            distributions=dict(dists),
        )


def subsample(costs: np.ndarray) -> list[int]:
    """The numbers of at most :data:`SHOWN` trials, in order: all, or half best and half latest."""
    if len(costs) <= SHOWN:
        return list(range(len(costs)))
    latest = len(costs) - SHOWN // 2
    best = np.argsort(costs[:latest], kind="stable")[: SHOWN // 2]
    return sorted(map(int, best)) + list(range(latest, len(costs)))
