"""Old trials taken out of a log: what decides, and the newest, stay."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from whet.compiler.errors import ArgumentError, LogError
from whet.db.exchange.lines import Say
from whet.db.store.backup import back_up
from whet.db.store.batches import LOST
from whet.db.store.claims import process_of, running_sessions
from whet.db.store.faults import errors_named
from whet.db.store.models import TASK, ClaimRow, RunRow, TaskRow, TrialRow
from whet.db.store.processes import Process
from whet.db.store.queries import best_trial, count_trials
from whet.db.store.reading import Reader
from whet.db.store.schema import SCHEMA
from whet.db.values.decision import FINALISTS_RUN
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.db.log import TuningLog

WATCH_S = 30.0
"""Seconds without a beat after which a session of another machine is taken for dead."""
LOOK_S = 1.0
"""Seconds between two looks at it."""
TRIALS = TrialRow.__table__


@dataclass(frozen=True)
class Pruned:
    """Trials that went, or would go.

    Attributes:
        trials: how many of searches.
        runs: searches of which nothing is left.
        tasks: that lost trials.
        kept: trials that stay, of all tasks.
        backup: the copy that was made before; None: none was.
        before, after: bytes of the file; 0 for a server's log.
    """

    trials: int
    runs: int
    tasks: int
    kept: int
    backup: Path | None = None
    before: int = 0
    after: int = 0

    def __str__(self) -> str:
        of = f"{counted(self.trials, 'trial')} of {counted(self.tasks, 'task')}"
        also = f" and {counted(self.runs, 'run')} that held nothing else" if self.runs else ""
        return f"{of}{also}; {self.kept:,} stay"


def prune_log(
    log: TuningLog,
    newest: int = 100,
    *,
    only_count: bool = False,
    backup: bool = True,
    say: Say | None = None,
) -> Pruned:
    """Delete old trials of searches, and give their room back to the disk.

    Of each task stay: its best trial, all last measurements, the default config's trials, and the
    newest others. What ``build`` takes does not change.

    Args:
        log: an open log.
        newest: how many of each task's trials stay, however bad they are.
        only_count: change nothing, and say what would go.
        backup: copy the log's file first; a server's log is not copied here.
        say: is told of the progress.

    Raises:
        LogError: a search is running on the log; it cannot be written or copied.
        ArgumentError: ``newest`` is no number of trials.
    """
    if type(newest) is not int or newest < 0:
        raise ArgumentError(f"prune_log(newest={newest!r})", "it must be an integer, at least 0")
    if only_count:
        return log.read("count old trials", lambda c: _prune(c, newest, dry=True))
    request = f"prune log {log.location}"
    log.check_writable("prune")
    _refuse_searches(log, request, say or (lambda line: None))
    path, copy, before = log.place.path, None, 0
    if path is not None:
        before = path.stat().st_size
        if backup:
            if say is not None:
                say(f"copying {path}")
            copy = back_up(path, SCHEMA, "it is pruned")

    def write(connection: sa.Connection) -> Pruned:
        alive = [row for row in running_sessions(connection) if row.id not in known]
        if alive:
            raise _busy(request, alive)
        return _prune(connection, newest, dry=False)

    known = {row.id for row in log.read("read sessions", running_sessions)}
    pruned = log.write("delete old trials", write)
    if say is not None:
        say("giving the room back to the disk")
    _vacuum(log, request)
    after = path.stat().st_size if path is not None else 0
    return Pruned(pruned.trials, pruned.runs, pruned.tasks, pruned.kept, copy, before, after)


def _refuse_searches(log: TuningLog, request: str, say: Say) -> None:
    """Refuse a log on which a search is alive.

    A process of this machine is seen to be gone; one of another machine is watched, until it shows
    that it is alive, or for as long as a claim is held for it.
    """
    here = Process.this()

    def living(connection: sa.Connection) -> list[Any]:
        return [row for row in running_sessions(connection) if not process_of(row).is_gone(here)]

    rows = log.read("read sessions", living)
    if any(row.boot == here.boot for row in rows):
        raise _busy(request, [row for row in rows if row.boot == here.boot])
    beats, until = {row.id: row.beat for row in rows}, time.monotonic() + WATCH_S
    while rows and time.monotonic() < until:
        say(f"a search of {rows[0].host} may be running: watching it for {WATCH_S:.0f} s")
        time.sleep(LOOK_S)
        rows = log.read("read sessions", living)
        if alive := [row for row in rows if beats.get(row.id) != row.beat]:
            raise _busy(request, alive)


def _busy(request: str, rows: list[Any]) -> LogError:
    who = ", ".join(f"process {row.pid} of {row.host}" for row in rows)
    return LogError(request, f"a search is running on it: {who}", "let it end, or end it, first")


def _prune(connection: sa.Connection, newest: int, dry: bool) -> Pruned:
    """Delete old trials of all tasks, or count them."""
    reader = Reader(connection)
    gone, tasks, runs = 0, 0, set[int]()
    for task in connection.execute(sa.select(TaskRow.__table__)).all():
        where = {name: getattr(task, name) for name in TASK}
        old = _old_trials(reader, where, newest)
        number = count_trials(connection, *old)
        if not number:
            continue
        gone, tasks = gone + number, tasks + 1
        of = sa.select(TrialRow.run_id).where(*old).distinct()
        touched = set(connection.execute(of).scalars())
        if dry:
            left = sa.select(TrialRow.run_id).where(sa.not_(sa.and_(*old)))
            left = left.where(TrialRow.run_id.in_(touched)).distinct()
            runs |= touched - set(connection.execute(left).scalars())
            continue
        connection.execute(sa.delete(TrialRow).where(*old))
        runs |= _delete_empty_runs(connection, touched)
        _count_again(connection, task.id, where)
    kept = count_trials(connection) - (gone if dry else 0)
    return Pruned(gone, len(runs), tasks, kept)


def _old_trials(reader: Reader, where: dict[str, Any], newest: int) -> list[Any]:
    """The conditions of a task's trials that go."""
    connection = reader.connection
    finals = sa.select(RunRow.id).filter_by(**where).where(RunRow.sampler == FINALISTS_RUN)
    searched = [
        *(TRIALS.c[name] == value for name, value in where.items()),
        TrialRow.run_id.not_in(finals),
    ]
    ids = sa.select(TrialRow.id).where(*searched).order_by(TrialRow.id.desc())
    edge = connection.execute(ids.offset(newest).limit(1)).scalar()
    old = [*searched, TrialRow.id <= (-1 if edge is None else edge), TrialRow.number != 0]
    best = best_trial(reader, where)
    if best is not None:
        is_best = sa.and_(TrialRow.run_id == best.run_id, TrialRow.number == best.number)
        old.append(sa.not_(is_best))
    return old


def _delete_empty_runs(connection: sa.Connection, touched: set[int]) -> set[int]:
    """Delete those of some runs that have no trials, and no claim; return their ids."""
    gone = set()
    for run_id in touched:
        used = (
            sa.select(table.id).where(table.run_id == run_id).limit(1)
            for table in (TrialRow, ClaimRow)
        )
        if all(connection.execute(query).scalar() is None for query in used):
            connection.execute(sa.delete(RunRow).where(RunRow.id == run_id))
            gone.add(run_id)
    return gone


def _count_again(connection: sa.Connection, task_id: int, where: dict[str, Any]) -> None:
    """Write a task's counters anew: configs of searches, each once; lost workers do not count."""
    ok = sa.case((TrialRow.status == "ok", TrialRow.config_digest))
    tried, worked = (
        sa.func.count(sa.distinct(one)).label(name)
        for one, name in ((TrialRow.config_digest, "trials"), (ok, "succeeded"))
    )
    query = (
        sa.select(tried, worked)
        .join(RunRow, RunRow.id == TrialRow.run_id)
        .where(*(TRIALS.c[name] == value for name, value in where.items()))
        .where(RunRow.sampler != FINALISTS_RUN, TrialRow.status != LOST)
    )
    row = connection.execute(query).one()
    change = sa.update(TaskRow).where(TaskRow.id == task_id)
    connection.execute(change.values(trials=row.trials, succeeded=row.succeeded))


def _vacuum(log: TuningLog, request: str) -> None:
    """Give the room of deleted rows back."""
    with errors_named(request, log.place):
        if log.place.path is None:
            with log.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM ANALYZE trial")
            return
        raw = log.engine.raw_connection()
        try:
            raw.cursor().execute("VACUUM")  # outside of any transaction
        finally:
            raw.close()


def live_sessions(connection: sa.Connection) -> int:
    """The number of sessions that may be alive."""
    here = Process.this()
    return sum(not process_of(row).is_gone(here) for row in running_sessions(connection))
