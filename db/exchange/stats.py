"""Numbers that describe a log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sqlalchemy as sa

from whet.db.exchange.prune import live_sessions
from whet.db.store.models import DeviceRow, RunRow, TargetRow, TaskRow, TrialRow, WorkloadRow
from whet.db.store.schema import SCHEMA
from whet.db.values.decision import FINALISTS_RUN

if TYPE_CHECKING:
    from whet.db.log import TuningLog


@dataclass(frozen=True)
class LogStats:
    """Numbers of a log's records.

    Attributes:
        location: its path or URL, without a password.
        version: of its tables.
        size: bytes of its file; None for a server's log.
        tasks, workloads, targets, devices: how many different ones it has.
        searches: runs that proposed, by how they ended.
        statuses: trials of searches, by their status.
        finals: trials of last measurements, in which a search's fastest are measured once more.
        configs: different configs that searches tried, lost workers left out.
        succeeded: how many of them worked.
        withdrawn: trials that no longer hold.
        sessions: searches that are alive now.
        first, last: times of the first run's begin and the newest trial, in seconds since the
            epoch; None: it has none.
    """

    location: str
    version: str
    size: int | None
    tasks: int
    workloads: int
    targets: int
    devices: int
    searches: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    finals: int = 0
    configs: int = 0
    succeeded: int = 0
    withdrawn: int = 0
    sessions: int = 0
    first: float | None = None
    last: float | None = None

    @property
    def trials(self) -> int:
        """Trials of searches."""
        return self.statuses.total()


def log_stats(log: TuningLog) -> LogStats:
    """The numbers of a log, rows that cannot be read included.

    Args:
        log: an open log.

    Raises:
        LogError: it cannot be read.
    """
    path = log.place.path
    size = path.stat().st_size if path is not None and path.exists() else None

    def read(connection: sa.Connection) -> LogStats:
        def one(query: sa.Select) -> int:
            return int(connection.execute(query).scalar() or 0)

        def count(table: type) -> int:
            return one(sa.select(sa.func.count()).select_from(table))

        final = RunRow.sampler == FINALISTS_RUN
        ended = sa.select(RunRow.state, sa.func.count()).where(sa.not_(final))
        by_status = (
            sa.select(final.label("final"), TrialRow.status, sa.func.count().label("number"))
            .join(RunRow, RunRow.id == TrialRow.run_id)
            .group_by(final, TrialRow.status)
        )
        statuses: Counter[str] = Counter()
        finals = 0
        for row in connection.execute(by_status):
            if row.final:
                finals += row.number
            else:
                statuses[str(row.status)] += row.number
        searches: Counter[str] = Counter()
        for state, number in connection.execute(ended.group_by(RunRow.state)):
            searches[str(state).partition(":")[0]] += number
        newest = sa.select(TrialRow.timestamp).order_by(TrialRow.id.desc()).limit(1)
        withdrawn = sa.select(sa.func.count()).where(TrialRow.withdrawn.is_not(None))
        return LogStats(
            location=log.location,
            version=SCHEMA,
            size=size,
            tasks=count(TaskRow),
            workloads=count(WorkloadRow),
            targets=count(TargetRow),
            devices=count(DeviceRow),
            searches=searches,
            statuses=statuses,
            finals=finals,
            configs=one(sa.select(sa.func.sum(TaskRow.trials))),
            succeeded=one(sa.select(sa.func.sum(TaskRow.succeeded))),
            withdrawn=one(withdrawn),
            sessions=live_sessions(connection),
            first=connection.execute(sa.select(sa.func.min(RunRow.started_at))).scalar(),
            last=connection.execute(newest).scalar(),
        )

    return log.read("count records", read)
