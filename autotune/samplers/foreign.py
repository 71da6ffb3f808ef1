"""Any Optuna sampler behind our contract: no config twice, the same knobs, failures survived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from whet.autotune.samplers.base import Code, History, SpaceSampler, first_free

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study

    from whet.search_spaces import ConfigSpace

ATTEMPTS = 8
"""Draws before a sampler that repeats itself gets a mutation of its favourite instead."""


class ForeignSampler(SpaceSampler):
    """Asks an Optuna sampler until it names a config that was not tried yet.

    Determinism is the inner sampler's: one with its own random state follows its seed within a
    run, and starts anew when a search is resumed.

    Args:
        space: the space to sample from.
        inner: the sampler that is asked.
        seed: for the mutations where ``inner`` only repeats itself.
    """

    def __init__(self, space: ConfigSpace, inner: BaseSampler, seed: int = 0) -> None:
        super().__init__(space, seed)
        self._inner = inner

    def inner(self, number: int, attempt: int) -> BaseSampler:
        """The sampler to ask for trial ``number``, for the ``attempt``-th time."""
        return self._inner

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        history = self.history(study, trial)
        code: Code = ()
        for attempt in range(ATTEMPTS):
            code = self._draw(self.inner(trial.number, attempt), study, trial)
            if code not in history.taken:
                return dict(zip(self.distributions, code))
        return dict(zip(self.distributions, self._near(code, history)))

    def propose(self, history: History) -> Code:
        raise NotImplementedError("a foreign sampler is asked through sample_relative")

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._inner.before_trial(study, trial)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self._inner.after_trial(study, trial, state, values)

    def _draw(self, inner: BaseSampler, study: Study, trial: FrozenTrial) -> Code:
        known = inner.infer_relative_search_space(study, trial)
        wanted = {n: d for n, d in self.distributions.items() if n in known}
        params = inner.sample_relative(study, trial, wanted)
        return tuple(
            int(params[name])
            if name in params
            else int(inner.sample_independent(study, trial, name, dist))
            for name, dist in self.distributions.items()
        )

    def _near(self, code: Code, history: History) -> Code:
        """An untried config near a tried one: one to four steps of mutation away."""
        rng = self.rng(history.number, salt=1)
        for steps in (1, 1, 1, 1, 2, 2, 3, 3, 4, 4):
            mutated = code
            for _ in range(steps):
                mutated = self.mutate(mutated, rng)
            if mutated not in history.taken:
                return mutated
        return first_free(code, history.taken, self.space.cardinalities)
