"""The best record of a log: the one walk to it, and a reader that walks it without SQLAlchemy.

A process that begins wants one record, and loading SQLAlchemy for it takes longer than all else
that such a process does; on a server, its new connections take longer than the queries.
:class:`QuickReader` reads that record from a log whose tables are of this version and whose rows
are sound; where anything is not as it should be it says
:class:`~whet.db.quick.connect.NotQuick`, and the caller asks the way that everything else is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from whet.db.quick.connect import Connection, NotQuick
from whet.db.quick.rows import BROKEN, decoded, identity_of, record_of
from whet.db.values.decision import FINALISTS_RUN, deciding, judge
from whet.db.values.records import TrialRecord

TASK = ("workload_id", "target_id", "device_id", "space_fingerprint")
"""The columns of a run or a trial that name a task."""
RUN_COLUMNS = ("id", "sampler", "state", "started_at", "finished_at", *TASK)
"""The columns of a run that decide what is best."""
JSON_COLUMNS = ("config", "costs", "timings", "environment")


@dataclass(frozen=True)
class Among:
    """The trials of a task among which the cheapest is looked for.

    Attributes:
        runs: only trials of these; None: of any.
        below: only those that cost less; None: of any cost.
        since: only those that were measured later, in seconds since the epoch; None: at any time.
    """

    runs: tuple[int, ...] | None = None
    below: float | None = None
    since: float | None = None


class Source(Protocol):
    """The rows among which the best one is looked for."""

    def runs(self) -> Iterable[Any]:
        """The runs that may count, with :data:`RUN_COLUMNS`."""

    def trials(self, run_id: int, task: Mapping[str, Any]) -> list[TrialRecord]:
        """The trials of one run of a task, in order of their numbers."""

    def cheapest(self, task: Mapping[str, Any], among: Among) -> TrialRecord | None:
        """The first success of a task that is not withdrawn, by cost and age.

        Args:
            task: values of :data:`TASK`.
            among: the trials that count.
        """


def best_trial(source: Source) -> TrialRecord | None:
    """The best of the trials of some runs, by the rule of :mod:`whet.db.values.decision`."""
    tasks: dict[tuple[Any, ...], list[Any]] = {}
    for run in source.runs():
        if isinstance(run.space_fingerprint, str):
            runs = tasks.setdefault(tuple(getattr(run, name) for name in TASK), [])
            texts = isinstance(run.sampler, str) and isinstance(run.state, str)
            times = isinstance(run.started_at, int | float) and (
                run.finished_at is None or isinstance(run.finished_at, int | float)
            )
            runs += [run] if texts and times else []
    found = [_best_of(source, dict(zip(TASK, key)), runs) for key, runs in tasks.items()]
    return min(filter(None, found), key=lambda record: record.cost, default=None)


def _best_of(source: Source, task: dict[str, Any], runs: list[Any]) -> TrialRecord | None:
    """The best trial of one task, of whose runs those are given that can be read."""
    decide = deciding(runs)
    if decide.finals is None:
        # Last measurements that were not finished count for nothing, if there are any.
        every = len(decide.searches) == len(runs)
        return source.cheapest(task, Among(None if every else decide.searches))
    finals = source.trials(decide.finals, task)
    holding = [trial for trial in finals if not trial.withdrawn]
    if len(holding) < len(finals) and not any(trial.result.ok for trial in holding):
        # Whatever it found is withdrawn: it decides nothing any more.
        return _best_of(source, task, [run for run in runs if run.id != decide.finals])
    final = judge(holding).best
    below = None if final is None else final.cost
    later = source.cheapest(task, Among(decide.searches, below)) if decide.searches else None
    # Another search may have gone on meanwhile, and have been killed before its own finalists.
    begun = next(run.started_at for run in runs if run.id == decide.finals)
    times = (trial.result.timestamp for trial in finals)
    since = min((time for time in times if time > 0), default=begun)
    if running := decide.running_at(since):
        below = later.cost if later is not None else below
        later = source.cheapest(task, Among(running, below, since)) or later
    return later or final


class QuickReader:
    """Reads the best record of a task by a quick connection.

    Args:
        connection: to a log of this version's tables.
    """

    def __init__(self, connection: Connection) -> None:
        self._rows = connection.rows
        self._where: dict[str, Any] = {}
        self._identities: dict[str, Any] = {}

    def best(self, digests: Mapping[str, str], fingerprint: str | None) -> TrialRecord | None:
        """The best trial of a workload, target and device.

        Args:
            digests: of each, by the names of their tables.
            fingerprint: only trials of this space; None: of any.

        Raises:
            NotQuick: a row on the way is broken, or the log cannot be read.
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
        except BROKEN as error:
            raise NotQuick(str(error)) from error

    def runs(self) -> list[Any]:
        """As of :class:`Source`."""
        columns = ", ".join(RUN_COLUMNS)
        query = f"SELECT {columns} FROM run WHERE {_equal(self._where)}"
        return self._rows(query, self._where.values())

    def trials(self, run_id: int, task: Mapping[str, Any]) -> list[TrialRecord]:
        """As of :class:`Source`."""
        query = f"SELECT * FROM trial WHERE run_id = ? AND {_equal(task)} ORDER BY number"
        return list(map(self._record, self._rows(query, (run_id, *task.values()))))

    def cheapest(self, task: Mapping[str, Any], among: Among) -> TrialRecord | None:
        """As of :class:`Source`."""
        query = f"{_equal(task)} AND status = 'ok' AND withdrawn IS NULL"
        if among.runs is not None:
            runs = ", ".join(str(int(run)) for run in among.runs)
            query += f" AND run_id + 0 IN ({runs or 'NULL'})"
        bound = [*task.values()]
        for condition, value in (("cost <", among.below), ("timestamp >", among.since)):
            if value is not None:
                query += f" AND {condition} ?"
                bound.append(value)
        order = "ORDER BY cost, id LIMIT 1"
        query = f"SELECT * FROM trial WHERE id IN (SELECT id FROM trial WHERE {query} {order})"
        return next(map(self._record, self._rows(query, bound)), None)

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
