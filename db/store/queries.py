"""The statements of a log, in the SQL that SQLite and PostgreSQL share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whet.db.quick import best
from whet.db.quick.rows import BROKEN
from whet.db.store.models import (
    TASK,
    Base,
    ClaimRow,
    DeviceRow,
    Identity,
    RunRow,
    TargetRow,
    TaskRow,
    TrialRow,
    WorkloadRow,
)
from whet.db.store.reading import Reader
from whet.db.values.claims import Counts, TaskKey
from whet.db.values.identity import device_key, digest
from whet.db.values.records import RunRecord, TaskSummary, TrialRecord
from whet.measure.device.names import Device
from whet.measure.values import AnyTarget, Json, MeasureResult, target_json
from whet.search_spaces.values import Workload

TRIALS = TrialRow.__table__
RUNS = RunRow.__table__
R = TypeVar("R")

# Made once, so that SQLAlchemy compiles each once. They insert a row, or nothing where a unique key
# is taken, and need no savepoint: where the disk is full, SQLite ends the whole transaction, and
# the error of a savepoint that is gone would hide it.
UNLESS_THERE: dict[tuple[str, type[Base]], Any] = {
    (dialect, table): insert(table).on_conflict_do_nothing()
    for dialect, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
    for table in (WorkloadRow, TargetRow, DeviceRow, TaskRow)
}

# Literals, not bound values: a planner takes a partial index only if it can see that it applies.
SUCCEEDED = sa.text("trial.status = 'ok' AND trial.withdrawn IS NULL")
HASHED = sa.text("trial.program_hash <> ''")
OF_PROGRAM = sa.text(
    "SELECT 1 FROM trial WHERE trial.device_id = (SELECT id FROM device WHERE digest = :device) "
    "AND trial.program_hash = :program AND trial.program_hash <> '' LIMIT 1"
)

LOOKED = 1000
"""Trials of a task that are read at most, to say why none of them is the best."""
REUSABLE = ("ok", "wrong_answer", "build_error", "build_crash", "run_error", "run_crash")
"""Outcomes that belong to the program; timeouts and lack of memory belong to a run's limits too."""


def find_id(connection: sa.Connection, table: type[Identity], value_digest: str) -> int | None:
    """The id of a stored workload, target or device, or None."""
    return connection.execute(sa.select(table.id).where(table.digest == value_digest)).scalar()


def conditions(
    connection: sa.Connection,
    workload: Workload | None,
    target: AnyTarget | None,
    device: Device | None,
    fingerprint: str | None,
) -> Json | None:
    """Columns and values that a trial must have; None where no trial can."""
    digests = {
        WorkloadRow: None if workload is None else digest(workload.to_json()),
        TargetRow: None if target is None else digest(target_json(target)),
        DeviceRow: None if device is None else digest(device_key(device)),
    }
    where: dict[str, Any] = {
        f"{table.__tablename__}_id": find_id(connection, table, key)
        for table, key in digests.items()
        if key is not None
    }
    if None in where.values():
        return None
    return where if fingerprint is None else where | {"space_fingerprint": fingerprint}


def _find_or_insert(
    connection: sa.Connection, table: type[Identity], key: Any, **columns: Any
) -> Any:
    """The id of a workload, target or device; it is stored where it is not yet."""
    value_digest = digest(key)
    if (row_id := find_id(connection, table, value_digest)) is not None:
        return row_id
    insert = UNLESS_THERE[connection.dialect.name, table].returning(table.id)
    row_id = connection.execute(insert, {"digest": value_digest, **columns}).scalar()
    # None: another process of a server was quicker (SQLite's writers take turns and never get here)
    return find_id(connection, table, value_digest) if row_id is None else row_id


def insert_run(connection: sa.Connection, run: RunRecord) -> int:
    """Insert a run with its workload, target and device, unless its uid is there; return its id."""
    known = connection.execute(sa.select(RunRow.id).where(RunRow.uid == run.uid)).scalar()
    if known is not None:
        return known
    data, template = run.workload.to_json(), run.workload.template
    key = device_key(run.device)
    own = ("uid", "sampler", "seed", "options", "versions", "state", "started_at", "finished_at")
    values = {name: getattr(run, name) for name in own} | {
        "workload_id": _find_or_insert(connection, WorkloadRow, data, template=template, data=data),
        "target_id": _find_or_insert(connection, TargetRow, run.target, data=run.target),
        "device_id": _find_or_insert(connection, DeviceRow, key, data=run.device),
        "space_fingerprint": run.fingerprint,
    }
    task = {name: values[name] for name in TASK}
    if connection.execute(sa.select(TaskRow.id).filter_by(**task)).scalar() is None:
        connection.execute(
            UNLESS_THERE[connection.dialect.name, TaskRow], {**task, "trials": 0, "succeeded": 0}
        )
    return connection.execute(sa.insert(RunRow).values(values).returning(RunRow.id)).scalar_one()


def update_run(connection: sa.Connection, run_id: int, state: str, when: float) -> None:
    """Write a run's state and its end."""
    change = sa.update(RunRow).where(RunRow.id == run_id).values(state=state, finished_at=when)
    connection.execute(change)


KEYS = sa.select(*(RUNS.c[name] for name in ("uid", "sampler", *TASK))).where(
    RUNS.c.id == sa.bindparam("run")
)
"""Made once, as those of batches."""


def run_keys(connection: sa.Connection, run_id: int) -> Json | None:
    """A run's uid, its sampler and its columns of :data:`TASK`, which its trials repeat."""
    row = connection.execute(KEYS, {"run": run_id}).mappings().first()
    return dict(row) if row is not None else None


def select_trials(reader: Reader, where: dict[str, Any]) -> list[TrialRecord]:
    """The trials whose columns equal the values of ``where``, in order of runs and numbers."""
    query = sa.select(TRIALS).filter_by(**where).order_by(TrialRow.run_id, TrialRow.number)
    return _readable(map(reader.trial, reader.connection.execute(query)))


def _readable(records: Iterable[R | None]) -> list[R]:
    return [record for record in records if record is not None]


def count_trials(connection: sa.Connection, *where: Any) -> int:
    """The number of rows of trials for which conditions hold."""
    return connection.execute(sa.select(sa.func.count(TrialRow.id)).where(*where)).scalar_one()


@dataclass(frozen=True)
class Tried:
    """The trials of a task that has no best one.

    Attributes:
        readable: how many can be read.
        broken: how many cannot.
        withdrawn: why its newest success that was withdrawn was; "": none was.
    """

    readable: int
    broken: int
    withdrawn: str


def tried_in_vain(reader: Reader, where: dict[str, Any] | None) -> Tried:
    """Count the trials of a task of which none is the best.

    Few trials are read. Many are counted along the indexes: a success that is not withdrawn, and
    yet not the best, cannot be read.

    Args:
        reader: of a transaction.
        where: from :func:`conditions`, all columns of :data:`TASK`.
    """
    if where is None:
        return Tried(0, 0, "")
    # By their runs: what a broken trial repeats of its run may be what is broken.
    runs = sa.select(RunRow.id).filter_by(**where)
    of_task = [TRIALS.c[name] == value for name, value in where.items()]
    every = count_trials(reader.connection, TrialRow.run_id.in_(runs))
    holding = count_trials(reader.connection, *of_task, SUCCEEDED)
    if every <= LOOKED:
        readable = len(select_trials(reader, where))
    else:
        readable = count_trials(reader.connection, *of_task) - holding
    newest = sa.select(TrialRow.withdrawn).where(*of_task, TrialRow.withdrawn.is_not(None))
    worked = sa.select(TaskRow.succeeded).filter_by(**where)
    reason = None
    if not holding and reader.connection.execute(worked).scalar():
        reason = reader.connection.execute(newest.order_by(TrialRow.id.desc()).limit(1)).scalar()
    return Tried(readable, every - readable, "" if reason is None else str(reason))


def runs_of(reader: Reader, workload: Workload) -> list[RunRecord]:
    """The runs of a workload, oldest first."""
    where = conditions(reader.connection, workload, None, None, None)
    if where is None:
        return []
    query = sa.select(RUNS).filter_by(**where).order_by(RunRow.id)
    return _readable(map(reader.run, reader.connection.execute(query)))


def select_workloads(reader: Reader) -> list[Workload]:
    """The workloads that were searched, oldest first."""
    first = sa.func.min(RunRow.id)
    query = sa.select(RunRow.workload_id).group_by(RunRow.workload_id).order_by(first)
    return _readable(map(reader.workload, reader.connection.execute(query).scalars().all()))


def best_query(where: Mapping[str, Any], among: best.Among) -> sa.Select:
    """The ids of a task's successes, the cheapest first, of equals the earlier one first.

    It is answered by a walk along ``ix_trial_best`` alone, unless a time is asked for: then by that
    walk, and a look at each of those trials that are of the runs and cheap enough.

    Args:
        where: all columns of :data:`TASK`, with the values that they must have.
        among: the trials that count.
    """
    query = sa.select(TrialRow.id).where(SUCCEEDED).filter_by(**where)
    if among.runs is not None:
        # Added to nothing, lest a planner fetches and sorts all trials of these runs.
        query = query.where((TrialRow.run_id + 0).in_(among.runs))
    if among.below is not None:
        query = query.where(TrialRow.cost < among.below)
    if among.since is not None:
        query = query.where(TrialRow.timestamp > among.since)
    return query.order_by(TrialRow.cost, TrialRow.id)


def best_trial(reader: Reader, where: dict[str, Any]) -> TrialRecord | None:
    """The best of the trials of ``where``, by the rule of :mod:`whet.db.values.decision`."""
    return best.best_trial(_Rows(reader, where))


class _Rows:
    """A transaction as a :class:`whet.db.quick.best.Source`."""

    def __init__(self, reader: Reader, where: dict[str, Any]) -> None:
        self.reader, self.where = reader, where

    def runs(self) -> Iterable[Any]:
        columns = (RUNS.c[name] for name in best.RUN_COLUMNS)
        return self.reader.connection.execute(sa.select(*columns).filter_by(**self.where))

    def trials(self, run_id: int, task: Mapping[str, Any]) -> list[TrialRecord]:
        return select_trials(self.reader, {**task, "run_id": run_id})

    def cheapest(self, task: Mapping[str, Any], among: best.Among) -> TrialRecord | None:
        return _first_trial(self.reader, best_query(task, among))


def _first_trial(reader: Reader, query: sa.Select) -> TrialRecord | None:
    """The first readable trial of those whose ids a query gives, in its order."""

    def record(row: Any) -> TrialRecord | None:
        query = sa.select(TRIALS).where(TrialRow.id == row.id)
        return reader.trial(reader.connection.execute(query).one())

    return _first_readable(reader, query, record)


def _first_readable(reader: Reader, query: sa.Select, read: Callable[[Any], R | None]) -> R | None:
    """The value of the first row that ``read`` can read; None where there is none.

    As a rule that is the first of all, and one row is fetched.
    """
    skipped, count = 0, 1
    while rows := reader.connection.execute(query.limit(count).offset(skipped)).all():
        if readable := next(filter(None, map(read, rows)), None):
            return readable
        skipped, count = skipped + count, 2 * count
    return None


def known_result(reader: Reader, program_hash: str, device: Device) -> MeasureResult | None:
    """The result of a program on a device, a success if there is one, else the newest; or None."""
    whose = {"device": digest(device_key(device)), "program": program_hash}
    if reader.connection.execute(OF_PROGRAM, whose).first() is None:  # as a rule
        return None
    query = (
        sa.select(TRIALS)
        .where(
            TrialRow.device_id == find_id(reader.connection, DeviceRow, digest(device_key(device))),
            TrialRow.program_hash == program_hash,
            HASHED,
            TrialRow.status.in_(REUSABLE),
            TrialRow.withdrawn.is_(None),
        )
        .order_by(sa.case((TrialRow.status == "ok", 0), else_=1), TrialRow.id.desc())
    )
    return _first_readable(reader, query, reader.result)


def select_runs(reader: Reader) -> list[RunRecord]:
    """All runs, oldest first."""
    query = sa.select(RUNS).order_by(RunRow.id)
    return _readable(map(reader.run, reader.connection.execute(query)))


def summarise(reader: Reader) -> list[TaskSummary]:
    """The log's tasks by their counters, each with its best trial."""
    summaries = []
    for row, identities in _tasks(reader):
        summaries.append(
            TaskSummary(
                **identities,
                fingerprint=row.space_fingerprint,
                trials=row.trials,
                succeeded=row.succeeded,
                best=best_trial(reader, {name: getattr(row, name) for name in TASK}),
            )
        )
    return summaries


def _tasks(reader: Reader) -> list[tuple[Any, dict[str, Any]]]:
    """The rows of the tasks that have trials, with what they are of."""
    columns = TaskRow.__table__.c
    trial = sa.select(TrialRow.id).where(*(TRIALS.c[name] == columns[name] for name in TASK))
    query = (
        sa.select(TaskRow.__table__)
        .where(sa.exists(trial))
        .order_by(*(columns[name] for name in TASK))
    )
    tasks = []
    for row in reader.connection.execute(query).all():
        try:
            identities = reader.identities(row)
            if not isinstance(row.space_fingerprint, str):
                raise ValueError(f"its space is {row.space_fingerprint!r}")
            if not (type(row.trials) is type(row.succeeded) is int):
                raise ValueError(f"its counters are {row.trials!r} and {row.succeeded!r}")
        except BROKEN as error:
            reader.broken["task", row.workload_id] = str(error)
            continue
        tasks.append((row, identities))
    return tasks


def count_tasks(reader: Reader) -> list[tuple[TaskKey, Counts]]:
    """The log's tasks with their counters; no trial is read."""
    claimed = sa.select(ClaimRow.task_id, sa.func.count()).group_by(ClaimRow.task_id)
    claims = {row[0]: row[1] for row in reader.connection.execute(claimed)}
    return [
        (
            TaskKey(**identities, fingerprint=row.space_fingerprint),
            Counts(row.trials, row.succeeded, claims.get(row.id, 0)),
        )
        for row, identities in _tasks(reader)
    ]
