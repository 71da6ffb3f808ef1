"""Trials of one task's searches, read by the thousand."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from whet.db.store.batches import TRIALS, told_of_text
from whet.db.store.claims import count_claims
from whet.db.store.models import RunRow, TaskRow, TrialRow
from whet.db.store.queries import conditions
from whet.db.store.reading import Reader
from whet.db.values.claims import Counts, LoggedPoint, TaskKey
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.records import TrialRecord
from whet.measure.values import OK, STATUSES, Json, is_time

PAGE = 5000
"""Points that are read in one transaction."""

POINT = (
    TrialRow.id,
    TrialRow.run_id,
    TrialRow.number,
    sa.type_coerce(TrialRow.config, sa.Text).label("config"),
    TrialRow.status,
    TrialRow.cost,
    TrialRow.told,
)


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
) -> tuple[list[LoggedPoint], int, bool]:
    """The points that came after one.

    Args:
        connection: a transaction.
        task: the task.
        mark: the id of the last point that is known; 0: none is.
        count: how many rows are read at most.

    Returns:
        The points, those that cannot be read left out; the id of the last; True if there may be
        more.
    """
    where = _task(connection, task)
    if where is None:
        return [], mark, False
    query = _searched(sa.select(*POINT), where).where(TrialRow.id > mark).limit(count)
    rows = connection.execute(query).all()
    points = [point for point in map(_point, rows) if point is not None]
    return points, rows[-1].id if rows else mark, len(rows) == count


def _point(row: Any) -> LoggedPoint | None:
    """A row's point; None where it is broken."""
    ok = row.status == OK
    sound = type(row.number) is int and type(row.run_id) is int and isinstance(row.config, str)
    sound = sound and row.status in STATUSES and (is_time(row.cost) if ok else row.cost is None)
    if not sound:
        return None
    told = None if row.told is None else told_of_text(row.told)
    return LoggedPoint(row.id, row.run_id, row.number, row.config, row.status, row.cost, told)


def page_of(reader: Reader, task: TaskKey, start: int, count: int) -> list[TrialRecord]:
    """The records of some rows of a task's searches, in the order in which they came.

    Args:
        reader: of the transaction.
        task: the task.
        start: the number of rows that are left out, from the first on.
        count: how many are read; those that cannot be are left out.
    """
    where = _task(reader.connection, task)
    if where is None:
        return []
    rows = reader.connection.execute(_searched(sa.select(TRIALS), where).limit(count).offset(start))
    return [record for record in map(reader.trial, rows) if record is not None]


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
