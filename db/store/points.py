"""Trials of one task's searches, read by the thousand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import sqlalchemy as sa

from whet.db.quick.place import text_or_unreadable
from whet.db.store.batches import TRIALS, told_of_text
from whet.db.store.claims import count_claims
from whet.db.store.models import (
    DeviceRow,
    Identity,
    RunRow,
    TargetRow,
    TaskRow,
    TrialRow,
    WorkloadRow,
)
from whet.db.store.queries import RUNS, conditions
from whet.db.store.reading import Reader
from whet.db.values.claims import Counts, LoggedPoint, TaskKey
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.identity import device_key, digest
from whet.db.values.records import RunRecord, TrialRecord
from whet.measure.values import LARGEST, OK, STATUSES, Json, is_time

PAGE = 5000
"""Points that are read in one transaction."""
COLUMNS_PAGE = 20_000
"""The same, where no object is made of each."""

STATUS_SET = frozenset(STATUSES)

POINT = (
    TrialRow.id,
    TrialRow.run_id,
    TrialRow.number,
    sa.type_coerce(TrialRow.config, sa.Text).label("config"),
    TrialRow.status,
    TrialRow.cost,
    TrialRow.told,
)


def _id_of(table: type[Identity], name: str) -> sa.ScalarSelect[Any]:
    """The id of the workload, target or device whose digest a parameter is."""
    return sa.select(table.id).where(table.digest == sa.bindparam(name)).scalar_subquery()


def _of_task(columns: Any) -> list[sa.ColumnElement[bool]]:
    """The condition that a row is of one task, which parameters name."""
    return [
        columns.workload_id == _id_of(WorkloadRow, "workload"),
        columns.target_id == _id_of(TargetRow, "target"),
        columns.device_id == _id_of(DeviceRow, "device"),
        columns.space_fingerprint == sa.bindparam("space"),
    ]


# Made once, so that SQLAlchemy compiles it once: a search asks it again and again.
NEWS = (
    sa.select(*POINT)
    .where(*_of_task(TRIALS.c), TrialRow.id > sa.bindparam("mark"))
    .where(
        TrialRow.run_id.not_in(
            sa.select(RUNS.c.id).where(*_of_task(RUNS.c), RUNS.c.sampler == FINALISTS_RUN)
        )
    )
    .order_by(TrialRow.id)
    .limit(sa.bindparam("count"))
)


def _named(task: TaskKey) -> dict[str, str]:
    """The parameters that name a task."""
    return {
        "workload": digest(task.workload.to_json()),
        "target": digest(task.target),
        "device": digest(device_key(task.device)),
        "space": task.fingerprint,
    }


def _task(connection: sa.Connection, task: TaskKey) -> Json | None:
    """The columns that name a task; None where the log does not know it."""
    names = (task.workload, task.target, task.device, task.fingerprint)
    return conditions(connection, *names)


def _searched(query: sa.Select, where: Json) -> sa.Select:
    """A query of trials, of one task's searches alone, in the order in which they came."""
    finals = sa.select(RunRow.id).filter_by(**where).where(RunRow.sampler == FINALISTS_RUN)
    of_task = (TRIALS.c[name] == value for name, value in where.items())
    return query.where(*of_task, TrialRow.run_id.not_in(finals)).order_by(TrialRow.id)


def points_after(
    connection: sa.Connection, task: TaskKey, mark: int, count: int = PAGE
) -> tuple[list[LoggedPoint], int]:
    """The points that came after one.

    Args:
        connection: a transaction.
        task: the task.
        mark: the id of the last point that is known; 0: none is.
        count: how many rows are read at most.

    Returns:
        The points, those that cannot be read left out; and the id of the last.
    """
    rows = connection.execute(NEWS, _named(task) | {"mark": mark, "count": count}).all()
    points = [point for point in map(_point, rows) if point is not None]
    return points, rows[-1].id if rows else mark


def columns_after(
    connection: sa.Connection, task: TaskKey, mark: int, upto: int, count: int = COLUMNS_PAGE
) -> tuple[list[tuple[Any, ...]], list[int], int]:
    """The points after one as columns, several times as fast as :func:`points_after`.

    Args:
        connection: a transaction.
        task: the task.
        mark: the id of the last point that is known; 0: none is.
        upto: the id of the last point that is wanted.
        count: how many rows are read at most.

    Returns:
        Columns of id, run, number, config as JSON text, status, cost (None for a failure) and
        ``told`` as text or None, no columns where there is no row; the ids of rows that are broken,
        which are left out; and the id of the last row, 0 where there are no more.
    """
    where = _task(connection, task)
    if where is None:
        return [], [], 0
    query = _searched(sa.select(*POINT), where)
    page = query.where(TrialRow.id > mark, TrialRow.id <= upto).limit(count)
    try:
        rows = _driver_rows(connection, page, str)
    except (sqlite3.OperationalError, sa.exc.OperationalError) as error:
        if connection.dialect.name != "sqlite" or "decode" not in str(error).lower():
            raise  # a connection that is lost, a lock: this transaction answers no more
        rows = _driver_rows(connection, page, text_or_unreadable)
    last = rows[-1][0] if len(rows) == count else 0
    columns: list[tuple[Any, ...]] = list(zip(*rows))
    if not rows or _are_sound(*columns[1:6]):
        return columns, [], last
    broken = [row[0] for row in rows if not _is_sound(*row[1:6])]
    return list(zip(*(row for row in rows if _is_sound(*row[1:6])))), broken, last


def _driver_rows(
    connection: sa.Connection, query: sa.Select, texts: Callable[[bytes], Any] | type[str]
) -> list[tuple[Any, ...]]:
    """The rows as the driver gives them: no object is made of each.

    Args:
        connection: a transaction.
        query: the rows.
        texts: makes SQLite's texts; by ``str`` the driver does it by itself, which takes a fraction
            of the time, and ends the query for one stray byte.
    """
    raw: Any = connection.connection.dbapi_connection
    lite = connection.dialect.name == "sqlite"
    try:
        if lite:
            raw.text_factory = texts
        result = connection.execute(query)
        assert result.cursor is not None
        rows = result.cursor.fetchall()
        result.close()
        return list(rows)
    finally:
        if lite:
            raw.text_factory = text_or_unreadable


def _are_sound(runs: Any, numbers: Any, configs: Any, statuses: Any, costs: Any) -> bool:
    """True where :func:`_is_sound` of all rows; False may be said of a few that are sound."""
    types = (set(map(type, column)) for column in (runs, numbers, configs))
    if list(types) != [{int}, {int}, {str}] or not STATUS_SET.issuperset(statuses):
        return False
    known = [cost for cost in costs if cost is not None]
    if len(known) != statuses.count(OK) or not set(map(type, known)) <= {float}:
        return False
    worked = compress(costs, map(OK.__eq__, statuses))
    return None not in worked and (not known or (min(known) > 0 and max(known) <= LARGEST))


def _is_sound(run_id: Any, number: Any, config: Any, status: Any, cost: Any) -> bool:
    """True where a row's point can be read; its config may yet be none."""
    if not (type(number) is int and type(run_id) is int and isinstance(config, str)):
        return False
    return is_time(cost) if status == OK else cost is None and status in STATUSES


def _point(row: Any) -> LoggedPoint | None:
    """A row's point; None where it is broken."""
    if not _is_sound(*row[1:6]):
        return None
    told = None if row.told is None else told_of_text(row.told)
    return LoggedPoint(row.id, row.run_id, row.number, row.config, row.status, row.cost, told)


def records_of(reader: Reader, ids: Sequence[int]) -> dict[int, TrialRecord]:
    """The records of some rows by their ids; those that cannot be read are left out."""
    rows = reader.connection.execute(sa.select(TRIALS).where(TRIALS.c.id.in_(ids)))
    records = ((row.id, reader.trial(row)) for row in rows)
    return {id: record for id, record in records if record is not None}


def first_numbered(reader: Reader, task: TaskKey, number: int) -> TrialRecord | None:
    """The first record of a number among a task's searches; None where there is none."""
    where = _task(reader.connection, task)
    if where is None:
        return None
    query = _searched(sa.select(TRIALS), where).where(TrialRow.number == number)
    return next(filter(None, map(reader.trial, reader.connection.execute(query))), None)


def used_runs(reader: Reader, task: TaskKey) -> list[RunRecord]:
    """The runs of a task that have trials, oldest first."""
    where = _task(reader.connection, task)
    if where is None:
        return []
    trial = sa.select(TrialRow.id).where(TrialRow.run_id == RunRow.id)
    query = sa.select(RUNS).filter_by(**where).where(sa.exists(trial)).order_by(RunRow.id)
    return [run for run in map(reader.run, reader.connection.execute(query)) if run is not None]


def has_trials(connection: sa.Connection, runs: Sequence[int]) -> bool:
    """True if any of some runs has a trial."""
    query = sa.select(TrialRow.id).where(TrialRow.run_id.in_(runs)).limit(1)
    return connection.execute(query).first() is not None


def counts_of(connection: sa.Connection, task: TaskKey) -> Counts:
    """The counters of a task."""
    where = _task(connection, task)
    query = sa.select(TaskRow.id, TaskRow.trials, TaskRow.succeeded).filter_by(**where or {})
    row = None if where is None else connection.execute(query).first()
    if row is None:
        return Counts(0, 0, 0)
    return Counts(row.trials, row.succeeded, count_claims(connection, row.id))


def mark_of(connection: sa.Connection, task: TaskKey) -> int:
    """The id of the last trial of a task that is recorded, the last measurements' included; or 0.

    Those that :func:`points_after` gives for it were recorded later.
    """
    where = _task(connection, task)
    if where is None:
        return 0
    query = sa.select(sa.func.max(TrialRow.id)).filter_by(**where)
    return connection.execute(query).scalar() or 0


def runs_of(connection: sa.Connection, task: TaskKey) -> set[int]:
    """The ids of a task's runs."""
    where = _task(connection, task)
    if where is None:
        return set()
    return set(connection.execute(sa.select(RunRow.id).filter_by(**where)).scalars())
