"""The history of a search: trials as growing arrays, and views of them as of any trial."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

Point = tuple[int, ...]
"""A config as Optuna sees it: for each knob, in order, the position of its choice."""
UNKNOWN = -1
"""Every position of a trial whose parameters are not drawn yet."""


class Trials:
    """The trials of one search, in order; a new trial or cost is added in constant time.

    Args:
        knobs: the number of knobs of the space.

    Attributes:
        proposed: trials that were proposed.
        observed: trials whose cost is known: the first ones.
        observed_at: by number, how many costs were known when that trial was chosen.
    """

    def __init__(self, knobs: int) -> None:
        self._points = np.empty((64, knobs), dtype=np.int64)
        self._costs = np.empty(64, dtype=np.float64)
        self._first: dict[bytes, int] = {}
        self.observed_at: dict[int, int] = {}
        self.proposed = 0
        self.observed = 0

    def ask(self, point: Sequence[int] | None) -> None:
        """Add the point of the next trial; None where its parameters are not drawn yet."""
        if self.proposed == len(self._points):
            self._points = np.concatenate([self._points, np.empty_like(self._points)])
            self._costs = np.concatenate([self._costs, np.empty_like(self._costs)])
        self._put(self.proposed, UNKNOWN if point is None else point)
        self.proposed += 1

    def tell(self, cost: float, point: Sequence[int] | None = None) -> None:
        """Add the cost of the first trial that has none: seconds, infinity where it failed.

        Args:
            cost: the cost.
            point: the trial's point, where it was not known when it was asked.
        """
        if point is not None:
            self._put(self.observed, point)
        self._costs[self.observed] = cost
        self.observed += 1

    def begin(self, number: int) -> None:
        """Note that trial ``number`` is chosen now, with as many costs as are known."""
        self.observed_at.setdefault(number, min(self.observed, number))

    def _put(self, number: int, point: Sequence[int] | int) -> None:
        self._points[number] = point
        self._first.setdefault(self._points[number].tobytes(), number)

    def history(self, number: int, observed: int) -> History:
        """The history when trial ``number`` was proposed and ``observed`` costs were known."""
        points, costs = self._points[:number].view(), self._costs[:observed].view()
        points.flags.writeable = costs.flags.writeable = False
        return History(number, points, costs, self)

    def first(self, keys: Iterable[bytes]) -> list[int | None]:
        """For each key the number of the first trial of that point; None: there is none."""
        return [self._first.get(key) for key in keys]


@dataclass(frozen=True, eq=False)
class History:
    """The knowledge that a sampler proposes a trial from: everything before it, nothing after.

    A view: making one copies nothing, however long the search is.

    Attributes:
        number: the number of the trial to propose.
        points: int64 of shape ``(number, knobs)``: the points of trials 0 .. number-1.
        costs: seconds per call of trials 0 .. len(costs)-1, infinity for a failed candidate;
            those from there on are in flight.
    """

    number: int
    points: np.ndarray
    costs: np.ndarray
    _trials: Trials

    @staticmethod
    def of(points: np.ndarray, costs: Sequence[float]) -> History:
        """A history of its own: ``points`` were tried, the first ``len(costs)`` have a cost."""
        trials = Trials(np.asarray(points).shape[1])
        for point in points:
            trials.ask(point)
        for cost in costs:
            trials.tell(cost)
        return trials.history(trials.proposed, trials.observed)

    @property
    def observed(self) -> np.ndarray:
        """The points that have a cost, int64 of shape ``(len(costs), knobs)``."""
        return self.points[: len(self.costs)]

    @property
    def pending(self) -> np.ndarray:
        """The points in flight, int64 of shape ``(number - len(costs), knobs)``."""
        return self.points[len(self.costs) :]

    def before(self, number: int) -> History:
        """The history as it was when trial ``number`` was chosen.

        Of a trial that came to its study by another way, as many are taken to have been in flight
        as are now.
        """
        alike = max(0, len(self.costs) - (self.number - number))
        return self._trials.history(number, self._trials.observed_at.get(number, alike))

    def settled(self, number: int) -> History:
        """The first ``number`` trials, all of which must have a cost: none is in flight."""
        return self._trials.history(number, number)

    def follows(self, other: History | None) -> bool:
        """True if both are views of one search, and this one is not of an earlier moment."""
        return other is not None and self._trials is other._trials and self.number >= other.number

    def is_taken(self, point: Sequence[int]) -> bool:
        """True if one of the trials before this one is of ``point``."""
        return bool(self.taken(np.asarray([point], dtype=np.int64))[0])

    def taken(self, points: np.ndarray) -> np.ndarray:
        """:meth:`is_taken` of each row: bool of shape ``(len(points),)``."""
        first = self._trials.first(keys_of(points))
        return np.array([at is not None and at < self.number for at in first], dtype=bool)

    def untried(self, points: np.ndarray) -> np.ndarray:
        """The rows that are not taken, each once, in the order of their first appearance."""
        once = dict(zip(reversed(keys := keys_of(points)), range(len(points) - 1, -1, -1)))
        first = self._trials.first(keys)
        kept = [
            row
            for row, (key, at) in enumerate(zip(keys, first))
            if once[key] == row and (at is None or at >= self.number)
        ]
        return points[kept]


def keys_of(points: np.ndarray) -> list[bytes]:
    """A key for each row of an integer array: equal where the rows are."""
    table = np.ascontiguousarray(points, dtype=np.int64)
    row, text = table.shape[1] * table.itemsize, table.tobytes()
    if not row:
        return [b""] * len(table)
    return [text[at : at + row] for at in range(0, len(text), row)]
