"""The history of a search: trials as growing arrays, and views of them as of any trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whet.autotune.samplers.contract.point_table import PointTable

Point = tuple[int, ...]
"""A config as Optuna sees it: for each knob, in order, the position of its choice."""
NEVER = np.iinfo(np.int32).max
"""The place in the order of telling of a point whose cost is not known."""


class Trials:
    """The trials of one search; a new trial or cost is added in constant time.

    A trial that the search asks for has a *number*, from 0 on. A point that another search measures
    has none. Both have a *row*, in the order in which they came here; without others' points the
    rows are the numbers. Costs come in any order, which is kept: a sampler learns from them in the
    order in which it was told.

    Args:
        knobs: the number of knobs of the space.

    Attributes:
        proposed: trials that were asked for.
        observed: points whose cost is known, others' included.
    """

    def __init__(self, knobs: int) -> None:
        self._points = PointTable(knobs)
        self._row_of = _Column(np.int32)  # by number
        self._rows_at = _Column(np.int32)  # by number: rows when it was chosen
        self._observed_at = _Column(np.int32)  # by number: costs known when it was chosen
        self._told = _Column(np.int32)  # rows, in the order of telling
        self._costs = _Column(np.float64)  # in the order of telling
        self._told_at = _Column(np.int32)  # by row: its place in that order
        self._elsewhere = _Column(np.int32)  # rising numbers
        self._proposed_elsewhere = 0
        self.proposed = 0
        self.observed = 0

    @property
    def rows(self) -> int:
        """Points that are known: proposed ones, and others'."""
        return len(self._points)

    def begin(self) -> None:
        """Note that the next trial is chosen now, with as many rows and costs as are known.

        Where its number was given up before, the first time counts: its batch was planned then.
        """
        if self._rows_at.get(self.proposed) is None:
            self._rows_at.put(self.proposed, self.rows)
            self._observed_at.put(self.proposed, self.observed)

    def ask(self, point: Sequence[int] | np.ndarray | None, own: bool = True) -> int:
        """Add the point of the next trial, and return its number.

        Args:
            point: its positions; None where its parameters are not drawn yet.
            own: False where another search proposed it, and it has this number here.
        """
        number = self.proposed
        self.proposed += 1
        if not own:
            self._elsewhere.put(self._proposed_elsewhere, number)
            self._proposed_elsewhere += 1
        self._row_of.put(number, self._points.append(point))
        self._told_at.put(self.rows - 1, NEVER)
        return number

    def observe(
        self, number: int, cost: float, point: Sequence[int] | np.ndarray | None = None
    ) -> None:
        """Note the cost of a trial of ours; those before it may have none yet.

        Args:
            number: the trial's.
            cost: seconds, infinity where it failed.
            point: its positions, where they were not known when it was asked for.

        Raises:
            ValueError: there is no such trial, or its cost is known.
        """
        if not 0 <= number < self.proposed:
            raise ValueError(f"there is no trial {number}: {self.proposed} were asked for")
        row = int(self._row_of[number])
        if self._told_at[row] != NEVER:
            raise ValueError(f"the cost of trial {number} is known")
        if point is not None:
            self._points.put(row, point)
        self._tell(row, cost)

    def place(self, point: Sequence[int] | np.ndarray, cost: float | None = None) -> bool:
        """Add a point of another search's, or its cost; it takes no number of ours.

        Args:
            point: its positions.
            cost: seconds, infinity where it failed; None while it is measured.

        Returns:
            False where nothing of it is news: the point is one of ours, or its cost is known.
        """
        row = int(self._points.find(np.asarray([point], dtype=np.int64))[0])
        new = row < 0
        if new:
            row = self._points.append(point)
            self._told_at.put(row, NEVER)
        elif cost is None or self._told_at[row] != NEVER or self._is_ours(row):
            return False
        if cost is not None:
            self._tell(row, cost)
        return True

    def load(self, past: Past) -> None:
        """Begin with trials that were asked for, and costs that were told, before.

        Raises:
            ValueError: there are trials already.
        """
        if self.rows:
            raise ValueError(f"{self.rows} points are known already")
        self._points.extend(past.points)
        told_at = np.full(self.rows, NEVER, dtype=np.int32)
        told_at[past.told] = np.arange(len(past.told))
        for column, values in (
            (self._row_of, past.row_of), (self._rows_at, past.rows_at), (self._told, past.told),
            (self._observed_at, past.observed_at), (self._costs, past.costs),
            (self._told_at, told_at), (self._elsewhere, past.elsewhere),
        ):  # fmt: skip
            column.fill(values)
        self.proposed, self.observed = len(past.row_of), len(past.told)
        self._proposed_elsewhere = len(past.elsewhere)

    def history(self, number: int | None = None, observed: int | None = None) -> History:
        """The history when a trial was proposed and some costs were known.

        Args:
            number: the trial's; None: the next one's.
            observed: how many costs were known; None: all that are.
        """
        number = self.proposed if number is None else number
        observed = self.observed if observed is None else observed
        rows = self.rows if number == self.proposed else int(self._row_of[number])
        return History(number, rows, observed, self)

    def history_at(self, number: int) -> History | None:
        """The history as it was when trial ``number`` was chosen; None where that is not known."""
        rows, observed = self._rows_at.get(number), self._observed_at.get(number)
        return None if rows is None or observed is None else History(number, rows, observed, self)

    def _tell(self, row: int, cost: float) -> None:
        self._told.put(self.observed, row)
        self._costs.put(self.observed, cost)
        self._told_at.put(row, self.observed)
        self.observed += 1

    def _is_ours(self, row: int) -> bool:
        """True if a trial of ours has this row: rows rise with the numbers."""
        rows = self._row_of.values[: self.proposed]
        at = int(np.searchsorted(rows, row))
        return at < len(rows) and bool(rows[at] == row)


@dataclass(frozen=True)
class Past:
    """The trials of a search up to a moment, as arrays.

    Attributes:
        points: int ``(rows, knobs)``: the points in the order in which they came, others' included.
        row_of: int ``(n,)``: by number the row of each trial of ours.
        rows_at: int ``(n,)``: by number the rows that were known when it was chosen.
        observed_at: int ``(n,)``: by number the costs that were known then.
        told: int ``(m,)``: the rows whose cost is known, in the order of telling.
        costs: float64 ``(m,)``: theirs, in that order; infinity for failures.
        elsewhere: int ``(k,)``: the numbers that other searches proposed, rising.
    """

    points: np.ndarray
    row_of: np.ndarray
    rows_at: np.ndarray
    observed_at: np.ndarray
    told: np.ndarray
    costs: np.ndarray
    elsewhere: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))


class _Column:
    """A growing array; what was not put into it is -1.

    Args:
        dtype: of its numbers.
    """

    def __init__(self, dtype: Any) -> None:
        self.values = np.full(64, -1, dtype=dtype)

    def __getitem__(self, at: int) -> Any:
        return self.values[at]

    def get(self, at: int) -> int | None:
        """The number there; None where there is none."""
        number = int(self.values[at]) if at < len(self.values) else -1
        return None if number < 0 else number

    def put(self, at: int, number: float) -> None:
        """Set one number."""
        if at >= len(self.values):
            self.values = np.concatenate([self.values, np.full_like(self.values, -1)])
        self.values[at] = number

    def fill(self, numbers: np.ndarray) -> None:
        """Set all numbers, from the first on."""
        room = 1 << max(6, len(numbers).bit_length())
        self.values = np.full(room, -1, dtype=self.values.dtype)
        self.values[: len(numbers)] = numbers


@dataclass(frozen=True, eq=False)
class History:
    """The knowledge that a sampler proposes a trial from: everything before it, nothing after.

    A view: making one copies nothing, however long the search is. Points come as copies: ask for
    the few that are needed.

    Attributes:
        number: the number of the trial to propose.
        rows: points that are known, in the order in which they came; others' searches' included.
        told: how many of them have a cost.
        whole: True if only those with a cost are part of it.
    """

    number: int
    rows: int
    told: int
    _trials: Trials
    whole: bool = False

    @staticmethod
    def of(points: np.ndarray, costs: Sequence[float] | np.ndarray) -> History:
        """A history of its own: ``points`` were tried, the first ``len(costs)`` have a cost."""
        trials = Trials(np.asarray(points).shape[1])
        for point in points:
            trials.ask(point)
        for number, cost in enumerate(costs):
            trials.observe(number, cost)
        return trials.history()

    @property
    def costs(self) -> np.ndarray:
        """Seconds per call in the order of telling, infinity for a failed candidate: a view."""
        costs = self._trials._costs.values[: self.told].view()
        costs.flags.writeable = False
        return costs

    @property
    def points(self) -> np.ndarray:
        """All points in the order in which they came, int64 of shape ``(n, knobs)``."""
        if self.whole:
            return self.observed
        return self._trials._points.rows(slice(0, self.rows))

    @property
    def observed(self) -> np.ndarray:
        """The points that have a cost, in the order of :attr:`costs`, ``(len(costs), knobs)``."""
        return self.told_points(slice(None))

    def told_points(self, which: slice | np.ndarray) -> np.ndarray:
        """The points of some of :attr:`costs`, int64 of shape ``(n, knobs)``."""
        return self._trials._points.rows(self.told_rows[which])

    def row_points(self, which: slice | np.ndarray) -> np.ndarray:
        """The points of some rows, int64 of shape ``(n, knobs)``."""
        return self._trials._points.rows(which)

    def fastest(self, count: int) -> np.ndarray:
        """The places in :attr:`costs` of the lowest ones, rising; the earlier one of equals.

        Args:
            count: how many at most; failures are none of them.
        """
        costs = self.costs
        if len(costs) > count:
            enough = np.flatnonzero(costs <= np.partition(costs, count)[count])
        else:
            enough = np.arange(len(costs))
        works = enough[np.isfinite(costs[enough])]
        return works[np.argsort(costs[works], kind="stable")[:count]]

    @property
    def elsewhere(self) -> np.ndarray:
        """The numbers of the trials that other searches proposed, rising."""
        numbers = self._trials._elsewhere.values[: self._trials._proposed_elsewhere]
        return numbers[: int(np.searchsorted(numbers, self.number))]

    @property
    def told_rows(self) -> np.ndarray:
        """The row of each of :attr:`costs`."""
        return self._trials._told.values[: self.told]

    @property
    def pending_rows(self) -> np.ndarray:
        """The rows without a cost, rising."""
        if self.whole or self.told == self.rows:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self._trials._told_at.values[: self.rows] >= self.told)

    @property
    def pending(self) -> np.ndarray:
        """The points in flight, int64 of shape ``(n, knobs)``."""
        return self.row_points(self.pending_rows)

    def before(self, number: int) -> History:
        """The history as it was when trial ``number`` was chosen.

        Of a trial that came to its study by another way, as many are taken to have been in flight
        as are now.
        """
        if (then := self._trials.history_at(number)) is not None:
            return then
        return self._trials.history(number, max(0, self.told - (self.number - number)))

    def settled(self, count: int) -> History:
        """The first ``count`` points that were told: none is in flight."""
        return History(count, count, count, self._trials, whole=True)

    def follows(self, other: History | None) -> bool:
        """True if both are views of one search, and this one is not of an earlier moment."""
        return (
            other is not None
            and self._trials is other._trials
            and self.rows >= other.rows
            and self.told >= other.told
        )

    def is_taken(self, point: Sequence[int]) -> bool:
        """True if ``point`` is known."""
        return bool(self.taken(np.asarray([point], dtype=np.int64))[0])

    def taken(self, points: np.ndarray) -> np.ndarray:
        """:meth:`is_taken` of each row: bool of shape ``(len(points),)``."""
        rows = self._trials._points.find(points)
        if not self.whole:
            return (rows >= 0) & (rows < self.rows)
        return (rows >= 0) & (self._trials._told_at.values[np.maximum(rows, 0)] < self.told)

    def untried(self, points: np.ndarray) -> np.ndarray:
        """The rows that are not taken, each once, in the order of their first appearance."""
        once = dict(zip(reversed(keys_of(points)), range(len(points) - 1, -1, -1)))
        first = np.sort(np.fromiter(once.values(), dtype=np.int64, count=len(once)))
        return points[first[~self.taken(points[first])]]


def keys_of(points: np.ndarray) -> list[bytes]:
    """A key for each row of an integer array: equal where the rows are."""
    table = np.ascontiguousarray(points, dtype=np.int64)
    row, text = table.shape[1] * table.itemsize, table.tobytes()
    if not row:
        return [b""] * len(table)
    return [text[at : at + row] for at in range(0, len(text), row)]
