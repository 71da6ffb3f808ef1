"""The trials of a task in its log: those that a search found there, and those that it hears of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.results.point_reader import PointReader
from whet.autotune.results.recall import Names
from whet.autotune.results.recorded import TaskState, read_state, search_options
from whet.autotune.results.recorded_columns import LOST, RecordedColumns, read_columns, records_of
from whet.autotune.results.trial import Trial
from whet.autotune.search.early_stop import TIMEOUT, Limits
from whet.autotune.search.finalists import Leaders, leaders_of
from whet.measure.values import OK, STATUSES, MeasureResult

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.history import Point
    from whet.autotune.search.study import Search
    from whet.autotune.tasks.task import Task
    from whet.db import TuningLog
    from whet.db.values.claims import LoggedPoint, TaskKey
    from whet.db.values.records import Told

READS = 3
"""Times that a task is read while others write to it."""
LOOKED = 32
"""Records that are read at a time, for the fastest."""

OthersResult = tuple[int, MeasureResult]
"""A trial's id in the log, and its result: status and cost."""


@dataclass(frozen=True, eq=False)
class RecordedTrials:
    """The trials of a task in a log.

    Attributes:
        state: its runs, and its last measurement.
        mark: the id of the last trial of the log that is known here.
        placed: its trials.
        uncounted: configs that the log counts and that are not of its space, or broken.
        leaders: the fastest trials.
        default: the default config's trial; None where there is none that counts.
        outside: recorded successes that are not in its (quick) space; they may be the best.
    """

    state: TaskState
    mark: int
    placed: RecordedColumns
    uncounted: int
    leaders: Leaders
    default: Trial | None
    outside: list[Trial]

    @property
    def beside(self) -> set[int]:
        """The runs of searches that ran beside the first one of their time."""
        return {run.id for run in self.state.searches if search_options(run).get("rank")}

    def outcomes(self) -> Counter[str]:
        """How many trials ended with each status."""
        return Counter(STATUSES[code] for code in self.placed.statuses.tolist())


def read_trials(log: TuningLog, key: TaskKey, task: Task) -> RecordedTrials:
    """The trials of a task in a log, now.

    Args:
        log: an open log.
        key: the task's name in it.
        task: the task.
    """
    from whet.autotune.features.watched import the_worker
    from whet.db.store import points

    space = task.config_space
    for _ in range(READS):
        before = log.counts(key).trials
        # Before the trials: what comes meanwhile is heard again, never missed.
        mark = log.read("read trials", lambda c: points.mark_of(c, key))
        state = read_state(log, key)
        if not state.settled:  # it will be searched: the worker for features starts meanwhile
            the_worker()
        placed = read_columns(log, key, space, mark)
        if still := log.counts(key).trials == before:
            break
    uncounted = before - len(placed)
    trials = _trials(log, placed, [0]) if len(placed) and placed.numbers[0] == 0 else iter(())
    return RecordedTrials(
        state,
        mark,
        placed,
        uncounted if still else max(0, uncounted),
        leaders_of(_trials(log, placed, placed.fastest.tolist())),
        next(trials, None),
        list(leaders_of(_outside(log, placed.beside, task))),
    )


def _trials(log: TuningLog, placed: RecordedColumns, rows: list[int]) -> Iterator[Trial]:
    """The trials of some rows, by their places."""
    for begin in range(0, len(rows), LOOKED):
        some = rows[begin : begin + LOOKED]
        records = records_of(log, placed.ids[some].tolist())
        for row in some:
            if (record := records.get(int(placed.ids[row]))) is not None:
                yield replace(Trial.of(record), number=int(placed.numbers[row]))


def _outside(log: TuningLog, ids: list[int], task: Task) -> Iterator[Trial]:
    """The successes of the full space that are not in a quick one, the fastest first."""
    if not ids:
        return
    # A record that was altered may be in neither space: it is no candidate.
    full = replace(task, level="full").config_space
    for begin in range(0, len(ids), LOOKED):
        some = ids[begin : begin + LOOKED]
        records = records_of(log, some)
        trials = (Trial.of(records[id]) for id in some if id in records)
        yield from (trial for trial in trials if trial.config in full)


def why_stopped(state: TaskState, level: str, limits: Limits, sampler: str, seed: int) -> str:
    """Why the last search of a log ended early, were it this one; "" where it did not."""
    last = state.searches[-1] if state.searches else None
    if last is None or not limits.early_stop or (last.sampler, last.seed) != (sampler, seed):
        return ""
    then = search_options(last)
    prefix, _, why = last.state.partition(": ")
    same = then.get("early_stop") == limits.early_stop and then.get("level") == level
    return why if same and prefix == "stopped" and not why.startswith(TIMEOUT) else ""


class Unobserved:
    """The trials of a log that a search finds again: by number, or when it proposes their points.

    Args:
        placed: the trials of the log.
        first: the row of the first of them that is not placed yet.
        repeats: the trials by their rows, where more is asked of a result than its cost.
    """

    def __init__(
        self, placed: RecordedColumns, first: int, repeats: Sequence[Trial] | None = None
    ) -> None:
        self._placed, self._repeats = placed, repeats
        self._names: Names | None = None
        numbers = placed.numbers[first:].tolist()
        self._rows = dict(zip(numbers, range(first, first + len(numbers))))
        self._number_of: dict[Point, int] = {}
        self._last = numbers[-1] if numbers else 0

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, number: object) -> bool:
        return number in self._rows

    def holds(self, point: Point) -> bool:
        """True if one of them has this point."""
        return self.number_of(point) is not None

    def number_of(self, point: Point) -> int | None:
        """The number of a point; None where none of them has it."""
        if not self._rows:
            return None
        if not self._number_of:
            self._number_of = {self._point(row): n for n, row in self._rows.items()}
        number = self._number_of.get(point)
        return number if number in self._rows else None

    def take(self, number: int) -> tuple[Point, MeasureResult]:
        """The point and the result of a number, whose turn has come."""
        row = self._rows.pop(number)
        return self._point(row), self.result_of(row)

    def told_before(self, number: int) -> list[int] | None:
        """The numbers of the trials that were told before this one was proposed, since the one
        before it; None where it is none of these, or the log does not say."""
        row = self._rows.get(number)
        if row is None or self._placed.logged[row] != number:
            return None
        if (text := self._placed.told[row]) is None:
            return None
        if self._names is None:
            self._names = Names(self._placed)
        return self._names.places(int(self._placed.runs[row]), text)

    def move(self, number: int) -> None:
        """Give the trial of a number a later one: that is taken."""
        row = self._rows.pop(number)
        self._last = 1 + max(number, self._last)
        self._rows[self._last] = row
        if self._number_of:
            self._number_of[self._point(row)] = self._last

    def result_of(self, row: int) -> MeasureResult:
        """The result of a row of the log's trials: its status and its cost, as a rule no more."""
        if self._repeats is not None:
            return self._repeats[row].result
        cost = float(self._placed.costs[row])
        if math.isfinite(cost):
            return MeasureResult(OK, (cost,))
        return MeasureResult(STATUSES[self._placed.statuses[row]])

    def _point(self, row: int) -> Point:
        return tuple(self._placed.points[row].tolist())


class OtherSearches:
    """Takes note of what others record.

    Args:
        search: the search.
        unobserved: recorded trials whose turn has not come.
    """

    def __init__(self, search: Search, unobserved: Unobserved) -> None:
        self.unobserved = unobserved
        self._search, self._space = search, search.space
        self._reader = PointReader(search.space)
        self._waited_for: dict[Point, OthersResult] = {}
        self._came: dict[Point, OthersResult] = {}

    def hear(
        self, points: Sequence[LoggedPoint], own: int | None, waiting: Collection[Point]
    ) -> None:
        """Take note of new trials in the log.

        Args:
            points: the trials.
            own: the run of this search, whose trials are passed over.
            waiting: points that were asked for and have no result.
        """
        news = [point for point in points if point.run_id != own and point.status != LOST]
        if not news:
            return
        table, known = self._reader.points([point.config for point in news])
        rows = np.flatnonzero(known)  # the others are broken, or of another level of the space
        table = table[rows].astype(np.int64)
        valid = self._space.valid(table)
        taken = self._search.history.taken(table)
        for row, place in enumerate(rows.tolist()):
            if not valid[row]:
                continue
            point, there = news[place], tuple(table[row].tolist())
            costs = () if point.cost is None else (point.cost,)
            heard = point.id, MeasureResult(point.status, costs)
            if there in waiting:
                self._waited_for.setdefault(there, heard)
            elif not (taken[row] or self.unobserved.holds(there)):
                self._came.setdefault(there, heard)  # its number comes with its turn

    def pop(self, point: Point) -> OthersResult | None:
        """The trial of a point that was waited for; None where it has not come."""
        return self._waited_for.pop(point, None)

    def arrivals(self) -> dict[Point, OthersResult]:
        """The trials that nobody waited for, since the last time."""
        came, self._came = self._came, {}
        return came


class Observations:
    """The names of the results that a search was told, until its log has them.

    Attributes:
        count: of all that were told.
    """

    def __init__(self) -> None:
        self.count = 0
        self._said = 0
        self._names: list[int | str] = []

    def add(self, name: int | str) -> None:
        """Note a result that was told."""
        self._names.append(name)
        self.count += 1

    def until(self, place: int) -> Told:
        """The results that were told since the last call, up to a place among all of them."""
        more = max(0, place - self._said)
        told, self._names = tuple(self._names[:more]), self._names[more:]
        self._said += len(told)
        return told
