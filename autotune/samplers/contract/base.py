"""The contract of a sampler: whole valid configs, each proposed once."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from whet.autotune.samplers.contract.fresh import Fresh
from whet.autotune.samplers.contract.history import History, Point, Trials
from whet.compiler.errors import SpaceError

if TYPE_CHECKING:
    from optuna.study import Study

    from whet.autotune.search.transfer import Prior
    from whet.search_spaces import ConfigSpace


SUGGESTED = 8
"""Configs that the space suggests, e.g. one of each rule that may win, and that come early."""
ATTEMPTS = 8
"""Draws of a sampler that repeats itself before it gets a mutation of the last one instead."""
WALKERS, STEPS = 8, 4
"""How many mutations of one point are looked at, and how many steps they go."""


class Features(Protocol):
    """The loop features of a task's points."""

    def of_points(self, points: np.ndarray) -> np.ndarray:
        """float32 of shape ``(n, d)`` for int64 points ``(n, knobs)``; NaN: it cannot be built."""
        ...

    def structures_of(self, points: np.ndarray) -> int:
        """The number of structures of points; the features of each cost a run of a template."""
        ...


class SpaceSampler(BaseSampler):
    """An Optuna sampler over a :class:`~whet.search_spaces.ConfigSpace`.

    The contract, which one test class checks for every sampler:

    - *Legal.* A proposal is a whole config that the space's constraints admit, through
      ``sample_relative``. Optuna sees one static integer a knob, so that its own samplers
      understand the space as well.
    - *Once.* No config is proposed twice until the space is exhausted; then ``SpaceError``.
    - *Deterministic.* A proposal is a function of the seed, the trial's number, the history before
      it, and of which costs were observed when each of the trials before it was chosen. There is no
      random state that runs along, hence a search that was interrupted and resumed, wherever that
      was, proposes what the uninterrupted one would have: trials that are recorded are shown to
      the sampler one by one, each at its moment.
    - *Unbreakable.* A failed trial is evidence (cost: infinity), not an accident.
    - *Patient.* Some trials before it may still be in flight; they are taken, but have no cost.
      Costs come in any order, and so do trials of other searches, which have no number here.
    - *Light.* What it keeps grows by a constant for each trial.

    A subclass writes :meth:`propose`. It draws random numbers from :meth:`rng` only.

    Args:
        space: the space to sample from.
        seed: any integer from 0 on.
        features: loop features of the space's points, for samplers with a cost model.
        prior: what is known from other tasks, for samplers that learn.
    """

    def __init__(
        self,
        space: ConfigSpace,
        seed: int = 0,
        features: Features | None = None,
        prior: Prior | None = None,
    ) -> None:
        self.space = space
        self.seed = seed
        self.features = features
        self.prior = prior
        # One static integer a knob: the position of its choice.
        self.distributions: dict[str, BaseDistribution] = {
            name: IntDistribution(0, n - 1) for name, n in zip(space.knobs, space.dims)
        }
        self._fresh = Fresh(space)
        suggested = [space.nearest(one) for one in space.suggested[:SUGGESTED]]
        seeds = [space.encode(config) for config in (*(prior.seeds if prior else ()), *suggested)]
        self.seeds = np.array(seeds, dtype=np.int64).reshape(len(seeds), len(space.knobs))
        self._study: Study | None = None
        self._trials = Trials(len(space.knobs))

    @property
    def name(self) -> str:
        """The sampler's name in an error's text."""
        return type(self).__name__

    @abstractmethod
    def propose(self, history: History) -> Point:
        """The point of the config to try next; valid, and not taken in ``history``."""

    def expected_gain(self, history: History) -> float | None:
        """By how much the next proposals may improve on the best cost.

        Returns:
            A relative improvement (0.02: 2 %); None where the sampler has no opinion.
        """
        return None

    def rng(self, number: int, salt: int = 0) -> np.random.Generator:
        """Random numbers that belong to trial ``number``, and to nothing else."""
        return np.random.default_rng((self.seed, number, salt))

    def fresh(self, history: History, salt: int = 0) -> Point:
        """A random valid point that is not taken.

        Raises:
            SpaceError: all are taken.
        """
        return point_of(self._fresh.points(history, self.rng(history.number, salt), 1)[0])

    def untried(self, draw: Callable[[int], Sequence[int] | np.ndarray], history: History) -> Point:
        """The first untried one of :data:`ATTEMPTS` draws; a point near the last if there is none.

        Args:
            draw: makes the point of an attempt; an invalid one is moved to the nearest valid one.
            history: what is taken.
        """
        for attempt in range(ATTEMPTS):
            point = point_of(self.space.repair(draw(attempt)))
            if not history.is_taken(point):
                return point
        return self.near(point, history)

    def near(self, point: Point, history: History) -> Point:
        """An untried point close to ``point``: one to four steps of mutation away, if there is."""
        rng = self.rng(history.number, salt=1)
        walkers = np.asarray([point] * WALKERS, dtype=np.int64)
        for _ in range(STEPS):
            walkers = self.space.mutate_points(walkers, rng)
            untried = history.untried(walkers)
            if len(untried):
                return point_of(untried[0])
        return self.fresh(history, salt=1)

    def seed_point(self, history: History) -> Point | None:
        """The next of the prior's seeds, which come first, while it is their turn."""
        if history.number > len(self.seeds):
            return None
        return next(map(point_of, history.untried(self.seeds)), None)

    def history(self, study: Study, before: FrozenTrial | None = None) -> History:
        """The history of ``study`` before trial ``before``, chosen now; None: all of it."""
        if study is not self._study:
            self._study, self._trials, self._in_flight = study, Trials(len(self.space.knobs)), []
        known, trials = self._trials, study.get_trials(deepcopy=False)
        number = len(trials) if before is None else before.number
        for trial in trials[known.proposed : number]:
            self._in_flight.append(known.ask(point_of_trial(trial, self.distributions)))
        waiting = []
        for early in self._in_flight:
            cost = cost_of(trials[early]) if early < number else math.nan
            if math.isnan(cost):
                waiting.append(early)
            else:
                known.observe(early, cost, point_of_trial(trials[early], self.distributions))
        self._in_flight = waiting
        if number < known.proposed and (then := known.history_at(number)) is not None:
            return then
        if before is not None:
            known.begin()
        return known.history(number)

    # Optuna's side of it.

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return dict(self.distributions)  # static: does not depend on the history

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        point = self.propose(self.history(study, trial))
        return dict(zip(self.distributions, point))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        raise SpaceError(
            f"sample {param_name!r}",
            "it is not a knob of the space that this sampler was made for",
            f"knobs: {', '.join(self.distributions)}",
        )


def point_of(row: Sequence[int] | np.ndarray) -> Point:
    """A row of positions as a point."""
    return tuple(map(int, row))


def point_of_trial(trial: FrozenTrial, dists: dict[str, BaseDistribution]) -> Point | None:
    """The point of a trial; None before all its parameters are drawn."""
    params = trial.params
    return tuple(int(params[name]) for name in dists) if len(params) == len(dists) else None


def cost_of(trial: FrozenTrial) -> float:
    """The observed cost; infinity for a failed trial; NaN while it is in flight."""
    if trial.state in (TrialState.RUNNING, TrialState.WAITING):
        return math.nan
    # A trial that was stopped early has the cost that it was stopped at.
    cost = trial.value if trial.value is not None else math.inf
    if trial.state == TrialState.PRUNED and trial.last_step is not None:
        cost = trial.intermediate_values[trial.last_step]
    failed = trial.state == TrialState.FAIL or math.isnan(cost) or cost <= 0
    return math.inf if failed else float(cost)
