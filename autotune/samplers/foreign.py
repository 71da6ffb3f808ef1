"""Any Optuna sampler behind our contract: valid configs, none twice, failures survived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from whet.autotune.samplers.contract.base import SpaceSampler, point_of
from whet.autotune.samplers.contract.history import History, Point
from whet.compiler.errors import SpaceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study

    from whet.search_spaces import ConfigSpace

ATTEMPTS = 8
"""Draws before a sampler that repeats itself gets a mutation of its favourite instead."""


class ForeignSampler(SpaceSampler):
    """Asks an Optuna sampler until it names a config that was not tried yet.

    What the constraints exclude is moved to the nearest config that they admit; the study then
    holds the config that is tried, so the sampler learns from that. What is no position of a knob
    at all is refused.

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

    @property
    def name(self) -> str:
        return type(self._inner).__name__

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        history = self.history(study, trial)
        return dict(zip(self.distributions, self._untried(study, trial, history)))

    def propose(self, history: History) -> Point:
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

    def _untried(self, study: Study, trial: FrozenTrial, history: History) -> Point:
        point: Point = ()
        for _ in range(ATTEMPTS):
            point = point_of(self.space.repair(self._draw(study, trial)))
            if not history.is_taken(point):
                return point
        return self.near(point, history)

    def _draw(self, study: Study, trial: FrozenTrial) -> Point:
        known = self._inner.infer_relative_search_space(study, trial)
        wanted = {n: d for n, d in self.distributions.items() if n in known}
        params = self._inner.sample_relative(study, trial, wanted)
        return tuple(
            self._position(name, params[name])
            if name in params
            else self._position(name, self._inner.sample_independent(study, trial, name, dist))
            for name, dist in self.distributions.items()
        )

    def _position(self, name: str, value: Any) -> int:
        """``value`` as a position of the knob ``name``, if it is one."""
        count = len(self.space.knobs[name])
        try:
            position = int(value)
        except (TypeError, ValueError, OverflowError):
            position = -1
        if 0 <= position < count and position == value:
            return position
        raise SpaceError(
            f"{type(self._inner).__name__} proposes {name} = {value!r}",
            f"the knob's positions are the integers 0 to {count - 1}",
            "a sampler must keep to the distributions that it is given",
        )
