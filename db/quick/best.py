"""The best record of a log: the one walk to it, and a reader that walks it by ``sqlite3`` alone.

A process that begins wants one record, and loading SQLAlchemy for it takes longer than all else
that such a process does. :class:`QuickReader` reads that record from a file whose tables are of
this version and whose rows are sound; where anything is not as it should be it says
:class:`NotQuick`, and the caller asks the way that everything else is asked.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol
from urllib.parse import quote

from whet.db.quick.place import SCHEMA, VERSION_TABLE, text_or_unreadable
from whet.db.quick.rows import BROKEN, decoded, identity_of, record_of
from whet.db.values.decision import FINALISTS_RUN, deciding, judge
from whet.db.values.records import TrialRecord

TASK = ("workload_id", "target_id", "device_id", "space_fingerprint")
"""The columns of a run or a trial that name a task."""
RUN_COLUMNS = ("id", "sampler", "state", "started_at", *TASK)
"""The columns of a run that decide what is best."""
BUSY_S = 0.2
"""Seconds for which a writer's commit is waited for, before the slow way has its patience."""
JSON_COLUMNS = ("config", "costs", "timings", "environment")


class Source(Protocol):
    """The rows among which the best one is looked for."""

    def runs(self) -> Iterable[Any]:
        """The runs that may count, with :data:`RUN_COLUMNS`."""

    def trials(self, run_id: int, task: Mapping[str, Any]) -> list[TrialRecord]:
        """The trials of one run of a task, in order of their numbers."""

    def cheapest(
        self, task: Mapping[str, Any], runs: tuple[int, ...] | None, below: float | None
    ) -> TrialRecord | None:
        """The first success of a task that is not withdrawn, by cost and age.

        Args:
            task: values of :data:`TASK`.
            runs: only trials of these; None: of any.
            below: only those that cost less; None: of any cost.
        """


def best_trial(source: Source) -> TrialRecord | None:
    """The best of the trials of some runs, by the rule of :mod:`whet.db.values.decision`."""
    tasks: dict[tuple[Any, ...], list[Any]] = {}
    for run in source.runs():
        if isinstance(run.space_fingerprint, str):
            runs = tasks.setdefault(tuple(getattr(run, name) for name in TASK), [])
            texts = isinstance(run.sampler, str) and isinstance(run.state, str)
            runs += [run] if texts and isinstance(run.started_at, int | float) else []
    found = [_best_of(source, dict(zip(TASK, key)), runs) for key, runs in tasks.items()]
    return min(filter(None, found), key=lambda record: record.cost, default=None)


def _best_of(source: Source, task: dict[str, Any], runs: list[Any]) -> TrialRecord | None:
    """The best trial of one task, of whose runs those are given that can be read."""
    decide = deciding(runs)
    if decide.finals is None:
        # Last measurements that were not finished count for nothing, if there are any.
        every = len(decide.searches) == len(runs)
        return source.cheapest(task, None if every else decide.searches, None)
    finals = source.trials(decide.finals, task)
    holding = [trial for trial in finals if not trial.withdrawn]
    if len(holding) < len(finals) and not any(trial.result.ok for trial in holding):
        # Whatever it found is withdrawn: it decides nothing any more.
        return _best_of(source, task, [run for run in runs if run.id != decide.finals])
    final = judge(holding).best
    later = None
    if decide.searches:
        later = source.cheapest(task, decide.searches, None if final is None else final.cost)
    return later or final


class NotQuick(Exception):
    """The record cannot be had the quick way: the file is busy, broken or of other tables."""


def is_current(path: Path) -> bool:
    """True for a file that holds a log of this version's tables, and can be read now."""
    try:
        with QuickReader(path):
            return True
    except NotQuick:
        return False


class QuickReader:
    """One look into a log's file: a context manager.

    Args:
        path: the SQLite file.

    Raises:
        NotQuick: it is not a log of this version, or cannot be read now.
    """

    def __init__(self, path: Path) -> None:
        self._where: dict[str, Any] = {}
        self._identities: dict[str, Any] = {}
        uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
        try:
            self._raw = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
        except sqlite3.Error as error:
            raise NotQuick(str(error)) from error
        try:
            self._raw.text_factory = text_or_unreadable
            self._raw.execute("BEGIN")
            (version,) = self._raw.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
            if version != SCHEMA:
                raise NotQuick(f"its tables are of version {version}")
        except (sqlite3.Error, TypeError, ValueError) as error:
            self._raw.close()
            raise NotQuick(str(error)) from error
        except NotQuick:
            self._raw.close()
            raise

    def __enter__(self) -> QuickReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._raw.close()

    def best(self, digests: Mapping[str, str], fingerprint: str | None) -> TrialRecord | None:
        """The best trial of a workload, target and device.

        Args:
            digests: of each, by the names of their tables.
            fingerprint: only trials of this space; None: of any.

        Raises:
            NotQuick: a row on the way is broken, or the file cannot be read.
        """
        self._where = {} if fingerprint is None else {"space_fingerprint": fingerprint}
        try:
            for table, key in digests.items():
                row = self._rows(f"SELECT id, data FROM {table} WHERE digest = ?", (key,))
                if not row:
                    return None
                self._where[f"{table}_id"] = row[0].id
                self._identities[table] = identity_of(table, decoded(row[0].data))
            return best_trial(self)
        except (sqlite3.Error, *BROKEN) as error:
            raise NotQuick(str(error)) from error

    def _rows(self, query: str, values: Iterable[Any]) -> list[Any]:
        with closing(self._raw.execute(query, tuple(values))) as cursor:
            names = [column[0] for column in cursor.description]
            return [SimpleNamespace(**dict(zip(names, row))) for row in cursor]

    def runs(self) -> list[Any]:
        """As of :class:`Source`."""
        columns = ", ".join(RUN_COLUMNS)
        query = f"SELECT {columns} FROM run WHERE {_equal(self._where)}"
        return self._rows(query, self._where.values())

    def trials(self, run_id: int, task: Mapping[str, Any]) -> list[TrialRecord]:
        """As of :class:`Source`."""
        query = f"SELECT * FROM trial WHERE run_id = ? AND {_equal(task)} ORDER BY number"
        return list(map(self._record, self._rows(query, (run_id, *task.values()))))

    def cheapest(
        self, task: Mapping[str, Any], runs: tuple[int, ...] | None, below: float | None
    ) -> TrialRecord | None:
        """As of :class:`Source`."""
        query = f"{_equal(task)} AND status = 'ok' AND withdrawn IS NULL"
        if runs is not None:
            query += f" AND run_id + 0 IN ({', '.join(str(int(run)) for run in runs)})"
        if below is not None:
            query += " AND cost < ?"
        order = "ORDER BY cost, id LIMIT 1"
        query = f"SELECT * FROM trial WHERE id IN (SELECT id FROM trial WHERE {query} {order})"
        bound = () if below is None else (below,)
        return next(map(self._record, self._rows(query, (*task.values(), *bound))), None)

    def _record(self, row: Any) -> TrialRecord:
        for name in JSON_COLUMNS:
            setattr(row, name, decoded(getattr(row, name)))
        return record_of(row, self._identities, self._is_compared)

    def _is_compared(self, run_id: int) -> bool:
        query = (
            "SELECT run.id FROM run JOIN trial ON trial.run_id = run.id WHERE run.id = ?"
            " AND run.sampler = ? AND trial.number = 0 AND trial.status = 'ok'"
        )
        return bool(self._rows(query, (run_id, FINALISTS_RUN)))


def _equal(values: Mapping[str, Any]) -> str:
    return " AND ".join(f"{name} = ?" for name in values)
