"""Where valid points are rare: finding some by backtracking, and walking on from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from whet.compiler.late_numpy import np
from whet.search_spaces.space.constraints import KnobConstraint, KnobList, Undecided

EVALUATIONS = 60_000
"""Evaluations of constraints that a search for valid points may take."""
STARTS = 2048
"""Valid points that a walk starts from, where the search finds as many."""
STEPS = 6
"""Steps of a walk for each knob of the component."""
_RESTARTS = 24


class _Spent(Exception):
    """The search took as many evaluations as it may."""


@dataclass
class Backtracking:
    """Valid points of a component, found by choosing its knobs one after the other.

    A constraint is asked as soon as it can answer: with knobs that are not chosen yet, it is run
    until it reads one of them.

    Attributes:
        found: positions of ``variables``, one tuple for each point found.
        complete: whether those are all.
    """

    knobs: KnobList
    variables: tuple[int, ...]
    constraints: Sequence[KnobConstraint]
    found: list[tuple[int, ...]] = field(default_factory=list)
    complete: bool = False
    _left: int = 0

    def run(self) -> Backtracking:
        """Search in the order of the lists; if that does not end, at random, many times."""
        points = self._points(EVALUATIONS // 2, None)
        self.found = list(self._until_spent(points))
        self.complete = self._left >= 0
        if self.complete:
            return self
        rng = np.random.default_rng(0)
        known = dict.fromkeys(self.found[:: max(1, len(self.found) // STARTS)][: STARTS // 2])
        for _ in range(_RESTARTS):
            points = self._points(EVALUATIONS // 2 // _RESTARTS, rng)
            few = islice(self._until_spent(points), STARTS // _RESTARTS)
            known.update(dict.fromkeys(few))
        self.found = list(known)[:STARTS]
        return self

    def _until_spent(self, points: Iterator[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
        try:
            yield from points
        except _Spent:
            self._left = -1

    def _points(self, budget: int, rng: np.random.Generator | None) -> Iterator[tuple[int, ...]]:
        self._left = budget
        point: list[int | None] = [None] * len(self.knobs)
        # A knob that many constraints read is chosen first: its bad choices end the most.
        readers = {v: sum(v in c.reads for c in self.constraints) for v in self.variables}
        order = sorted(self.variables, key=lambda v: (-readers[v], len(self.knobs[v]), v))
        yield from self._choose(point, order, rng)

    def _choose(
        self, point: list[int | None], order: Sequence[int], rng: np.random.Generator | None
    ) -> Iterator[tuple[int, ...]]:
        if not order:
            yield tuple(int(point[v]) for v in self.variables)  # type: ignore[arg-type]
            return
        variable, *rest = order
        ready = [c for c in self.constraints if variable in c.reads]
        count = len(self.knobs[variable])
        for position in range(count) if rng is None else rng.permutation(count).tolist():
            point[variable] = position
            if all(self._passes(c, point) for c in ready):
                yield from self._choose(point, rest, rng)
        point[variable] = None

    def _passes(self, constraint: KnobConstraint, point: list[int | None]) -> bool:
        if self._left <= 0:
            raise _Spent
        self._left -= 1
        try:
            return constraint.admits(self.knobs, point)
        except Undecided:
            return True


def walk(
    knobs: KnobList,
    variables: Sequence[int],
    constraints: Sequence[KnobConstraint],
    starts: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Write valid points into the columns ``variables`` of ``points``, by random walks.

    A walk goes from one of ``starts``: in each step a knob is drawn, then any of its choices (in
    every other step, two knobs), and the step is taken where the constraints admit it. The chances
    of all valid points become equal in the limit only: points near the starts are likelier, and
    what such changes cannot reach is never found.

    Args:
        starts: valid positions of ``variables``, int64 of shape (m, variables).
        points: int64 of shape (n, knobs), valid in the other columns.
    """
    free = np.array([v for v in variables if len(knobs[v]) > 1])
    sizes = np.array([len(knobs[v]) for v in free])
    points[:, list(variables)] = starts[rng.integers(len(starts), size=len(points))]
    rows = np.arange(len(points))
    for step in range(STEPS * len(free)):
        moved = points.copy()
        # Two knobs at once in every other step: sums and products are kept by pairs of changes.
        for _ in range(1 + step % 2):
            column = rng.integers(len(free), size=len(points))
            moved[rows, free[column]] = (rng.random(len(points)) * sizes[column]).astype(np.int64)
        passed = rows[(moved != points).any(axis=1)]
        for constraint in constraints:
            passed = passed[constraint.check(knobs, moved[passed])]
        points[passed] = moved[passed]
