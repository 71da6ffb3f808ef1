"""The statements of a log, in the SQL that SQLite and PostgreSQL share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whet.db.store.models import (
    TASK,
    Base,
    DeviceRow,
    Identity,
    RunRow,
    TargetRow,
    TaskRow,
    TrialRow,
    WorkloadRow,
)
from whet.db.store.reading import BROKEN, Reader
from whet.db.values.decision import FINALISTS_RUN, deciding, judge
from whet.db.values.identity import device_key, digest
from whet.db.values.records import RunRecord, TaskSummary, TrialRecord
from whet.measure.device.names import Device
from whet.measure.values import AnyTarget, Json, MeasureResult, target_json
from whet.search_spaces.values import Workload

if TYPE_CHECKING:
    from whet.db.log import TuningLog

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


def run_keys(connection: sa.Connection, run_id: int) -> Json | None:
    """A run's uid, its sampler and its columns of :data:`TASK`, which its trials repeat."""
    query = sa.select(*(RUNS.c[name] for name in ("uid", "sampler", *TASK))).where(
        RunRow.id == run_id
    )
    row = connection.execute(query).mappings().first()
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


def broken_trials(
    log: TuningLog, workload: Workload, target: Any, device: Device, fingerprint: str
) -> int:
    """The number of trials of a task's runs that cannot be read.

    Args:
        log, workload, target, device, fingerprint: as of :meth:`whet.db.TuningLog.trials`.
    """
    readable = len(log.trials(workload, target, device, fingerprint))

    def count(connection: sa.Connection) -> int:
        where = conditions(connection, workload, target, device, fingerprint)
        # By their runs: what a broken trial repeats of its run may be what is broken.
        runs = sa.select(RunRow.id).filter_by(**where or {})
        return count_trials(connection, TrialRow.run_id.in_(runs)) - readable if where else 0

    return log.read("count trials", count)


def best_query(where: dict[str, Any], runs: Iterable[int] | None = None) -> sa.Select:
    """The ids of the successes, the cheapest first, the earlier of two equals before the other.

    Args:
        where: columns and the values that they must have.
        runs: only trials of these; None: of any, which is answered from one index alone.
    """
    query = sa.select(TrialRow.id).where(SUCCEEDED).filter_by(**where)
    if runs is not None:
        query = query.where(TrialRow.run_id.in_(tuple(runs)))
    return query.order_by(TrialRow.cost, TrialRow.id)


def best_trial(reader: Reader, where: dict[str, Any]) -> TrialRecord | None:
    """The best of the trials of ``where``, by the rule of :mod:`whet.db.values.decision`."""
    columns = (RunRow.id, RunRow.sampler, RunRow.state, RunRow.started_at)
    query = sa.select(*columns, RunRow.space_fingerprint).filter_by(**where)
    spaces: dict[str, list[Any]] = {}
    for run in reader.connection.execute(query):
        texts = (run.space_fingerprint, run.sampler, run.state)
        if isinstance(run.started_at, int | float) and all(isinstance(t, str) for t in texts):
            spaces.setdefault(run.space_fingerprint, []).append(run)
    if not any(run.sampler == FINALISTS_RUN for runs in spaces.values() for run in runs):
        return _first_trial(reader, best_query(where))
    candidates: list[TrialRecord] = []
    for space, runs in spaces.items():
        of_space = where | {"space_fingerprint": space}
        decide = deciding(runs)
        best = _first_trial(reader, best_query(of_space, decide.searches))
        if decide.finals is not None:
            final = judge(select_trials(reader, of_space | {"run_id": decide.finals})).best
            if final is not None and (best is None or final.cost <= best.cost):
                best = final
        candidates += [best] if best else []
    return min(candidates, key=lambda record: record.cost, default=None)


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
    query = (
        sa.select(TRIALS)
        .where(
            TrialRow.device_id == find_id(reader.connection, DeviceRow, digest(device_key(device))),
            TrialRow.program_hash == program_hash,
            HASHED,
            TrialRow.status.in_(REUSABLE),
        )
        .order_by(sa.case((TrialRow.status == "ok", 0), else_=1), TrialRow.id.desc())
    )
    return _first_readable(reader, query, reader.result)


def select_runs(reader: Reader) -> list[RunRecord]:
    """All runs, oldest first."""
    query = sa.select(RUNS).order_by(RunRow.id)
    return _readable(map(reader.run, reader.connection.execute(query)))


def summarise(reader: Reader) -> list[TaskSummary]:
    """The log's tasks: one entry for each workload, target, device and space."""
    task = [TRIALS.c[name] for name in TASK]
    # The finalists were counted when they were searched for.
    searched = sa.case((RunRow.sampler != FINALISTS_RUN, 1), else_=0)
    succeeded = sa.case((TrialRow.status == "ok", searched), else_=0)
    query = sa.select(
        *task,
        sa.func.sum(searched).label("trials"),
        sa.func.sum(succeeded).label("succeeded"),
    ).join(RUNS, RunRow.id == TrialRow.run_id)
    summaries = []
    for row in reader.connection.execute(query.group_by(*task).order_by(*task)).all():
        try:
            identities = reader.identities(row)
            if not isinstance(row.space_fingerprint, str):
                raise ValueError(f"its space is {row.space_fingerprint!r}")
        except BROKEN as error:
            reader.broken["task", row.workload_id] = str(error)
            continue
        best = best_trial(reader, {name: getattr(row, name) for name in TASK})
        summaries.append(
            TaskSummary(
                **identities,
                fingerprint=row.space_fingerprint,
                trials=int(row.trials),
                succeeded=int(row.succeeded),
                best=best,
            )
        )
    return summaries
