"""Candidates for a model to judge: evolution and local search over whole valid points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.samplers.contract.history import History, keys_of

if TYPE_CHECKING:
    from whet.search_spaces import ConfigSpace

ELITE = 24
"""Best measured points that evolution starts from."""


@dataclass(frozen=True)
class Effort:
    """How many candidates are judged.

    Attributes:
        drawn: random points at the start.
        generations: rounds of children.
        kept: parents of each round: the best so far.
        children: children that each parent has in a round.
    """

    drawn: int
    generations: int
    kept: int
    children: int


def evolve(
    space: ConfigSpace,
    history: History,
    judge: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    effort: Effort,
    also: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Untried points and their scores, the best first.

    Args:
        space: the space.
        history: what is tried; its best points are parents, too.
        judge: scores of points, higher is better.
        rng: the random numbers.
        effort: how many are judged.
        also: more points to begin with, shape ``(n, knobs)``.
    """
    elite = history.told_points(history.fastest(ELITE))
    pool = Judged(judge)
    drawn = space.sample_points(rng, effort.drawn)
    pool.add(np.concatenate([elite, also, drawn, space.mutate_points(elite, rng)]))
    for _ in range(effort.generations):
        parents = pool.best(effort.kept)
        copies = np.repeat(parents, effort.children, axis=0)
        half = len(copies) // 3
        mates = parents[rng.integers(len(parents), size=half)]
        crossed = space.cross_points(copies[rng.permutation(len(copies))[:half]], mates, rng)
        pool.add(np.concatenate([space.mutate_points(copies, rng), crossed]))
    free = ~history.taken(pool.points)
    points, scores = pool.points[free], pool.scores[free]
    order = np.argsort(-scores, kind="stable")
    return points[order], scores[order]


class Judged:
    """Different points with their scores; each is judged once.

    Args:
        judge: scores of points, higher is better.
    """

    def __init__(self, judge: Callable[[np.ndarray], np.ndarray]) -> None:
        self._judge = judge
        self._known: set[bytes] = set()
        self.points = np.empty((0, 0), dtype=np.int64)
        self.scores = np.empty(0)

    def add(self, points: np.ndarray) -> None:
        """Judge those of ``points`` that are new."""
        rows = {k: row for row, k in enumerate(keys_of(points)) if k not in self._known}
        if not rows:
            return
        self._known.update(rows)
        fresh = points[list(rows.values())]
        scores = self._judge(fresh)
        self.points = np.concatenate([self.points, fresh]) if len(self.points) else fresh
        self.scores = np.concatenate([self.scores, scores])

    def best(self, count: int) -> np.ndarray:
        """The ``count`` points with the highest scores; the earlier one of equals."""
        return self.points[np.argsort(-self.scores, kind="stable")[:count]]
