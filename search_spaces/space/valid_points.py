"""The valid points of a space: counted and sampled by components, without enumerating them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.space.constraints import KnobConstraint, KnobList
from whet.search_spaces.space.elimination import Elimination, Factor, TooWide
from whet.search_spaces.space.walk import Backtracking, walk

if TYPE_CHECKING:
    from whet.search_spaces.knobs.knob import Knob

LISTED = 200_000
"""Points of a component that are listed where a constraint cannot be tabulated."""
TRIED = 20_000
"""Points that an estimate of a component's size tries at most."""
ENOUGH = 1_000
"""Valid ones among them that end it: the count is then known to 3 %."""
RARE = 0.002
"""Below this share of valid points, rejecting the others takes too long."""
LAST = 1_000_000
"""Points of a component that are all tried before it is said that none is valid."""
_ROWS = 1 << 16


@dataclass(frozen=True)
class Count:
    """How many points are valid.

    Attributes:
        value: the number, or its estimate.
        error: relative standard error of the estimate; 0: exact; infinity: only a guess.
    """

    value: int
    error: float = 0.0


class Component:
    """Knobs that constraints tie together, directly or through others; its points by themselves.

    Attributes:
        variables: the knobs' numbers in rising order.
        tabulated: the constraints that elimination knows.
        loose: those that each point is tried with.
        way: how points are drawn: ``"exact"`` (elimination), ``"listed"``, ``"rejection"`` (all
            three uniform) or ``"walk"`` (biased; see :func:`whet.search_spaces.space.walk.walk`).
        count: how many there are.
    """

    def __init__(
        self, knobs: KnobList, variables: set[int], constraints: Sequence[KnobConstraint]
    ) -> None:
        self._knobs = knobs
        self._default = np.array([knob.default for knob in knobs], dtype=np.int64)
        self.variables = tuple(sorted(variables))
        self._columns = list(self.variables)
        self._points = np.zeros((0, len(self.variables)), dtype=np.int64)
        self.way = "exact"
        self._eliminate(constraints)
        self.count = Count(self._base.count)
        if self.loose and self._base.count:
            self.count = self._measure()

    def _eliminate(self, constraints: Sequence[KnobConstraint]) -> None:
        sizes = {v: len(self._knobs[v]) for v in self.variables}
        tables = [(c, c.table(self._knobs)) for c in constraints]
        known = [(c, Factor(c.reads, t)) for c, t in tables if t is not None]
        known.sort(key=lambda pair: pair[1].array.size)
        while True:
            try:
                self._base = Elimination(sizes, [factor for _, factor in known])
            except TooWide:
                known.pop()
            else:
                break
        self.tabulated = [c for c, _ in known]
        self.loose = [c for c in constraints if c not in self.tabulated]

    def _measure(self) -> Count:
        base = self._base.count
        if base <= LISTED:
            return self._listed(self._base.solutions())
        rng = np.random.default_rng(0)
        accepted: list[np.ndarray] = []
        tried = 0
        while tried < TRIED and sum(len(rows) for rows in accepted) < ENOUGH:
            accepted.append(self._draw(500, rng))
            tried += 500
        found = np.concatenate(accepted)
        self.acceptance = len(found) / tried
        if self.acceptance >= RARE:
            self.way = "rejection"
            error = sqrt((1 - self.acceptance) / len(found))
            return Count(max(1, round(base * self.acceptance)), error)
        search = Backtracking(self._knobs, self.variables, [*self.tabulated, *self.loose]).run()
        reached = np.array(search.found, dtype=np.int64).reshape(-1, len(self.variables))
        if search.complete:
            self.way, self._points = "listed", reached
            return Count(len(reached))
        default = self._default[None, self._columns][: self.admits(self._default)]
        self._points = np.concatenate([found[:, self._columns], reached, default])
        if not len(self._points) and base <= LAST:
            return self._listed(self._base.solutions())
        self.way = "walk"
        if not len(self._points):
            return Count(0, np.inf)
        least = len(np.unique(self._points, axis=0))
        return Count(max(least, round(base * max(len(found), 0.5) / tried)), np.inf)

    def _listed(self, points: np.ndarray) -> Count:
        self.way = "listed"
        passed = [self._points]
        for begin in range(0, len(points), _ROWS):
            some = points[begin : begin + _ROWS]
            whole = np.repeat(self._default[None], len(some), axis=0)
            whole[:, self._columns] = some
            passed.append(some[self._passing(whole)])
        self._points = np.concatenate(passed)
        return Count(len(self._points))

    def sample(self, points: np.ndarray, rng: np.random.Generator) -> None:
        """Write valid positions into this component's columns of ``points`` (int64, (n, knobs))."""
        if self.way == "exact":
            self._base.sample(points, rng)
        elif self.way == "listed":
            rows = rng.integers(len(self._points), size=len(points))
            points[:, self._columns] = self._points[rows]
        elif self.way == "walk":
            constraints = [*self.tabulated, *self.loose]
            walk(self._knobs, self.variables, constraints, self._points, points, rng)
        else:
            self._reject(points, rng)

    def _reject(self, points: np.ndarray, rng: np.random.Generator) -> None:
        begin = 0
        while begin < len(points):
            missing = len(points) - begin
            found = self._draw(min(int(1.2 * missing / self.acceptance) + 16, 8192), rng)[:missing]
            points[begin : begin + len(found), self._columns] = found[:, self._columns]
            begin += len(found)

    def _draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The points that the loose constraints admit of ``n`` solutions of the tables."""
        points = np.repeat(self._default[None], n, axis=0)
        self._base.sample(points, rng)
        return points[self._passing(points)]

    def _passing(self, points: np.ndarray) -> np.ndarray:
        rows = np.arange(len(points))
        for constraint in self.loose:
            rows = rows[constraint.check(self._knobs, points[rows])]
        return rows

    def admits(self, point: np.ndarray) -> bool:
        """True if a point passes this component's constraints."""
        row = point.tolist()
        return all(c.admits(self._knobs, row) for c in (*self.tabulated, *self.loose))

    def nearest(self, point: np.ndarray) -> np.ndarray | None:
        """``point`` with this component's columns replaced by the nearest valid ones.

        None where no way is known but trying: loose constraints and no list.
        """
        if self.way == "listed":
            found = point.copy()
            found[self._columns] = self._points[self._distances(point, self._points).argmin()]
            return found
        if self.way != "exact":
            return None
        return self.nearest_in_tables(point)

    def nearest_in_tables(self, point: np.ndarray) -> np.ndarray:
        """The same, as far as the constraints with tables go."""
        costs = {v: self._knobs[v].distances(int(point[v])) for v in self.variables}
        found = point.copy()
        for variable, position in self._base.nearest(costs).items():
            found[variable] = position
        return found

    def distances(self, point: np.ndarray, points: np.ndarray) -> np.ndarray:
        """How far ``points`` (int64, (n, knobs)) are from a point in this component's knobs."""
        return self._distances(point, points[:, self._columns])

    def _distances(self, point: np.ndarray, rows: np.ndarray) -> np.ndarray:
        total = np.zeros(len(rows))
        for i, v in enumerate(self.variables):
            total += self._knobs[v].distances(int(point[v]))[rows[:, i]]
        return total


class ValidPoints:
    """The points that the constraints of a space admit.

    Nothing is evaluated before it is asked for. Knobs that constraints tie together form a
    component; the components are independent, so that counts multiply and each is drawn by itself.

    Args:
        request: how errors name the space.
        knobs: the knobs in order.
        constraints: what they must satisfy.
    """

    def __init__(
        self, request: str, knobs: Sequence[Knob], constraints: Sequence[KnobConstraint]
    ) -> None:
        self.request = request
        self.knobs = KnobList(knobs)
        self.constraints = list(constraints)
        self._sizes = [len(knob) for knob in self.knobs]
        self._components: list[Component] = []
        self._reads: list[tuple[int, ...]] | None = None

    def broken(self, point: Sequence[int]) -> KnobConstraint | None:
        """The first constraint that rejects a point; None: the point is valid."""
        return next((c for c in self.constraints if not c.admits(self.knobs, point)), None)

    def admits(self, point: Sequence[int]) -> bool:
        """True if one point passes all constraints."""
        return self.broken(point) is None

    def check(self, points: np.ndarray) -> np.ndarray:
        """The mask of the points that pass: bool of shape (n,) for int64 of shape (n, knobs)."""
        rows = np.arange(len(points))
        for constraint in self.constraints:
            rows = rows[constraint.check(self.knobs, points[rows])]
        passed = np.zeros(len(points), dtype=bool)
        passed[rows] = True
        return passed

    @property
    def count(self) -> Count:
        """How many points are valid.

        Raises:
            SpaceError: none, or none that could be found.
        """
        components = self.components()
        tied = {v for component in components for v in component.variables}
        free = prod(size for v, size in enumerate(self._sizes) if v not in tied)
        value = free * prod(c.count.value for c in components)
        if not value:
            raise self._none(components)
        return Count(value, sqrt(sum(c.count.error**2 for c in components)))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Valid points, int64 of shape (n, knobs); uniform but where a component is walked."""
        if self.constraints:
            _ = self.count
        while True:
            points = rng.integers(0, self._sizes, size=(n, len(self._sizes)), dtype=np.int64)
            for component in self.components():
                component.sample(points, rng)
            if not self._outdated():
                return points

    def components(self) -> list[Component]:
        """The components that constraints tie together."""
        while self._outdated():
            for constraint in self.constraints:
                constraint.table(self.knobs)
            self._reads = [c.reads for c in self.constraints]
            self._components = [
                Component(self.knobs, variables, constraints)
                for variables, constraints in _tied(self.constraints)
            ]
        return self._components

    def _outdated(self) -> bool:
        """True if an evaluation has read a knob that the constraint had not read before."""
        if self._reads is None:
            return bool(self.constraints)
        return self._reads != [c.reads for c in self.constraints]

    def _none(self, components: Sequence[Component]) -> SpaceError:
        sure = any(c.count == Count(0) for c in components)
        tried = "" if sure else f" (in {TRIED:,} random ones and by backtracking)"
        shares = [f"{self._rejected(c):.4g} % are rejected by {c}" for c in self.constraints]
        return SpaceError(
            self.request,
            f"no config is valid: of {prod(self._sizes):,} the constraints "
            f"{'leave none' if sure else 'left none that was found'}{tried}",
            "\n".join([*shares, "loosen the constraints, or define more choices"]),
        )

    def _rejected(self, constraint: KnobConstraint) -> float:
        """Per cent of the range that one constraint alone rejects."""
        table = constraint.table(self.knobs)
        if table is None:
            rng = np.random.default_rng(0)
            points = rng.integers(0, self._sizes, size=(2000, len(self._sizes)), dtype=np.int64)
            table = constraint.check(self.knobs, points)
        return 100.0 * float(1.0 - table.mean())


def _tied(
    constraints: Sequence[KnobConstraint],
) -> list[tuple[set[int], list[KnobConstraint]]]:
    """Constraints that share a knob, directly or through others, with the knobs they read."""
    groups: list[tuple[set[int], list[KnobConstraint]]] = []
    for constraint in constraints:
        variables, tied = set(constraint.reads), [constraint]
        apart = []
        for others, members in groups:
            if others & variables:
                variables |= others
                tied = members + tied
            else:
                apart.append((others, members))
        groups = [*apart, (variables, tied)]
    return groups
