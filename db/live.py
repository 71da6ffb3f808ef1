"""A log as it is now: who searches, how fast, the best so far, failures; cheap on large logs.

Counters, claims and the newest trials are read, never all of them. Rates are of the times that one
run wrote, so no two machines' clocks are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from whet.db.store.claims import running_sessions
from whet.db.store.models import TASK, ClaimRow, RunRow, TaskRow, TrialRow
from whet.db.store.queries import SUCCEEDED, TRIALS
from whet.db.store.reading import BROKEN, Reader
from whet.db.values.decision import FINALISTS_RUN
from whet.measure.device.names import Device
from whet.measure.values import OK, Json, is_number, is_time
from whet.search_spaces.values import Workload

if TYPE_CHECKING:
    from whet.db.log import TuningLog

NEWEST = 1000
"""Trials of which rates and kinds of failures are taken."""
TASKS = 50
"""Tasks that are read, those of the newest trials and of claims before others."""
MOST_S = 60.0
"""A run's rate is that of its trials in so many seconds before its newest."""

_TASK = TaskRow.__table__
CLAIMS = sa.select(
    *(ClaimRow.task_id, ClaimRow.session_id, ClaimRow.run_id),
    sa.func.count(ClaimRow.id).label("claimed"),
).group_by(ClaimRow.task_id, ClaimRow.session_id, ClaimRow.run_id)
NEWEST_TRIALS = (
    sa.select(
        *(TrialRow.id, TrialRow.run_id, TrialRow.status, TrialRow.timestamp),
        *(TRIALS.c[name] for name in TASK),
    )
    .join(RunRow, RunRow.id == TrialRow.run_id)
    .where(RunRow.sampler != FINALISTS_RUN)
    .order_by(TrialRow.id.desc())
    .limit(NEWEST)
)


@dataclass(frozen=True)
class LiveTask:
    """A task of a log.

    Attributes:
        workload, target, device: of the task.
        fingerprint: the space's.
        trials: configs that searches tried.
        succeeded: how many of them worked.
        in_flight: configs that are being measured.
        best: cost of the cheapest, seconds per call; None where nothing worked.
        rate: trials a second of the runs that search it now; 0.0 where none does.
    """

    workload: Workload
    target: Json
    device: Device
    fingerprint: str
    trials: int
    succeeded: int
    in_flight: int
    best: float | None
    rate: float

    @property
    def failed(self) -> int:
        """Configs that were tried, and did not work."""
        return self.trials - self.succeeded


@dataclass(frozen=True)
class LiveSession:
    """A search that is alive, as far as the log knows.

    Attributes:
        uid: its name.
        host: the name of its machine.
        pid: its process there.
        label: says who searches what: JSON-able data.
        in_flight: configs that it measures.
        rate: trials a second, of the runs for which it holds claims or held them when last seen.
    """

    uid: str
    host: str
    pid: int
    label: Any
    in_flight: int
    rate: float


@dataclass(frozen=True)
class LiveLog:
    """A log as it is now.

    Attributes:
        sessions: searches that are alive.
        tasks: at most :data:`TASKS`, those that are searched now first.
        trials: configs that searches tried, of all tasks.
        failures: how many of the newest trials failed, by their status.
        newest: how many trials that were.
    """

    sessions: Sequence[LiveSession]
    tasks: Sequence[LiveTask]
    trials: int
    failures: Mapping[str, int] = field(default_factory=dict)
    newest: int = 0


class LiveReader:
    """Reads a log again and again.

    Args:
        log: an open log.
    """

    def __init__(self, log: TuningLog) -> None:
        self._log = log
        self._runs: defaultdict[int, set[int]] = defaultdict(set)  # of each session, as it claimed

    def read(self) -> LiveLog:
        """The log as it is now.

        Raises:
            LogError: it cannot be read.
        """
        return self._log.read_records("read who searches", self._read)

    def _read(self, reader: Reader) -> LiveLog:
        connection = reader.connection
        alive, claims = running_sessions(connection), connection.execute(CLAIMS).all()
        newest = connection.execute(NEWEST_TRIALS).all()
        rates = rates_of((row.run_id, row.timestamp) for row in newest)
        for claim in claims:
            self._runs[claim.session_id].add(claim.run_id)
        runs = set().union(*(self._runs[row.id] for row in alive))
        of_task: dict[tuple[Any, ...], float] = {}
        for run, key in {row.run_id: _key(row) for row in newest}.items():
            # a run that has stopped did the rest at some rate, and does nothing
            of_task[key] = of_task.get(key, 0.0) + (rates.get(run, 0.0) if run in runs else 0.0)
        in_flight = Counter({row.id: 0 for row in alive})
        for claim in claims:
            in_flight[claim.session_id] += claim.claimed
        sessions = [
            LiveSession(
                uid=row.uid,
                host=str(row.host),
                pid=int(row.pid),
                label=row.label if isinstance(row.label, dict) else {},
                in_flight=in_flight[row.id],
                rate=sum(rates.get(run, 0.0) for run in self._runs[row.id]),
            )
            for row in alive
        ]
        failures = Counter(str(row.status) for row in newest if row.status != OK)
        tasks = list(_tasks(reader, claims, of_task))
        total = connection.execute(sa.select(sa.func.sum(TaskRow.trials))).scalar() or 0
        return LiveLog(sessions, tasks, total, dict(failures.most_common()), len(newest))


def rates_of(trials: Iterable[tuple[int, Any]]) -> dict[int, float]:
    """Trials a second of each run.

    Args:
        trials: the run and the time of each, in seconds since any moment.
    """
    times: defaultdict[int, list[float]] = defaultdict(list)
    for run, when in trials:
        if is_number(when):
            times[run].append(when)
    rates = {}
    for run, each in times.items():
        last = max(each)
        near = [when for when in each if last - when <= MOST_S]
        took = last - min(near)
        rates[run] = (len(near) - 1) / took if took > 0 else 0.0
    return rates


def _key(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in TASK)


def _tasks(
    reader: Reader, claims: Sequence[Any], rates: Mapping[tuple[Any, ...], float]
) -> Iterator[LiveTask]:
    """The tasks that are searched, those of the newest trials, and then the latest.

    Args:
        reader: of the transaction.
        claims: rows of :data:`CLAIMS`.
        rates: of the tasks of the newest trials, the newest first.
    """
    waiting: Counter[int] = Counter()
    for claim in claims:
        waiting[claim.task_id] += claim.claimed
    columns = [TaskRow.id, TaskRow.trials, TaskRow.succeeded, *(_TASK.c[name] for name in TASK)]
    query = sa.select(*columns).order_by(TaskRow.id.desc())
    rows = {row.id: row for row in reader.connection.execute(query.limit(TASKS))}
    missing = waiting.keys() - rows.keys()
    for row in reader.connection.execute(query.where(TaskRow.id.in_(sorted(missing)))):
        rows[row.id] = row
    for key in list(rates)[:TASKS]:
        found = sa.select(*columns).where(*(_TASK.c[n] == v for n, v in zip(TASK, key)))
        for row in reader.connection.execute(found):
            rows[row.id] = row
    order = {key: place for place, key in enumerate(rates)}
    ranked = sorted(rows.values(), key=lambda r: (not waiting[r.id], order.get(_key(r), TASKS)))
    for row in ranked[:TASKS]:
        try:
            identities = reader.identities(row)
        except BROKEN as error:
            reader.broken["task", row.id] = str(error)
            continue
        where = {name: getattr(row, name) for name in TASK}
        best = sa.select(TrialRow.cost).where(SUCCEEDED).filter_by(**where)
        cost = reader.connection.execute(best.order_by(TrialRow.cost, TrialRow.id).limit(1))
        found_cost = cost.scalar()
        yield LiveTask(
            **identities,
            fingerprint=str(row.space_fingerprint),
            trials=row.trials,
            succeeded=row.succeeded,
            in_flight=waiting[row.id],
            best=found_cost if is_time(found_cost) else None,
            rate=rates.get(_key(row), 0.0),
        )
