"""The other tasks of a log, and a telling sample of each one's trials.

A log may hold very many trials, and a search shall begin at once. So a task is sampled, half its
best and half across the others, by scans of indexes alone; only the chosen rows are read.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from whet.db.store.models import TASK, RunRow, TrialRow
from whet.db.store.queries import RUNS, SUCCEEDED, TRIALS, count_trials
from whet.db.store.reading import BROKEN, Reader, check_costs
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.identity import device_key
from whet.measure.values import OK, Json

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
    target: Json
    device: str
    fingerprint: str
    runs: tuple[int, ...]
    whole: bool
    ids: list[int]


@dataclass(frozen=True)
class Sampled:
    """One trial of a sample.

    Attributes:
        choices: its config's choices by the knobs' names; None where the record is broken.
        cost: seconds per call; infinity for a failure.
        features: of a cost model, as :mod:`whet.db.store.vectors` writes it, or None.
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
    columns = (RunRow.id, RunRow.started_at, *(RUNS.c[name] for name in TASK))
    query = sa.select(*columns).where(RunRow.sampler != FINALISTS_RUN).order_by(RunRow.id)

    def read(connection: sa.Connection) -> tuple[list[LoggedTask], int]:
        groups: dict[tuple[Any, ...], list[Any]] = {}
        logged, broken = [], 0
        for row in connection.execute(query):
            groups.setdefault(tuple(row[2:]), []).append(row)
        reader = Reader(connection)
        for (*ids, fingerprint), rows in groups.items():
            sound = [row for row in rows if isinstance(row.started_at, int | float)]
            runs = tuple(row.id for row in sound if row.started_at < before)
            broken += len(rows) - len(sound)
            if not runs:
                continue
            try:
                identities = reader.identities(rows[0])
                if not isinstance(fingerprint, str):
                    raise ValueError(f"its space is {fingerprint!r}")
            except BROKEN:
                broken += len(runs)
                continue
            identities["device"] = device_key(identities["device"])
            whole = len(runs) == len(rows)
            logged.append(
                LoggedTask(**identities, fingerprint=fingerprint, runs=runs, whole=whole, ids=ids)
            )
        return logged, broken

    return log.read("read tasks", read)


def trials_of(log: TuningLog, task: LoggedTask) -> int:
    """The number of trials of the runs of a task that count."""
    of_runs = TrialRow.run_id.in_(task.runs)
    return log.read("count trials", lambda connection: count_trials(connection, of_runs))


def sample(log: TuningLog, task: LoggedTask, count: int) -> list[Sampled]:
    """At most ``count`` trials of a task: its best ones first, then others across its range.

    The same log gives the same sample.

    Raises:
        LogError: the log cannot be read.
    """

    def read(connection: sa.Connection) -> tuple[list[int], dict[int, Any]]:
        ids = _chosen(connection, task, count)
        return ids, _rows(connection, ids)

    ids, rows = log.read("sample trials", read)
    return [_sampled(rows[i]) for i in ids if i in rows]


def _of(task: LoggedTask) -> list[sa.ColumnElement[bool]]:
    where: list[sa.ColumnElement[bool]] = [
        TRIALS.c[name] == value
        for name, value in zip(TASK, (*task.ids, task.fingerprint), strict=True)
    ]
    if not task.whole:
        where.append(TrialRow.run_id.in_(task.runs))
    return where


def _chosen(connection: sa.Connection, task: LoggedTask, count: int) -> list[int]:
    """Ids: the best, then a part of the other successes, then a few failures."""
    where = _of(task)

    def ids(query: sa.Select) -> list[int]:
        return list(connection.execute(query).scalars())

    every, worked = count_trials(connection, *where), count_trials(connection, *where, SUCCEEDED)
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
