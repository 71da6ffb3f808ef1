"""What a log knows of other tasks: which there are, and a telling sample of each one's trials.

A log may hold very many trials, and a search shall begin at once. So a task is sampled, half its
best and half across the others, by scans of indexes alone; only the chosen rows are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from whet.db.store.models import DeviceRow, RunRow, TargetRow, TrialRow, WorkloadRow
from whet.db.store.queries import SUCCEEDED, TRIALS
from whet.db.store.reading import BROKEN, check_costs, checked_identity
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.identity import device_key
from whet.measure.values import OK

if TYPE_CHECKING:
    from whet.db.log import TuningLog
    from whet.search_spaces.values import Workload

CHUNK = 500
"""Rows that are asked for at once by their ids."""
FAILURES = 0.125
"""The share of failures in a sample, at most."""
MIX, BUCKETS = 40_503, 1 << 16
"""Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4): neighbours part ways."""
RARE = 0.02
"""Failures that are fewer than this share of a task's trials are not looked for."""


@dataclass(frozen=True)
class LoggedTask:
    """One workload on one target, device and version of its space, with the runs that count.

    Attributes:
        workload: the template's name and arguments.
        target: the canonical target as JSON.
        device: key of the machine that measured.
        fingerprint: the space's.
        runs: ids of the searches that count.
        whole: whether all searches of the task do.
        ids: its workload's, target's and device's ids.
    """

    workload: Workload
    target: dict[str, Any]
    device: str
    fingerprint: str
    runs: tuple[int, ...]
    whole: bool
    ids: tuple[int, int, int]


@dataclass(frozen=True)
class Sampled:
    """One trial of a sample.

    Attributes:
        choices: its config's choices by the knobs' names; None where the record is broken.
        cost: seconds per call; infinity for a failure.
        features: what a cost model saw of it, as :mod:`whet.db.store.vectors` writes it, or None.
    """

    choices: dict[str, Any] | None
    cost: float
    features: str | None


def tasks(log: TuningLog, before: float = math.inf) -> tuple[list[LoggedTask], int]:
    """The tasks of a log, and how many runs cannot be read.

    Args:
        log: an open log.
        before: only runs that were begun before this time count, in seconds since the epoch.

    Raises:
        LogError: the log cannot be read.
    """
    query = sa.select(
        RunRow.id,
        RunRow.started_at,
        RunRow.workload_id,
        RunRow.target_id,
        RunRow.device_id,
        RunRow.space_fingerprint,
        sa.type_coerce(WorkloadRow.data, sa.Text).label("workload"),
        sa.type_coerce(TargetRow.data, sa.Text).label("target"),
        sa.type_coerce(DeviceRow.data, sa.Text).label("device"),
    )
    for table, column in (
        (WorkloadRow, RunRow.workload_id),
        (TargetRow, RunRow.target_id),
        (DeviceRow, RunRow.device_id),
    ):
        query = query.join(table, table.id == column)
    query = query.where(RunRow.sampler != FINALISTS_RUN).order_by(RunRow.id)
    groups: dict[tuple[int, int, int, str], list[Any]] = {}
    with log.reading("read tasks") as connection:
        for row in connection.execute(query):
            group = (row.workload_id, row.target_id, row.device_id, row.space_fingerprint)
            groups.setdefault(group, []).append(row)
    found, broken = [], 0
    for key, rows in groups.items():
        whole = isinstance(key[3], str) and all(type(number) is int for number in key[:3])
        sound = [row for row in rows if whole and isinstance(row.started_at, int | float)]
        broken += len(rows) - len(sound)
        runs = tuple(row.id for row in sound if row.started_at < before)
        if not runs:
            continue
        try:
            workload = checked_identity(WorkloadRow, json.loads(rows[0].workload))
            target = checked_identity(TargetRow, json.loads(rows[0].target))
            machine = device_key(checked_identity(DeviceRow, json.loads(rows[0].device)))
        except BROKEN:
            broken += len(runs)
            continue
        all_count = len(runs) == len(rows)
        found.append(LoggedTask(workload, target, machine, key[3], runs, all_count, key[:3]))
    return found, broken


def trials_of(log: TuningLog, task: LoggedTask) -> int:
    """How many trials the runs of a task that count have."""
    with log.reading("count trials") as connection:
        query = sa.select(sa.func.count(TrialRow.id)).where(TrialRow.run_id.in_(task.runs))
        return connection.execute(query).scalar_one()


def sample(log: TuningLog, task: LoggedTask, count: int) -> list[Sampled]:
    """At most ``count`` trials of a task: its best ones first, then others across its range.

    The same log gives the same sample.

    Raises:
        LogError: the log cannot be read.
    """
    with log.reading("sample trials") as connection:
        ids = _chosen(connection, task, count)
        rows = _rows(connection, ids)
    return [_sampled(rows[i]) for i in ids if i in rows]


def _of(task: LoggedTask) -> list[sa.ColumnElement[bool]]:
    names = ("workload_id", "target_id", "device_id")
    where = [TRIALS.c[name] == value for name, value in zip(names, task.ids)]
    where.append(TrialRow.space_fingerprint == task.fingerprint)
    if not task.whole:
        where.append(TrialRow.run_id.in_(task.runs))
    return where


def _chosen(connection: sa.Connection, task: LoggedTask, count: int) -> list[int]:
    """Ids: the best, then a part of the other successes, then a few failures."""
    where = _of(task)

    def number(*more: Any) -> int:
        query = sa.select(sa.func.count(TrialRow.id)).where(*where, *more)
        return connection.execute(query).scalar_one()

    def ids(query: sa.Select) -> list[int]:
        return list(connection.execute(query).scalars())

    every, worked = number(), number(SUCCEEDED)
    failed = every - worked
    wanted_failures = min(int(FAILURES * count), failed) if failed > RARE * every else 0
    room = count - wanted_failures
    best_first = sa.select(TrialRow.id).where(*where, SUCCEEDED).order_by(TrialRow.cost)
    if worked <= room:
        chosen = ids(best_first.order_by(TrialRow.id))
    else:
        chosen = ids(best_first.order_by(TrialRow.id).limit(room - room // 2))
        # By their ids, shuffled: a sample without a sort, and the same one each time.
        shuffled = sa.cast(TrialRow.id, sa.BigInteger) * MIX % BUCKETS
        cut = -(-BUCKETS * (room // 2) // worked)
        across = sa.select(TrialRow.id).where(*where, SUCCEEDED, shuffled < cut)
        chosen += ids(across.order_by(TrialRow.id).limit(room // 2))
    failures = sa.select(TrialRow.id).where(*where, sa.text("trial.status <> 'ok'"))
    chosen += ids(failures.order_by(TrialRow.id).limit(wanted_failures)) if wanted_failures else []
    return list(dict.fromkeys(chosen))


def _rows(connection: sa.Connection, ids: list[int]) -> dict[int, Any]:
    columns = (TrialRow.id, TrialRow.status, TrialRow.cost, TrialRow.costs, TrialRow.features)
    text = sa.type_coerce(TrialRow.config, sa.Text).label("config")
    rows: dict[int, Any] = {}
    for start in range(0, len(ids), CHUNK):
        query = sa.select(*columns, text).where(TrialRow.id.in_(ids[start : start + CHUNK]))
        rows.update((row.id, row) for row in connection.execute(query))
    return rows


def _sampled(row: Any) -> Sampled:
    try:
        check_costs(row.status, row.cost, row.costs)
        # Not a whole Config: checking two thousand takes as long as reading them.
        choices = {str(name): _frozen(c) for name, _, c in json.loads(row.config)["choices"]}
    except BROKEN:
        return Sampled(None, math.inf, None)
    return Sampled(choices, row.cost if row.status == OK else math.inf, row.features)


def _frozen(choice: Any) -> Any:
    return tuple(map(_frozen, choice)) if isinstance(choice, list) else choice


def distance(a: Any, b: Any) -> float:
    """How far apart the arguments of two workloads are: doublings of sizes.

    Infinite where they differ in a word, a truth value or a structure.
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _sum(map(distance, a, b)) if len(a) == len(b) else math.inf
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b))
    if numbers and min(a, b) >= 0:
        return abs(math.log2((a + 1) / (b + 1)))
    return 0.0 if type(a) is type(b) and a == b else math.inf


def _sum(values: Iterable[float]) -> float:
    return float(sum(values))
