"""The Gaussian-process sampler: expected improvement over evolved candidates, without PyTorch."""

from __future__ import annotations

import numpy as np

from whet.autotune.samplers.contract.history import History
from whet.autotune.samplers.contract.planned import Plan, PlannedSampler
from whet.autotune.samplers.model.acquisition import batch, expected_improvement, relative_gain
from whet.autotune.samplers.model.candidates import Effort, evolve
from whet.autotune.samplers.model.cost_model import labels
from whet.autotune.samplers.model.gaussian import Gaussian, on_one_thread, subsample

WARMUP = 12
"""Trials before the first fit: the default config and random ones."""
EFFORT = Effort(drawn=192, generations=2, kept=64, children=3)


class GPSampler(PlannedSampler):
    """Expected improvement of a Gaussian process over the knobs' coordinates.

    The trials of a batch, and those in flight, are assumed to cost what the process predicts, so
    that each looks where the ones before it do not.
    """

    @on_one_thread
    def plan(self, history: History, size: int) -> Plan:
        works = np.isfinite(history.costs)
        if history.number < WARMUP or np.count_nonzero(works) < 2:
            return Plan(np.empty((0, len(self.space.knobs)), dtype=np.int64))
        rng = self.rng(history.number, salt=4)
        y = labels(history.costs).astype(np.float64)
        kept = subsample(y)
        model = Gaussian.fit(self.space.coordinates(history.told_points(kept)), y[kept])
        best = float(y.max())

        def judge(points: np.ndarray) -> np.ndarray:
            return expected_improvement(*model.predict(self.space.coordinates(points)), best)

        points, scores = evolve(self.space, history, judge, rng, EFFORT, self.seeds[:0])
        gain = relative_gain(float(scores[0])) if len(scores) else 0.0
        points = points[: 8 * size]
        x = self.space.coordinates(points)
        pending = model.fantasised(self.space.coordinates(history.pending))
        chosen, _ = batch(
            pending, x, lambda process: expected_improvement(*process.predict(x), best), size
        )
        return Plan(points[chosen], gain)
