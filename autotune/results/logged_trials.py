"""The trials of a search as a sequence that reads them from the log when it is asked for them."""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from whet.autotune.results.recorded_columns import RecordedColumns, read_columns, records_of
from whet.autotune.results.trial import Trial
from whet.measure.values import STATUSES, MeasureResult
from whet.search_spaces.values import Config
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.db import TuningLog
    from whet.db.values.claims import TaskKey
    from whet.search_spaces import ConfigSpace

PAGE = 512
"""Trials that are read at a time."""
PAGES = 8
"""Pages that are kept."""
FEW = PAGE * PAGES
"""Trials that are read once and kept."""


class _Reader(threading.local):
    """The log that a thread reads at the moment."""

    log: TuningLog | None = None


class LoggedTrials(Sequence[Trial]):
    """The trials of a task that a log held at a moment, in the order of their numbers.

    As a list of them, but they stay in the log: each page is read when it is looked at, by a
    connection of its own, whether the log is still open or not. What has been taken out of the log
    since is a trial with the status ``infra_error`` that says so.

    Args:
        log: an open log.
        task: the task.
        space: its configs.
        upto: the id of the last trial of the log that is one of them.

    Raises:
        LogError: when it is looked at, and the log cannot be read any more.
    """

    def __init__(self, log: TuningLog, task: TaskKey, space: ConfigSpace, upto: int) -> None:
        place = log.place
        if place.path is not None:
            self._public = self._location = os.path.abspath(place.path)
        else:
            assert place.url is not None
            self._location = place.url.render_as_string(hide_password=False)
            self._public = place.url.set(password=None).render_as_string()
        self._task, self._space, self._upto = task, space, upto
        self._index: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._pages: OrderedDict[int, list[Trial]] = OrderedDict()
        self._reader = _Reader()

    def keep(self, log: TuningLog, placed: RecordedColumns | None = None) -> LoggedTrials:
        """Read them now, where they are few: then it does not matter what becomes of the log.

        Args:
            log: the log, open.
            placed: them, where they were read before.
        """
        with self._reading(log):
            self._indexed(placed)
            if len(self) <= FEW:
                for number in range(-(-len(self) // PAGE)):
                    self._page(number)
        return self

    def __len__(self) -> int:
        return len(self._indexed()[0])

    @overload
    def __getitem__(self, at: int) -> Trial: ...

    @overload
    def __getitem__(self, at: slice) -> list[Trial]: ...

    def __getitem__(self, at: int | slice) -> Trial | list[Trial]:
        if isinstance(at, slice):
            with self._reading():
                return [self._trial(place) for place in range(*at.indices(len(self)))]
        place = range(len(self))[at]  # its IndexError is as good as any
        return self._trial(place)

    def __iter__(self) -> Iterator[Trial]:
        for number in range(-(-len(self) // PAGE)):
            yield from self._page(number)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'trial')} of log {self._task.workload}>"

    def __getstate__(self) -> dict[str, Any]:
        # No password: whoever loads it has one of his own, in PGPASSWORD or ~/.pgpass.
        state = self.__dict__ | {"_location": self._public}
        del state["_reader"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _reader=_Reader())

    def outcomes(self) -> Counter[str]:
        """How many of them ended with each status."""
        codes, counts = np.unique(self._indexed()[2], return_counts=True)
        return Counter({STATUSES[code]: int(n) for code, n in zip(codes, counts)})

    def _trial(self, place: int) -> Trial:
        return self._page(place // PAGE)[place % PAGE]

    def _indexed(
        self, placed: RecordedColumns | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The number, the id in the log and the status of each."""
        if self._index is None:
            if placed is None:
                with self._reading() as log:
                    placed = read_columns(log, self._task, self._space, self._upto)
            self._index = placed.numbers, placed.ids, placed.statuses
        return self._index

    def _page(self, number: int) -> list[Trial]:
        if (known := self._pages.get(number)) is not None:
            self._pages.move_to_end(number)
            return known
        some = slice(number * PAGE, (number + 1) * PAGE)
        numbers, ids, _ = self._indexed()
        with self._reading() as log:
            records = records_of(log, ids[some].tolist())
        page = []
        for place, id in zip(numbers[some].tolist(), ids[some].tolist()):
            record = records.get(id)
            if record is None:
                error = f"trial {id} of the log cannot be read any more"
                page.append(Trial(place, Config(), MeasureResult("infra_error", error=error)))
            else:
                page.append(Trial(place, record.config, record.result, int(record.flop)))
        self._pages[number] = page
        while len(self._pages) > PAGES:
            self._pages.popitem(last=False)
        return page

    @contextmanager
    def _reading(self, log: TuningLog | None = None) -> Iterator[TuningLog]:
        """The log, open; nobody else's."""
        from whet.db import TuningLog

        if self._reader.log is not None:
            yield self._reader.log
            return
        own = log if log is not None else TuningLog(self._location, write=False)
        self._reader.log = own
        try:
            yield own
        finally:
            self._reader.log = None
            if log is None:
                own.close()
