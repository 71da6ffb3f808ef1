"""Trials inserted by the batch: rows, counters of their tasks and claims in one transaction.

Whoever inserts locks the rows of the tasks first: those of the whole transaction at once, in the
order of their ids. So two batches of one task never mix, the ids of its trials are in the order of
commits, and nobody waits in a circle. Only an import, one transaction of many batches, may: the
server ends one of the two, and the log tries it again, with :func:`keep_tasks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from whet.compiler.errors import LogError
from whet.db.store.models import TASK, ClaimRow, RunRow, TaskRow, TrialRow
from whet.db.store.reading import BROKEN
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.identity import clean_text, config_digest, plain_json
from whet.db.values.records import Told, TrialEntry
from whet.measure.values import Json, MeasureResult, is_time
from whet.search_spaces.values import Config

TRIALS = TrialRow.__table__
LOST = "infra_error"
"""The status of a trial that was not measured: it does not count, and may be tried again."""
CHUNK = 500
"""Values in one ``IN (...)``."""

TASKS, CLAIMS, RUNS = TaskRow.__table__, ClaimRow.__table__, RunRow.__table__
TaskColumns = tuple[Any, ...]
"""The values of a task's columns :data:`~whet.db.store.models.TASK`, which name it."""


def of_task(table: sa.FromClause) -> list[sa.ColumnElement[bool]]:
    """The condition that a row is of one task, whose columns are parameters."""
    return [table.c[name] == sa.bindparam(name) for name in TASK]


def among(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """The condition that a column is among the values of a parameter."""
    return column.in_(sa.bindparam(name, expanding=True))


# Made once, so that SQLAlchemy makes and compiles each once: they cost more than what they do.
INSERT = sa.insert(TrialRow)
LOCK = sa.select(TASKS.c.id).where(*of_task(TASKS)).with_for_update()
NAMED = sa.select(TASKS.c.id).where(*of_task(TASKS))
LOCKED = (
    sa.select(TASKS.c.id).where(among(TASKS.c.id, "tasks")).order_by(TASKS.c.id).with_for_update()
)
NUMBERED = sa.select(TRIALS.c.number, TRIALS.c.config, TRIALS.c.status, TRIALS.c.costs).where(
    TRIALS.c.run_id == sa.bindparam("run"), among(TRIALS.c.number, "numbers")
)
TRIED = (
    sa.select(TRIALS.c.config_digest, TRIALS.c.status)
    .join_from(TRIALS, RUNS, RUNS.c.id == TRIALS.c.run_id)
    .where(*of_task(TRIALS), among(TRIALS.c.config_digest, "digests"))
    .where(RUNS.c.sampler != FINALISTS_RUN, TRIALS.c.status != LOST)
)
UNCLAIM = sa.delete(ClaimRow).where(
    CLAIMS.c.task_id == sa.bindparam("task"), among(CLAIMS.c.config_digest, "digests")
)
BUMP = (
    sa.update(TaskRow)
    .where(TaskRow.id == sa.bindparam("task"))
    .values(
        trials=TaskRow.trials + sa.bindparam("more"),
        succeeded=TaskRow.succeeded + sa.bindparam("well"),
    )
)


@dataclass
class _Row:
    """An entry on its way into the table."""

    entry: TrialEntry
    keys: Json
    digest: str
    known: bool = False


def insert_trials(
    connection: sa.Connection,
    entries: Sequence[TrialEntry],
    keys: Mapping[int, Json],
    drop_recorded: bool = False,
    locked: Mapping[TaskColumns, int] | None = None,
) -> list[TrialEntry]:
    """Insert trials; the same trial again is no error and changes nothing.

    Args:
        connection: a transaction that writes.
        entries: the trials.
        keys: of their runs, as :func:`whet.db.store.queries.run_keys` gives them.
        drop_recorded: leave out a trial whose config another search of the task has recorded.
        locked: from :func:`lock_tasks`, where the transaction has locked their tasks already.

    Returns:
        The entries that were left out.

    Raises:
        LogError: a number is taken by another trial, a config is not of its run's space, or a
            success has no cost.
    """
    rows = [_Row(e, keys[e.run_id], config_digest(e.config)) for e in entries if _check(e, keys)]
    tasks: dict[TaskColumns, list[_Row]] = {}
    for row in rows:
        tasks.setdefault(columns_of(row.keys), []).append(row)
    ids = lock_tasks(connection, (row.keys for row in rows)) if locked is None else locked
    _mark_known(connection, rows)
    dropped: list[TrialEntry] = []
    for task_id, key in sorted((ids[key], key) for key in tasks):
        dropped += _insert_of_task(connection, task_id, key, tasks[key], drop_recorded)
    return dropped


def columns_of(task: Mapping[str, Any]) -> TaskColumns:
    """The values that name a task, of columns of its row, of its runs' or its trials'."""
    return tuple(task[name] for name in TASK)


def lock_tasks(
    connection: sa.Connection,
    tasks: Iterable[Mapping[str, Any]],
    others: Iterable[Mapping[str, Any]] = (),
) -> dict[TaskColumns, int]:
    """Lock the rows of tasks in the order of their ids; to be called once in a transaction.

    Args:
        connection: a transaction that writes.
        tasks: columns of tasks, each of which has a row.
        others: columns of tasks which may have none; those are left out.

    Returns:
        The ids of the rows.
    """
    own = dict.fromkeys(map(columns_of, tasks))
    more = dict.fromkeys(map(columns_of, others))
    if len(own | more) == 1 and own:
        return {key: lock_task(connection, dict(zip(TASK, key))) for key in own}
    ids: dict[TaskColumns, int] = {}
    for key in own | more:
        found = connection.execute(NAMED, dict(zip(TASK, key)))
        task_id = found.scalar_one() if key in own else found.scalar()
        if task_id is not None:
            ids[key] = task_id
    if ids:
        connection.execute(LOCKED, {"tasks": list(ids.values())}).all()
    return ids


def lock_task(connection: sa.Connection, task: Mapping[str, Any]) -> int:
    """The id of a task's row, which is this transaction's until it ends (SQLite's file is)."""
    return connection.execute(LOCK, {name: task[name] for name in TASK}).scalar_one()


def keep_tasks(connection: sa.Connection) -> None:
    """Keep others from locking a task until this transaction ends (from SQLite's file, all are)."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"LOCK TABLE {TaskRow.__tablename__} IN EXCLUSIVE MODE")


def check_space(request: str, config: Config, keys: Json) -> None:
    """Refuse a config that is of another space than its run's.

    Args:
        request: its purpose, for the error's text.
        config: the candidate.
        keys: of the run.

    Raises:
        LogError: it is.
    """
    space = keys["space_fingerprint"]
    if config.fingerprint != space:
        why = f"its config is of space {config.fingerprint!r}, the run's is {space!r}"
        raise LogError(request, why, "start a run for each version of a space")


def _check(entry: TrialEntry, keys: Mapping[int, Json]) -> bool:
    """Refuse a trial that is none of its run."""
    check_space(entry.request, entry.config, keys[entry.run_id])
    result = entry.result
    if result.ok and not all(map(is_time, result.costs)):
        why = f"its costs are {result.costs}"
        raise LogError(entry.request, why, "the costs of a success are seconds, finite and above 0")
    return True


def _mark_known(connection: sa.Connection, rows: list[_Row]) -> None:
    """Mark the rows that are in the table already; refuse those whose number another trial has."""
    by_number: dict[tuple[int, int], _Row] = {}
    for row in rows:
        place = (row.entry.run_id, row.entry.number)
        first = by_number.setdefault(place, row)
        if first is not row:  # twice in one batch
            _check_same(row.entry, first.entry.config, first.entry.result)
            row.known = True
    numbers: dict[int, list[int]] = {}
    for run_id, number in by_number:
        numbers.setdefault(run_id, []).append(number)
    for run_id, wanted in numbers.items():
        for start in range(0, len(wanted), CHUNK):
            some = {"run": run_id, "numbers": wanted[start : start + CHUNK]}
            for found in connection.execute(NUMBERED, some):
                row = by_number[run_id, found.number]
                row.known = True
                try:
                    config: Config | None = Config.from_json(found.config)
                    result = MeasureResult(found.status, tuple(found.costs))
                except BROKEN:
                    config, result = None, MeasureResult(LOST)
                _check_same(row.entry, config, result)


def _check_same(entry: TrialEntry, config: Config | None, result: MeasureResult) -> None:
    """Refuse a number that another trial has."""
    mine = (entry.config, entry.result.status, tuple(entry.result.costs))
    if mine != (config, result.status, tuple(result.costs)):
        known = "its config cannot be read" if config is None else config
        why = f"another trial has that number ({result.status}, {known})"
        raise LogError(entry.request, why, "one process adds the trials of one run")


def _insert_of_task(
    connection: sa.Connection,
    task_id: int,
    key: TaskColumns,
    rows: list[_Row],
    drop_recorded: bool,
) -> list[TrialEntry]:
    """Insert the new ones of one task's trials, count them, and end their claims."""
    new = [row for row in rows if not row.known]
    searched = [row for row in new if row.keys["sampler"] != FINALISTS_RUN]
    counted = _counted(connection, key, {row.digest for row in searched})
    dropped = [r for r in searched if r.digest in counted] if drop_recorded else []
    gone = set(map(id, dropped))
    values = [_values(row) for row in new if id(row) not in gone]
    if values:
        connection.execute(INSERT, values)
    more = well = 0
    for row in searched:
        if row.entry.result.status == LOST or id(row) in gone:
            continue
        ok = row.entry.result.ok
        more += row.digest not in counted
        well += ok and not counted.get(row.digest, False)
        counted[row.digest] = ok or counted.get(row.digest, False)
    if more or well:
        connection.execute(BUMP, {"task": task_id, "more": more, "well": well})
    # Finalists are measured without a claim: one of their configs is another's.
    of_searches = {row.digest for row in rows if row.keys["sampler"] != FINALISTS_RUN}
    for part in chunks(of_searches):
        connection.execute(UNCLAIM, {"task": task_id, "digests": part})
    return [row.entry for row in dropped]


def chunks(values: Iterable[str]) -> list[list[str]]:
    """Values in lists that are short enough for one ``IN (...)``."""
    every = list(values)
    return [every[i : i + CHUNK] for i in range(0, len(every), CHUNK)]


def _counted(connection: sa.Connection, key: TaskColumns, digests: set[str]) -> dict[str, bool]:
    """The configs among some that searches of a task have recorded; True: with a success."""
    counted: dict[str, bool] = {}
    task = dict(zip(TASK, key))
    for part in chunks(digests):
        for digest, status in connection.execute(TRIED, task | {"digests": part}):
            counted[str(digest)] = status == "ok" or counted.get(str(digest), False)
    return counted


def _values(row: _Row) -> dict[str, Any]:
    entry, result = row.entry, row.entry.result
    return {
        **{name: row.keys[name] for name in TASK},
        **vars(result),
        "run_id": entry.run_id,
        "number": entry.number,
        "config": entry.config.to_json(),
        "config_digest": row.digest,
        "flop": float(entry.flop),
        "cost": result.cost if result.ok else None,
        "costs": list(result.costs),
        "error": clean_text(result.error),
        "features": entry.features or None,
        "told": None if entry.told is None else plain_json(list(entry.told)),
    }


def told_of_text(text: Any) -> Told | None:
    """The trials that a row's proposer knew of; None where that cannot be read."""
    try:
        told = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    sound = isinstance(told, list) and all(type(item) in (int, str) for item in told)
    return tuple(told) if sound else None


def withdraw(connection: sa.Connection, trials: Sequence[int], why: str) -> int:
    """Withdraw trials with all others of their configs; what is withdrawn keeps its reason.

    Args:
        connection: a transaction that writes.
        trials: their ids.
        why: the reason.

    Returns:
        The number of those rows that bear the reason.
    """
    columns = (TrialRow.id, TrialRow.config_digest, *(TRIALS.c[name] for name in TASK))
    rows: set[int] = set()
    for start in range(0, len(trials), CHUNK):
        given = sa.select(*columns).where(TrialRow.id.in_(trials[start : start + CHUNK]))
        for row in connection.execute(given).all():
            # A config that cannot be read has no digest: it is withdrawn alone.
            rows.add(row.id)
            same = (TRIALS.c[name] == getattr(row, name) for name in (*TASK, "config_digest"))
            rows.update(connection.execute(sa.select(TrialRow.id).where(*same)).scalars())
    ordered, bearing = sorted(rows), 0  # in one order, so that nobody waits in a circle
    for start in range(0, len(ordered), CHUNK):
        mine = TrialRow.id.in_(ordered[start : start + CHUNK])
        holding = sa.update(TrialRow).where(mine, TrialRow.withdrawn.is_(None))
        connection.execute(holding.values(withdrawn=why))
        bear = sa.select(sa.func.count(TrialRow.id)).where(mine, TrialRow.withdrawn == why)
        bearing += connection.execute(bear).scalar_one()
    return bearing
