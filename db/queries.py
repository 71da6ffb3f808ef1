"""The statements of a log, in the SQL that SQLite and PostgreSQL share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc

from whet.compiler.errors import LogError
from whet.db.decision import FINALISTS_RUN, deciding, judge
from whet.db.identity import Device, clean_text, device_key, digest, target_json
from whet.db.models import DeviceRow, RunRow, TargetRow, TrialRow, WorkloadRow
from whet.db.records import RunRecord, TaskSummary, TrialRecord
from whet.measure.values import MeasureResult
from whet.search_spaces.values import Config, Workload

if TYPE_CHECKING:
    from whet.compiler.target import Target

Identity = type[WorkloadRow] | type[TargetRow] | type[DeviceRow]

TRIALS = TrialRow.__table__
RUNS = RunRow.__table__

# Compiled once: a search sends it for every trial.
INSERT_TRIAL = sa.insert(TrialRow)

# Literals, not bound values: a planner takes a partial index only if it can see that it applies.
SUCCEEDED = sa.text("trial.status = 'ok'")
HASHED = sa.text("trial.program_hash <> ''")

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
    try:
        with connection.begin_nested():
            row = sa.insert(table).values(digest=value_digest, **columns).returning(table.id)
            return connection.execute(row).scalar_one()
    except exc.IntegrityError:
        # Another process of a server was quicker (SQLite's writers take turns and never get here).
        found = find_id(connection, table, value_digest)
        if found is None:
            raise
        return found


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


def update_run(connection: sa.Connection, run_id: int, state: str, when: float) -> bool:
    """Write how a run ended; False where there is no such run."""
    change = sa.update(RunRow).where(RunRow.id == run_id).values(state=state, finished_at=when)
    return connection.execute(change).rowcount == 1


def run_keys(connection: sa.Connection, run_id: int) -> dict[str, Any] | None:
    """What a trial repeats of its run: the ids of its identities and its space's fingerprint."""
    columns = ("workload_id", "target_id", "device_id", "space_fingerprint")
    query = sa.select(*(getattr(RunRow, name) for name in columns)).where(RunRow.id == run_id)
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
    if result.ok and not all(math.isfinite(cost) and cost > 0 for cost in result.costs):
        why = f"its costs are {result.costs}"
        raise LogError(asked, why, "the costs of a success are seconds, finite and above 0")
    values = {
        **keys,
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
    try:
        with connection.begin_nested():
            connection.execute(INSERT_TRIAL, values)
    except exc.IntegrityError:
        there = sa.select(TrialRow.config, TrialRow.status, TrialRow.costs).where(
            TrialRow.run_id == run_id, TrialRow.number == number
        )
        row = connection.execute(there).first()
        if row is None:
            raise
        if (Config.from_json(row.config), row.status, tuple(row.costs)) != (
            config,
            result.status,
            result.costs,
        ):
            why = f"another trial has that number ({row.status}, {Config.from_json(row.config)})"
            raise LogError(asked, why, "one process adds the trials of one run") from None


class Identities:
    """Workloads, targets and devices by their ids, each read once for many trials."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._seen: dict[tuple[str, int], Any] = {}

    def _data(self, table: Identity, row_id: int) -> Any:
        key = (table.__tablename__, row_id)
        if key not in self._seen:
            query = sa.select(table.data).where(table.id == row_id)
            data = self._connection.execute(query).scalar_one()
            self._seen[key] = Workload.from_json(data) if table is WorkloadRow else data
        return self._seen[key]

    def of(self, row: Any) -> dict[str, Any]:
        """``workload``, ``target`` and ``device`` of a row of runs or trials."""
        return {
            "workload": self._data(WorkloadRow, row.workload_id),
            "target": self._data(TargetRow, row.target_id),
            "device": self._data(DeviceRow, row.device_id),
        }


def result_of(row: Any) -> MeasureResult:
    """The result in a row of trials."""
    return MeasureResult(
        status=row.status,
        costs=tuple(row.costs),
        error=row.error,
        stage=row.stage,
        program_hash=row.program_hash,
        timings=row.timings,
        environment=row.environment,
        timestamp=row.timestamp,
    )


def _record(row: Any, identities: Identities) -> TrialRecord:
    return TrialRecord(
        number=row.number,
        run_id=row.run_id,
        **identities.of(row),
        config=Config.from_json(row.config),
        result=result_of(row),
        flop=row.flop,
        features=row.features or "",
    )


def select_trials(
    connection: sa.Connection, where: dict[str, Any], run_id: int | None = None
) -> list[TrialRecord]:
    """The trials whose columns equal the values of ``where``, in order of runs and numbers."""
    query = sa.select(TRIALS).order_by(TrialRow.run_id, TrialRow.number)
    for column, value in where.items():
        query = query.where(TRIALS.c[column] == value)
    if run_id is not None:
        query = query.where(TrialRow.run_id == run_id)
    identities = Identities(connection)
    return [_record(row, identities) for row in connection.execute(query)]


def best_query(where: dict[str, Any], runs: Iterable[int] | None = None) -> sa.Select:
    """The id of the cheapest success, the earlier of two equals.

    Args:
        where: columns and the values that they must have.
        runs: only trials of these; None: of any, which is answered from one index alone.
    """
    query = sa.select(TrialRow.id).where(SUCCEEDED)
    for column, value in where.items():
        query = query.where(TRIALS.c[column] == value)
    if runs is not None:
        query = query.where(TrialRow.run_id.in_(tuple(runs)))
    return query.order_by(TrialRow.cost, TrialRow.id).limit(1)


def best_trial(connection: sa.Connection, where: dict[str, Any]) -> TrialRecord | None:
    """The best of the trials of ``where``, by the rule of :mod:`whet.db.decision`."""
    columns = (RunRow.id, RunRow.sampler, RunRow.state, RunRow.started_at)
    query = sa.select(*columns, RunRow.space_fingerprint)
    for column, value in where.items():
        query = query.where(RUNS.c[column] == value)
    spaces: dict[str, list[Any]] = {}
    for run in connection.execute(query):
        spaces.setdefault(run.space_fingerprint, []).append(run)
    if not any(run.sampler == FINALISTS_RUN for runs in spaces.values() for run in runs):
        return _only(connection, best_query(where))
    candidates: list[TrialRecord] = []
    for space, runs in spaces.items():
        of_space = where | {"space_fingerprint": space}
        decide = deciding(runs)
        best = _only(connection, best_query(of_space, decide.searches))
        if decide.finals is not None:
            final = judge(select_trials(connection, of_space, decide.finals)).best
            if final is not None and (best is None or final.cost <= best.cost):
                best = final
        candidates += [best] if best else []
    return min(candidates, key=lambda record: record.cost, default=None)


def _only(connection: sa.Connection, query: sa.Select) -> TrialRecord | None:
    """The trial whose id a query gives."""
    found = connection.execute(query).scalar()
    if found is None:
        return None
    row = connection.execute(sa.select(TRIALS).where(TrialRow.id == found)).one()
    return _record(row, Identities(connection))


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
        .limit(1)
    )


def select_runs(connection: sa.Connection) -> list[RunRecord]:
    """All runs, oldest first."""
    identities = Identities(connection)
    return [
        RunRecord(
            id=row.id,
            uid=row.uid,
            **identities.of(row),
            fingerprint=row.space_fingerprint,
            sampler=row.sampler,
            seed=row.seed,
            options=row.options,
            versions=row.versions,
            state=row.state,
            started_at=row.started_at,
            finished_at=row.finished_at,
        )
        for row in connection.execute(sa.select(RUNS).order_by(RunRow.id))
    ]


def summarise(connection: sa.Connection) -> list[TaskSummary]:
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
    identities = Identities(connection)
    return [
        TaskSummary(
            **identities.of(row),
            fingerprint=row.space_fingerprint,
            trials=int(row.trials),
            succeeded=int(row.succeeded),
            best=best_trial(connection, {column.key: getattr(row, column.key) for column in task}),
        )
        for row in connection.execute(query.group_by(*task).order_by(*task))
    ]
