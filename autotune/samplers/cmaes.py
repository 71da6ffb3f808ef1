"""The CMA-ES sampler: CMA-ES with margin over the knobs' positions, by the library of Optuna's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.samplers.contract.base import SpaceSampler
from whet.autotune.samplers.contract.history import History, Point

if TYPE_CHECKING:
    from cmaes import CMAwM

SIGMA = 0.3
"""The first standard deviation; a knob's positions lie in [0, 1]."""
MARGIN = 0.05
"""The least probability that a knob moves from its likeliest position. On the recorded spaces of
benchmarks/search/replay.py, 16 seeds each, it takes 9 % fewer trials to the goal than the default
margin of 1 / (knobs * population), which takes as many as a CMA-ES with a floor under sigma."""


class CMAESSampler(SpaceSampler):
    """CMA-ES with margin over positions, in generations of trials in the order of telling.

    A trial is the valid config nearest to the draw, and the distribution learns from that config's
    position. The margin keeps each knob's neighbouring positions in reach.

    Source: R. Hamano et al., "CMA-ES with margin" (arXiv:2205.13482), as the package ``cmaes`` has
    it.
    """

    _state: _State | None = None
    _last: History | None = None

    def propose(self, history: History) -> Point:
        if (seed := self.seed_point(history)) is not None:
            return seed
        free = np.flatnonzero(np.asarray(self.space.dims) > 1)
        if not len(free):
            return self.fresh(history)
        optimizer = self._learned(history, free).optimizer
        optimizer.reseed_rng(int(self.rng(history.number, salt=3).integers(1 << 32)))
        point = np.asarray(self.space.encode(self.space.default), dtype=np.int64)
        steps = np.asarray(self.space.dims)[free] - 1

        def draw(attempt: int) -> np.ndarray:
            point[free] = np.rint(optimizer.ask()[0][: len(free)] * steps).astype(np.int64)
            return point

        return self.untried(draw, history)

    def _learned(self, history: History, free: np.ndarray) -> _State:
        """The distribution after the last generation whose costs are all known."""
        if self._state is None or not history.follows(self._last):
            default = np.asarray(self.space.encode(self.space.default))
            self._state = _State.start(np.asarray(self.space.dims)[free], default[free])
        self._last, state = history, self._state
        size = state.optimizer.population_size
        while len(history.costs) >= state.used + size:
            rows = slice(state.used, state.used + size)
            state.learn(history.told_points(rows)[:, free], history.costs[rows])
        return state


@dataclass
class _State:
    """The distribution, and how many trials it has learned from."""

    optimizer: CMAwM
    dims: np.ndarray
    used: int = 0

    @staticmethod
    def start(dims: np.ndarray, default: np.ndarray) -> _State:
        """A distribution around the default config.

        Args:
            dims: positions of each knob, all above 1; int64 of shape ``(free knobs,)``.
            default: the default's positions.
        """
        from cmaes import CMAwM

        # half way between the default and the middle: defaults stand at the ends of their lists
        mean, steps = 0.5 * default / (dims - 1) + 0.25, 1.0 / (dims - 1)
        if len(dims) == 1:  # the library wants two dimensions: the second has no effect
            mean, steps = np.append(mean, 0.5), np.append(steps, 0.0)
        bounds = np.tile([0.0, 1.0], (len(mean), 1))
        return _State(
            CMAwM(mean=mean, sigma=SIGMA, bounds=bounds, steps=steps, margin=MARGIN), dims
        )

    def learn(self, positions: np.ndarray, costs: np.ndarray) -> None:
        """Move towards the better half of a generation.

        Args:
            positions: of its trials, shape ``(population, free knobs)``.
            costs: their costs; a failure counts as the worst.
        """
        self.used += len(costs)
        if not np.isfinite(costs).any():
            return  # nothing to move towards
        drawn = positions / (self.dims - 1)
        if len(self.dims) == 1:
            drawn = np.column_stack([drawn, np.full(len(drawn), 0.5)])
        self.optimizer.tell(list(zip(drawn, costs.tolist())))
