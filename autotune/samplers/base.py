"""The contract of a sampler, and what ours share: whole legal configs, each proposed once."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from whet.compiler.errors import SpaceError

if TYPE_CHECKING:
    from optuna.study import Study

    from whet.search_spaces import ConfigSpace

Code = tuple[int, ...]
"""A config as Optuna sees it: for each knob, in order, the index of its choice."""


@dataclass(frozen=True)
class History:
    """What a sampler may know when it proposes a trial: everything before it, nothing after.

    Attributes:
        number: the number of the trial to propose.
        codes: the codes of trials 0 .. number-1.
        costs: seconds per call of trials 0 .. len(costs)-1, infinity for a failed candidate;
            those from there on are in flight.
        taken: the set of ``codes``.
    """

    number: int
    codes: Sequence[Code]
    costs: Sequence[float]
    taken: frozenset[Code] | set[Code] = field(default_factory=set)

    def before(self, number: int) -> History:
        """The history as it was when trial ``number`` was proposed (with as many in flight)."""
        told = max(0, len(self.costs) - (self.number - number))
        codes = self.codes[:number]
        return History(number, codes, self.costs[:told], frozenset(codes))


class SpaceSampler(BaseSampler):
    """An Optuna sampler over a :class:`~whet.search_spaces.ConfigSpace`.

    The contract, which one test class checks for every sampler:

    - *Legal.* A proposal is a whole config of the space, through ``sample_relative``. Optuna sees
      one static integer a knob, so that its own samplers understand the space as well.
    - *Once.* No config is proposed twice until the space is exhausted; then ``SpaceError``.
    - *Deterministic.* A proposal is a function of the seed, the trial's number and the history
      before it. There is no random state that runs along, hence a search that was interrupted and
      resumed proposes what the uninterrupted one would have.
    - *Unbreakable.* A failed trial is evidence (cost: infinity), not an accident.
    - *Patient.* Some trials before it may still be in flight; they are taken, but have no cost.

    A subclass writes :meth:`propose`. It draws random numbers from :meth:`rng` only.

    Args:
        space: the space to sample from.
        seed: any integer from 0 on.
    """

    def __init__(self, space: ConfigSpace, seed: int = 0) -> None:
        self.space = space
        self.seed = seed
        self.distributions = distributions(space)
        self._free = [(i, k) for i, k in enumerate(space.knobs.values()) if len(k) > 1]
        self._study: Study | None = None
        self._codes: list[Code] = []

    @abstractmethod
    def propose(self, history: History) -> Code:
        """The code of the config to try next; must not be in ``history.taken``."""

    def rng(self, number: int, salt: int = 0) -> np.random.Generator:
        """Random numbers that belong to trial ``number``, and to nothing else."""
        return np.random.default_rng((self.seed, number, salt))

    def fresh(self, rng: np.random.Generator, taken: set[Code] | frozenset[Code]) -> Code:
        """A random code that is not taken."""
        cardinalities = self.space.cardinalities
        code: Code = ()
        for _ in range(16):
            code = tuple(int(rng.integers(n)) for n in cardinalities)
            if code not in taken:
                return code
        return first_free(code, taken, cardinalities)

    def mutate(self, code: Code, rng: np.random.Generator) -> Code:
        """A code with one or two knobs changed, near choices more likely."""
        mutated = list(code)
        # Not rng.choice: this is the innermost step of a search, and that costs 20 us a call.
        for _ in range(2 if rng.random() < 0.3 else 1):
            i, knob = self._free[int(rng.integers(len(self._free)))]
            mutated[i] = knob.step(mutated[i], rng)
        return tuple(mutated)

    def history(self, study: Study, trial: FrozenTrial) -> History:
        """What ``study`` knew before ``trial``."""
        if study is not self._study:
            self._study, self._codes = study, []
        trials = study.get_trials(deepcopy=False)[: trial.number]
        for t in trials[len(self._codes) :]:
            self._codes.append(code_of(t, self.distributions))
        costs = list(itertools.takewhile(_not_nan, map(_cost, trials)))
        codes = self._codes[: trial.number]
        return History(trial.number, codes, costs, set(codes))

    # Optuna's side of it.

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return dict(self.distributions)  # static: does not depend on the history

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        code = self.propose(self.history(study, trial))
        return dict(zip(self.distributions, code))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        raise SpaceError(
            f"sample {param_name!r}",
            "it is not a knob of the space that this sampler was made for",
            f"knobs: {', '.join(self.distributions)}",
        )


def distributions(space: ConfigSpace) -> dict[str, BaseDistribution]:
    """One static integer distribution a knob: the index of its choice."""
    return {name: IntDistribution(0, n - 1) for name, n in zip(space.knobs, space.cardinalities)}


def code_of(trial: FrozenTrial, dists: dict[str, BaseDistribution]) -> Code:
    """The code of a trial whose parameters are drawn; the empty code before that."""
    params = trial.params
    return tuple(int(params[name]) for name in dists) if len(params) == len(dists) else ()


def first_free(
    code: Code, taken: set[Code] | frozenset[Code], cardinalities: Sequence[int]
) -> Code:
    """The first code from ``code`` on, counting around the whole space, that is not taken.

    Raises:
        SpaceError: all are taken.
    """
    for candidate in itertools.islice(count_from(code, cardinalities), len(taken) + 1):
        if candidate not in taken:
            return candidate
    raise SpaceError(
        "propose another config",
        f"all {math.prod(cardinalities)} configs of the space are taken",
        "a search ends when its space is exhausted",
    )


def count_from(code: Code, cardinalities: Sequence[int]) -> Iterator[Code]:
    """All codes of a space in counting order (the last knob turns fastest), from ``code`` on."""
    digits = list(code)
    for _ in range(math.prod(cardinalities)):
        yield tuple(digits)
        for place in reversed(range(len(digits))):
            digits[place] = (digits[place] + 1) % cardinalities[place]
            if digits[place]:
                break


def _cost(trial: FrozenTrial) -> float:
    """The told cost; infinity for a failed trial; NaN while it is in flight."""
    if trial.state == TrialState.COMPLETE:
        return float(trial.values[0])
    return math.nan if trial.state in (TrialState.RUNNING, TrialState.WAITING) else math.inf


def _not_nan(value: float) -> bool:
    return not math.isnan(value)
