"""The XGBoost sampler: a cost model learns which configs are fast, evolution asks it for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.cost_model import CostModel
from whet.autotune.samplers.base import Code, History, SpaceSampler

if TYPE_CHECKING:
    from whet.search_spaces import ConfigSpace

BATCH = 4
"""Proposals planned from one fit. With 8 the best of 64 trials was 10 % slower (synthetic GEMM)."""
WARMUP = 24
"""Random trials before the first fit."""
ELITE = 48
"""Best measured configs, and as many random ones, that evolution starts from."""
CHILDREN = 2
GENERATIONS = 5
SURVIVORS = 96
EXPLORE = 1
"""Random configs in each batch: the model cannot err for ever about what it never sees."""


class XGBSampler(SpaceSampler):
    """Whole configs that an XGBoost model, fitted to all told costs, predicts to be fast.

    A plan of :data:`BATCH` proposals is a function of the seed and of the history as it was at
    its first trial, so that a resumed search makes the same plan again in its middle.
    """

    def __init__(self, space: ConfigSpace, seed: int = 0) -> None:
        super().__init__(space, seed)
        self._plan: list[Code] = []
        self._planned_for: History | None = None

    def propose(self, history: History) -> Code:
        if history.number < WARMUP or self.space.size <= len(history.taken) + BATCH:
            return self.fresh(self.rng(history.number), history.taken)
        start = history.number - history.number % BATCH
        self._make_plan(history.before(start))
        # Its own place in the plan first: the others belong to the trials around it.
        place = history.number - start
        for code in self._plan[place:] + self._plan[:place]:
            if code not in history.taken:
                return code
        return self.fresh(self.rng(history.number), history.taken)

    def _make_plan(self, history: History) -> None:
        if history == self._planned_for:
            return
        self._planned_for = history
        rng = self.rng(history.number, salt=1)
        wanted = BATCH - EXPLORE
        ranked = self._evolve(history, rng) if np.isfinite(history.costs).any() else []
        plan = diverse(ranked, wanted)
        taken = set(history.taken) | set(plan)
        while len(plan) < BATCH:
            plan.append(self.fresh(rng, taken))
            taken.add(plan[-1])
        self._plan = plan

    def _evolve(self, history: History, rng: np.random.Generator) -> list[Code]:
        """Untried codes, best prediction first."""
        told = history.codes[: len(history.costs)]
        model = CostModel.fit(self._features(told), history.costs, seed=self.seed)
        order = np.argsort(history.costs, kind="stable")[:ELITE]
        parents = [told[i] for i in order if np.isfinite(history.costs[i])]
        parents += [self.fresh(rng, history.taken) for _ in range(ELITE)]
        scores: dict[Code, float] = {}
        for _ in range(GENERATIONS):
            # A dict without values is a set that keeps its order.
            family = dict.fromkeys(parents)
            family |= dict.fromkeys(self.mutate(p, rng) for p in parents for _ in range(CHILDREN))
            codes = list(family)
            predicted = model.predict(self._features(codes))
            scores.update((c, float(p)) for c, p in zip(codes, predicted) if c not in history.taken)
            parents = [codes[i] for i in np.argsort(-predicted, kind="stable")[:SURVIVORS]]
        # The code breaks ties, so that the order of a dict never decides.
        return sorted(scores, key=lambda code: (-scores[code], code))

    def _features(self, codes: Sequence[Code]) -> np.ndarray:
        return self.space.features_of_points(np.asarray(codes, dtype=np.int64))


def diverse(ranked: list[Code], wanted: int) -> list[Code]:
    """The first ``wanted`` codes, passing over those that differ in one knob from one chosen.

    Where too few are left, the best of those passed over fill the plan.
    """
    chosen: list[Code] = []
    passed: list[Code] = []
    for code in ranked:
        if len(chosen) == wanted:
            break
        near = any(sum(a != b for a, b in zip(code, other)) < 2 for other in chosen)
        (passed if near else chosen).append(code)
    return chosen + passed[: wanted - len(chosen)]
