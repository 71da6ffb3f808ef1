"""Any Optuna sampler behind our contract: valid configs, none twice, failures survived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from whet.autotune.samplers.contract.base import SpaceSampler
from whet.autotune.samplers.contract.history import History, Point
from whet.compiler.errors import SpaceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study

    from whet.search_spaces import ConfigSpace


class ForeignSampler(SpaceSampler):
    """Asks an Optuna sampler until it names a config that was not tried yet.

    A config that the constraints exclude is moved to the nearest one that they admit; the study
    then holds the config that is tried, so the sampler learns from that. A value that is no
    position of a knob is refused.

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
        self._asked_for = study, trial
        return super().sample_relative(study, trial, search_space)

    def propose(self, history: History) -> Point:
        return self.untried(self._draw, history)

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

    def _draw(self, attempt: int) -> Point:
        study, trial = self._asked_for
        known = self._inner.infer_relative_search_space(study, trial)
        wanted = {n: d for n, d in self.distributions.items() if n in known}
        params = self._inner.sample_relative(study, trial, wanted)
        for name, dist in self.distributions.items():
            if name not in params:
                params[name] = self._inner.sample_independent(study, trial, name, dist)
        return tuple(self._position(name, params[name]) for name in self.distributions)

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
