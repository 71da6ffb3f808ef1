"""The trials of a task that count, by their places in the search: arrays, no records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.results.point_reader import PointReader
from whet.measure.values import OK, STATUSES

if TYPE_CHECKING:
    from whet.db import TuningLog
    from whet.db.values.claims import TaskKey
    from whet.db.values.records import TrialRecord
    from whet.search_spaces import ConfigSpace

LOST = "infra_error"
"""The status of a trial that was not measured: nothing is known of its config."""
SUCCESS = STATUSES.index(OK)
_CODES = {status: code for code, status in enumerate(STATUSES)}


@dataclass(frozen=True, eq=False)
class RecordedColumns:
    """A task's trials in the order of their places.

    A trial keeps the number it was logged with. Two searches on one log may have used the same
    number: the first stays, the other takes the first free place. Place 0 is the default config's.
    A config recorded twice counts once, and one whose worker was lost (``infra_error``) does not
    count: nothing is known of it.

    Attributes:
        numbers: int64 ``(n,)``: the places, rising.
        ids: int64 ``(n,)``: the trials' numbers in the log.
        runs: int64 ``(n,)``: their runs' numbers in the log.
        logged: int64 ``(n,)``: their numbers in their runs.
        points: int32 ``(n, knobs)``.
        costs: float64 ``(n,)``: seconds per call, infinity for failures.
        statuses: uint8 ``(n,)``: places in :data:`~whet.measure.values.STATUSES`.
        told: for each what its proposer was told of, as text; None where the log does not say.
        beside: ids of successes that are not in the space, the fastest first.
    """

    numbers: np.ndarray
    ids: np.ndarray
    runs: np.ndarray
    logged: np.ndarray
    points: np.ndarray
    costs: np.ndarray
    statuses: np.ndarray
    told: list[str | None]
    beside: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ok(self) -> np.ndarray:
        """Bool ``(n,)``: which of them worked."""
        return self.statuses == SUCCESS

    @property
    def fastest(self) -> np.ndarray:
        """The rows of the successes, the fastest first, of equals the one with the lower place."""
        rows = np.flatnonzero(self.ok)
        return rows[np.argsort(self.costs[rows], kind="stable")]


@dataclass
class _Rows:
    """Rows of the log in the order in which they were recorded, as long as they are read."""

    ids: list[np.ndarray]
    runs: list[np.ndarray]
    numbers: list[np.ndarray]
    points: list[np.ndarray]
    known: list[np.ndarray]
    costs: list[np.ndarray]
    statuses: list[np.ndarray]
    told: list[str | None]

    def add(self, columns: Sequence[tuple[Any, ...]], read: PointReader) -> None:
        """Add columns of rows of the log."""
        ids, runs, numbers, configs, statuses, costs, told = columns
        points, known = read.points(configs)
        for column, values in ((self.ids, ids), (self.runs, runs), (self.numbers, numbers)):
            column.append(np.array(values, dtype=np.int64))
        self.points.append(points)
        self.known.append(known)
        self.statuses.append(np.array([*map(_CODES.__getitem__, statuses)], dtype=np.uint8))
        self.costs.append(np.array(costs, dtype=np.float64))
        if not set(map(type, told)) <= {str, type(None)}:  # broken
            told = tuple(text if isinstance(text, str) else None for text in told)
        self.told += told


def read_columns(log: TuningLog, task: TaskKey, space: ConfigSpace, upto: int) -> RecordedColumns:
    """The trials of a task's searches that count.

    Args:
        log: an open log.
        task: the task.
        space: whose configs count; those of another level of it are beside it.
        upto: the id of the last trial that counts.

    Raises:
        LogError: the log cannot be read.
    """
    from whet.db.store import points

    def pages() -> Iterator[list[tuple[Any, ...]]]:
        mark = 0
        while True:
            fetch = partial(points.columns_after, task=task, mark=mark, upto=upto)
            page, broken, mark = log.read("read trials", fetch)
            if broken:  # so that a warning says why
                records_of(log, broken)
            yield page
            if not mark:
                return

    return place(pages(), space)


def place(pages: Iterable[Sequence[tuple[Any, ...]]], space: ConfigSpace) -> RecordedColumns:
    """The places of trials, from what :func:`whet.db.store.points.columns_after` gives.

    Args:
        pages: columns of rows in the order in which they were recorded.
        space: whose configs count.
    """
    read = PointReader(space)
    rows = _Rows([], [], [], [], [], [], [], [])
    for page in pages:
        if page:
            rows.add(page, read)
    return _placed(rows, space)


def records_of(log: TuningLog, ids: list[int]) -> dict[int, TrialRecord]:
    """The records of some trials by their ids; those that cannot be read are left out."""
    from whet.db.store import points

    return log.read_records("read trials", lambda reader: points.records_of(reader, ids))


def _placed(rows: _Rows, space: ConfigSpace) -> RecordedColumns:
    """The rows that count, by their places."""

    def joined(parts: list[np.ndarray], dtype: Any) -> np.ndarray:
        return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)

    ids, runs = joined(rows.ids, np.int64), joined(rows.runs, np.int64)
    logged, statuses = joined(rows.numbers, np.int64), joined(rows.statuses, np.uint8)
    costs, inside = joined(rows.costs, np.float64), joined(rows.known, np.bool_)
    points = np.concatenate(rows.points) if rows.points else np.empty((0, len(space.knobs)))
    points = points.astype(np.int32, copy=False)
    costs = np.where(statuses == SUCCESS, costs, np.inf)
    known = np.flatnonzero(inside)
    inside[known] = space.valid(points[known].astype(np.int64))
    beside = np.flatnonzero(~inside & (statuses == SUCCESS))
    counting = np.flatnonzero(inside & (statuses != _CODES[LOST]))
    # by runs and numbers, whoever was recorded first
    counting = counting[np.lexsort((logged[counting], runs[counting]))]
    counting = counting[_first_ones(points[counting])]
    default = np.asarray(space.encode(space.default), dtype=np.int32)
    numbers = _places(logged[counting], (points[counting] == default).all(axis=1))
    order = np.argsort(numbers)
    chosen = counting[order]
    return RecordedColumns(
        numbers[order], ids[chosen], runs[chosen], logged[chosen], points[chosen], costs[chosen],
        statuses[chosen], [rows.told[at] for at in chosen.tolist()],
        ids[beside[np.argsort(costs[beside], kind="stable")]].tolist(),
    )  # fmt: skip


def _first_ones(points: np.ndarray) -> np.ndarray:
    """The rows whose point no earlier row has, rising."""
    factors = np.random.default_rng(0).integers(1 << 62, size=points.shape[1], dtype=np.uint64)
    keys = (points.astype(np.uint64) * (factors | np.uint64(1))).sum(axis=1, dtype=np.uint64)
    first = np.unique(keys, return_index=True)[1]
    if len(first) < len(points):  # a point twice, or two points with one key
        first = np.unique(points, axis=0, return_index=True)[1] if points.shape[1] else first
    return np.sort(first)


def _places(logged: np.ndarray, is_default: np.ndarray) -> np.ndarray:
    """The place of each trial, as :class:`RecordedColumns` says.

    Args:
        logged: their numbers, in the order of their runs.
        is_default: which of them is the default config's.
    """
    numbers = np.where(is_default, 0, logged)
    may = np.flatnonzero(is_default | (logged > 0))
    kept = may[np.unique(numbers[may], return_index=True)[1]]
    is_kept = np.zeros(len(numbers), dtype=bool)
    is_kept[kept] = True
    displaced = np.flatnonzero(~is_kept)
    is_free = np.ones(len(numbers) + 1, dtype=bool)  # as many are free as are displaced
    is_free[0] = False
    is_free[numbers[kept][numbers[kept] <= len(numbers)]] = False
    free = np.flatnonzero(is_free)
    numbers[displaced] = free[: len(displaced)]
    return numbers
