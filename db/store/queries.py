"""The statements of a log, in the SQL that SQLite and PostgreSQL share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whet.compiler.errors import LogError
from whet.db.store.models import Base, DeviceRow, RunRow, TargetRow, TrialRow, WorkloadRow
from whet.db.store.reading import BROKEN, Identity, Reader
from whet.db.values.decision import FINALISTS_RUN, deciding, judge
from whet.db.values.identity import clean_text, device_key, digest
from whet.db.values.records import RunRecord, TaskSummary, TrialRecord
from whet.measure.device.names import Device
from whet.measure.values import MeasureResult, is_time, target_json
from whet.search_spaces.values import Config, Workload

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.db.log import TuningLog

TRIALS = TrialRow.__table__
RUNS = RunRow.__table__

# Made once, so that SQLAlchemy compiles each once: a search sends one for every trial.
UNLESS_THERE: dict[tuple[str, type[Base]], Any] = {
    (dialect, table): insert(table).on_conflict_do_nothing()
    for dialect, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
    for table in (TrialRow, WorkloadRow, TargetRow, DeviceRow)
}

# Literals, not bound values: a planner takes a partial index only if it can see that it applies.
SUCCEEDED = sa.text("trial.status = 'ok'")
HASHED = sa.text("trial.program_hash <> ''")

REPEATED = ("workload_id", "target_id", "device_id", "space_fingerprint")
"""Columns of a run that its trials have, too."""
REUSABLE = ("ok", "wrong_answer", "build_error", "build_crash", "run_error", "run_crash")
"""Outcomes that belong to the program; timeouts and lack of memory belong to a run's limits too."""


def find_id(connection: sa.Connection, table: Identity, value_digest: str) -> int | None:
    """The id of a stored workload, target or device, or None."""
    return connection.execute(sa.select(table.id).where(table.digest == value_digest)).scalar()


def find_device_id(connection: sa.Connection, device: Device) -> int | None:
    """The id of a device, or None."""
    return find_id(connection, DeviceRow, digest(device_key(device)))


def conditions(
    connection: sa.Connection,
    workload: Workload | None,
    target: Target | dict[str, Any] | str | None,
    device: Device | None,
    fingerprint: str | None,
) -> dict[str, Any] | None:
    """Columns and values that a trial must have; None where no trial can."""
    where: dict[str, Any] = {}
    if workload is not None:
        found = find_id(connection, WorkloadRow, digest(workload.to_json()))
        where["workload_id"] = found
    if target is not None:
        found = find_id(connection, TargetRow, digest(target_json(target)))
        where["target_id"] = found
    if device is not None:
        where["device_id"] = find_device_id(connection, device)
    if None in where.values():
        return None
    if fingerprint is not None:
        where["space_fingerprint"] = fingerprint
    return where


def _find_or_insert(
    connection: sa.Connection, table: Identity, value_digest: str, **columns: Any
) -> int:
    found = find_id(connection, table, value_digest)
    if found is not None:
        return found
    insert = _unless_there(connection, table).returning(table.id)
    made = connection.execute(insert, {"digest": value_digest, **columns}).scalar()
    # Another process of a server was quicker (SQLite's writers take turns and never get here).
    found = find_id(connection, table, value_digest) if made is None else made
    assert found is not None
    return found


def _unless_there(connection: sa.Connection, table: type[Base]) -> Any:
    """A statement that inserts a row, or nothing where a unique key is taken.

    It needs no savepoint: where the disk is full, SQLite ends the whole transaction, and what is
    said of a savepoint that is gone would hide it.
    """
    return UNLESS_THERE[connection.dialect.name, table]


def insert_run(connection: sa.Connection, run: RunRecord) -> int:
    """Insert a run with its workload, target and device, unless its uid is there; return its id."""
    found = connection.execute(sa.select(RunRow.id).where(RunRow.uid == run.uid)).scalar()
    if found is not None:
        return found
    workload = run.workload.to_json()
    values = {
        "uid": run.uid,
        "workload_id": _find_or_insert(
            connection, WorkloadRow, digest(workload), template=run.workload.template, data=workload
        ),
        "target_id": _find_or_insert(connection, TargetRow, digest(run.target), data=run.target),
        "device_id": _find_or_insert(
            connection, DeviceRow, digest(device_key(run.device)), data=run.device
        ),
        "space_fingerprint": run.fingerprint,
        "sampler": run.sampler,
        "seed": run.seed,
        "options": run.options,
        "versions": run.versions,
        "state": run.state,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
    }
    return connection.execute(sa.insert(RunRow).values(values).returning(RunRow.id)).scalar_one()


def update_run(connection: sa.Connection, run_id: int, state: str, when: float) -> None:
    """Write how a run ended."""
    change = sa.update(RunRow).where(RunRow.id == run_id).values(state=state, finished_at=when)
    connection.execute(change)


def run_keys(connection: sa.Connection, run_id: int) -> dict[str, Any] | None:
    """A run's uid, and what a trial repeats of it: its identities' ids, its space's fingerprint."""
    query = sa.select(*(RUNS.c[name] for name in ("uid", *REPEATED))).where(RunRow.id == run_id)
    row = connection.execute(query).mappings().first()
    return dict(row) if row is not None else None


def insert_trial(
    connection: sa.Connection,
    keys: dict[str, Any],
    run_id: int,
    number: int,
    config: Config,
    result: MeasureResult,
    flop: float,
    features: str = "",
) -> None:
    """Insert a trial; the same trial again is no error and changes nothing.

    Raises:
        LogError: the number is taken by another trial, the config is not of the run's space, or a
            success has no cost.
    """
    asked = f"add trial {number} to run {run_id}"
    if config.fingerprint != keys["space_fingerprint"]:
        space = keys["space_fingerprint"]
        why = f"its config is of space {config.fingerprint!r}, the run's is {space!r}"
        raise LogError(asked, why, "start a run for each version of a space")
    if result.ok and not all(map(is_time, result.costs)):
        why = f"its costs are {result.costs}"
        raise LogError(asked, why, "the costs of a success are seconds, finite and above 0")
    values = {
        **{name: keys[name] for name in REPEATED},
        "run_id": run_id,
        "number": number,
        "config": config.to_json(),
        "flop": float(flop),
        "status": result.status,
        "stage": result.stage,
        "cost": result.cost if result.ok else None,
        "costs": list(result.costs),
        "error": clean_text(result.error),
        "program_hash": result.program_hash,
        "timings": result.timings,
        "environment": result.environment,
        "timestamp": result.timestamp,
        "features": features or None,
    }
    if connection.execute(_unless_there(connection, TrialRow), values).rowcount == 1:
        return
    there = sa.select(TrialRow.config, TrialRow.status, TrialRow.costs).where(
        TrialRow.run_id == run_id, TrialRow.number == number
    )
    row = connection.execute(there).one()
    try:
        known: Config | str = Config.from_json(row.config)
        same = (known, row.status, tuple(row.costs)) == (config, result.status, result.costs)
    except BROKEN:
        known, same = "its config cannot be read", False
    if not same:
        why = f"another trial has that number ({row.status}, {known})"
        raise LogError(asked, why, "one process adds the trials of one run")


def select_trials(
    reader: Reader, where: dict[str, Any], run_id: int | None = None
) -> list[TrialRecord]:
    """The trials whose columns equal the values of ``where``, in order of runs and numbers."""
    query = sa.select(TRIALS).order_by(TrialRow.run_id, TrialRow.number)
    for column, value in where.items():
        query = query.where(TRIALS.c[column] == value)
    if run_id is not None:
        query = query.where(TrialRow.run_id == run_id)
    found = map(reader.trial, reader.connection.execute(query))
    return [record for record in found if record is not None]


def count_trials(connection: sa.Connection) -> int:
    """How many rows of trials there are."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(TRIALS)).scalar_one())


def broken_trials(
    log: TuningLog, workload: Workload, target: Any, device: Device, fingerprint: str
) -> int:
    """How many trials of a task's runs cannot be read.

    Args:
        log, workload, target, device, fingerprint: as of :meth:`whet.db.TuningLog.trials`.
    """
    readable = len(log.trials(workload, target, device, fingerprint))
    with log.reading("count trials") as connection:
        where = conditions(connection, workload, target, device, fingerprint)
        # By their runs: what a broken trial repeats of its run may be what is broken.
        query = sa.select(sa.func.count(TrialRow.id)).join(RUNS, RunRow.id == TrialRow.run_id)
        for column, value in (where or {}).items():
            query = query.where(RUNS.c[column] == value)
        return connection.execute(query).scalar_one() - readable if where else 0


def best_query(where: dict[str, Any], runs: Iterable[int] | None = None) -> sa.Select:
    """The ids of the successes, the cheapest first, the earlier of two equals before the other.

    Args:
        where: columns and the values that they must have.
        runs: only trials of these; None: of any, which is answered from one index alone.
    """
    query = sa.select(TrialRow.id).where(SUCCEEDED)
    for column, value in where.items():
        query = query.where(TRIALS.c[column] == value)
    if runs is not None:
        query = query.where(TrialRow.run_id.in_(tuple(runs)))
    return query.order_by(TrialRow.cost, TrialRow.id)


def best_trial(reader: Reader, where: dict[str, Any]) -> TrialRecord | None:
    """The best of the trials of ``where``, by the rule of :mod:`whet.db.values.decision`."""
    columns = (RunRow.id, RunRow.sampler, RunRow.state, RunRow.started_at)
    query = sa.select(*columns, RunRow.space_fingerprint)
    for column, value in where.items():
        query = query.where(RUNS.c[column] == value)
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
            final = judge(select_trials(reader, of_space, decide.finals)).best
            if final is not None and (best is None or final.cost <= best.cost):
                best = final
        candidates += [best] if best else []
    return min(candidates, key=lambda record: record.cost, default=None)


def _first_trial(reader: Reader, query: sa.Select) -> TrialRecord | None:
    """The first readable trial of those whose ids a query gives, in its order."""

    def record(found: Any) -> TrialRecord | None:
        query = sa.select(TRIALS).where(TrialRow.id == found.id)
        return reader.trial(reader.connection.execute(query).one())

    return _first_readable(reader.connection, query, record)


R = TypeVar("R")


def _first_readable(
    connection: sa.Connection, query: sa.Select, read: Callable[[Any], R | None]
) -> R | None:
    """What ``read`` makes of the first row that it can read; None where there is none.

    As a rule that is the first of all, and one row is fetched.
    """
    skipped, count = 0, 1
    while True:
        rows = connection.execute(query.limit(count).offset(skipped)).all()
        for row in rows:
            found = read(row)
            if found is not None:
                return found
        if len(rows) < count:
            return None
        skipped, count = skipped + count, 2 * count


def known_query(program_hash: str, device_id: int) -> sa.Select:
    """The trials that say how a program does on a device: successes first, then the newest."""
    return (
        sa.select(TRIALS)
        .where(
            TrialRow.device_id == device_id,
            TrialRow.program_hash == program_hash,
            HASHED,
            TrialRow.status.in_(REUSABLE),
        )
        .order_by(sa.case((TrialRow.status == "ok", 0), else_=1), TrialRow.id.desc())
    )


def known_result(reader: Reader, program_hash: str, device_id: int) -> MeasureResult | None:
    """What came of a program on a device; None where nothing says so."""
    return _first_readable(reader.connection, known_query(program_hash, device_id), reader.result)


def select_runs(reader: Reader) -> list[RunRecord]:
    """All runs, oldest first."""
    rows = reader.connection.execute(sa.select(RUNS).order_by(RunRow.id))
    return [run for run in map(reader.run, rows) if run is not None]


def summarise(reader: Reader) -> list[TaskSummary]:
    """What the log holds, one entry for each workload, target, device and space."""
    task = (
        TrialRow.workload_id,
        TrialRow.target_id,
        TrialRow.device_id,
        TrialRow.space_fingerprint,
    )
    # The finalists were counted when they were searched for.
    searched = sa.case((RunRow.sampler != FINALISTS_RUN, 1), else_=0)
    succeeded = sa.case((TrialRow.status == "ok", searched), else_=0)
    query = sa.select(
        *task,
        sa.func.sum(searched).label("trials"),
        sa.func.sum(succeeded).label("succeeded"),
    ).join(RUNS, RunRow.id == TrialRow.run_id)
    found = []
    for row in reader.connection.execute(query.group_by(*task).order_by(*task)).all():
        try:
            identities = reader.identities(row)
            if not isinstance(row.space_fingerprint, str):
                raise ValueError(f"its space is {row.space_fingerprint!r}")
        except BROKEN as error:
            reader.broken["task", row.workload_id] = str(error)
            continue
        best = best_trial(reader, {column.key: getattr(row, column.key) for column in task})
        found.append(
            TaskSummary(
                **identities,
                fingerprint=row.space_fingerprint,
                trials=int(row.trials),
                succeeded=int(row.succeeded),
                best=best,
            )
        )
    return found
