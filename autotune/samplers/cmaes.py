"""The CMA-ES sampler: a normal distribution over the knobs' positions that follows the best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whet.autotune.samplers.base import SpaceSampler, point_of
from whet.autotune.samplers.history import History, Point

ATTEMPTS = 8
"""Draws before a mutation of the last one is tried."""
SIGMA = 0.3
"""The first standard deviation; a knob's positions lie in [0, 1]."""


class CMAESSampler(SpaceSampler):
    """CMA-ES over positions, in generations of the trials as they were told.

    A trial is the valid config nearest to what was drawn, and the distribution learns from where
    that is. Where all of a generation would be the same few configs, a floor under each standard
    deviation keeps neighbours in reach.

    Source: N. Hansen, "The CMA evolution strategy: a tutorial" (arXiv:1604.00772); the floor
    follows R. Hamano et al., "CMA-ES with margin" (arXiv:2205.13482).
    """

    _state: _State | None = None
    _last: History | None = None

    def propose(self, history: History) -> Point:
        if (seed := self.seed_point(history)) is not None:
            return seed
        dims = np.asarray(self.space.dims)
        free = np.flatnonzero(dims > 1)
        if not len(free):
            return self.fresh(history)
        state = self._learned(history, free, dims[free])
        rng = self.rng(history.number, salt=3)
        point = np.asarray(self.space.encode(self.space.default), dtype=np.int64)
        for _ in range(ATTEMPTS):
            point[free] = state.draw(rng)
            found = point_of(self.space.repair(point))
            if not history.is_taken(found):
                return found
        return self.near(found, history)

    def _learned(self, history: History, free: np.ndarray, dims: np.ndarray) -> _State:
        """The distribution after the last whole generation that is told."""
        if self._state is None or self._last is None or not history.follows(self._last):
            self._state = _State.start(dims, self._start(free, dims))
        self._last, state = history, self._state
        while len(history.costs) >= state.used + state.population:
            rows = slice(state.used, state.used + state.population)
            state.learn(history.told[rows][:, free], history.costs[rows])
        return state

    def _start(self, free: np.ndarray, dims: np.ndarray) -> np.ndarray:
        point = np.asarray(self.space.encode(self.space.default))[free]
        # half way between the default and the middle: defaults stand at the ends of their lists
        return 0.5 * point / (dims - 1) + 0.25


@dataclass
class _State:
    """Mean, covariance and paths; all in units where a knob's positions span [0, 1]."""

    dims: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    path_c: np.ndarray
    path_s: np.ndarray
    sigma: float = SIGMA
    used: int = 0
    generation: int = 0

    @staticmethod
    def start(dims: np.ndarray, mean: np.ndarray) -> _State:
        n = len(dims)
        zero = np.zeros(n)
        return _State(dims, mean, np.eye(n), zero, zero)

    @property
    def population(self) -> int:
        """Trials a generation."""
        return 4 + int(3 * np.log(len(self.dims)))

    @property
    def _floor(self) -> np.ndarray:
        """The least standard deviation: the step to the next position is two of them away."""
        return 0.5 / (self.dims - 1)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Positions drawn from the distribution, int64 of shape ``(free knobs,)``."""
        values, vectors = self._axes()
        step = vectors @ (np.sqrt(values) * rng.standard_normal(len(values)))
        spread = self.sigma * np.sqrt(np.diag(self.covariance))
        step = self.sigma * step * np.maximum(1.0, self._floor / np.maximum(spread, 1e-12))
        at = np.clip(self.mean + step, 0.0, 1.0)
        return np.rint(at * (self.dims - 1)).astype(np.int64)

    def learn(self, positions: np.ndarray, costs: np.ndarray) -> None:
        """Move towards the better half of a generation.

        Args:
            positions: what was tried, shape ``(population, free knobs)``.
            costs: their costs; a failure counts as the worst.
        """
        self.used += len(costs)
        if not np.isfinite(costs).any():
            return  # nothing to move towards
        self.generation += 1
        n, half = len(self.dims), len(costs) // 2
        weights = np.log(half + 0.5) - np.log(np.arange(1, half + 1))
        weights /= weights.sum()
        mass = 1.0 / np.square(weights).sum()
        c_s = (mass + 2) / (n + mass + 5)
        damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (n + 1)) - 1) + c_s
        c_c = (4 + mass / n) / (n + 4 + 2 * mass / n)
        c_1 = 2 / ((n + 1.3) ** 2 + mass)
        c_m = min(1 - c_1, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))

        best = np.argsort(costs, kind="stable")[:half]
        steps = (positions[best] / (self.dims - 1) - self.mean) / self.sigma
        mean_step = weights @ steps
        values, vectors = self._axes()
        whitened = vectors @ ((vectors.T @ mean_step) / np.sqrt(values))
        self.path_s = (1 - c_s) * self.path_s + np.sqrt(c_s * (2 - c_s) * mass) * whitened
        expected = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        length = float(np.linalg.norm(self.path_s))
        normal = length / np.sqrt(1 - (1 - c_s) ** (2 * self.generation))
        going = normal < (1.4 + 2 / (n + 1)) * expected
        self.path_c = (1 - c_c) * self.path_c
        if going:
            self.path_c = self.path_c + np.sqrt(c_c * (2 - c_c) * mass) * mean_step
        lost = 0.0 if going else c_1 * c_c * (2 - c_c)
        rank_one = np.outer(self.path_c, self.path_c)
        rank_many = (steps.T * weights) @ steps
        self.covariance = (
            (1 - c_1 - c_m + lost) * self.covariance + c_1 * rank_one + c_m * rank_many
        )
        self.mean = self.mean + self.sigma * mean_step
        self.sigma = float(
            np.clip(self.sigma * np.exp(c_s / damping * (length / expected - 1)), 1e-3, 1.0)
        )

    def _axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Variances along the axes of the ellipsoid, and these axes as columns."""
        values, vectors = np.linalg.eigh((self.covariance + self.covariance.T) / 2)
        return np.maximum(values, 1e-12), vectors
