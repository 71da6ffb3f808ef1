"""The statements of sessions and their claims; each function is a part of one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whet.db.store.batches import (
    CLAIMS,
    LOST,
    TASKS,
    TRIALS,
    TaskColumns,
    among,
    chunks,
    columns_of,
    lock_task,
    lock_tasks,
    of_task,
)
from whet.db.store.models import TASK, ClaimRow, RunRow, SessionRow, TaskRow, TrialRow
from whet.db.store.processes import Process
from whet.db.store.reading import Reader
from whet.db.values.claims import Answer, Full, Mine, Recorded, Taken
from whet.db.values.decision import FINALISTS_RUN
from whet.db.values.records import TrialRecord
from whet.measure.values import Json

SESSIONS = SessionRow.__table__
RUNNING, GONE = "running", "lost"
"""States of a session that is alive, and of one that others found dead."""
SESSION_UNLESS_THERE: dict[str, Any] = {
    dialect: insert(SessionRow).on_conflict_do_nothing()
    for dialect, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
}


# Made once, as those of batches.
CLAIM = sa.insert(ClaimRow)
_COUNT = sa.select(sa.func.count(CLAIMS.c.id)).where(among(CLAIMS.c.task_id, "tasks"))
COUNTS = sa.select(
    sa.func.coalesce(sa.func.sum(TASKS.c.trials), 0), _COUNT.scalar_subquery()
).where(among(TASKS.c.id, "tasks"))
KNOWN = sa.union_all(
    sa.select(TRIALS.c.config_digest).where(
        *of_task(TRIALS), among(TRIALS.c.config_digest, "digests")
    ),
    sa.select(CLAIMS.c.config_digest).where(
        CLAIMS.c.task_id == sa.bindparam("task"), among(CLAIMS.c.config_digest, "digests")
    ),
)


def insert_session(connection: sa.Connection, uid: str, process: Process, label: Json) -> int:
    """Insert a session unless its uid is there; return its id."""
    values = {
        "uid": uid,
        "host": process.host,
        "boot": process.boot,
        "pid": process.pid,
        "pid_started": process.started,
        "label": label,
        "beat": 0,
        "state": RUNNING,
    }
    connection.execute(SESSION_UNLESS_THERE[connection.dialect.name], values)
    return connection.execute(sa.select(SessionRow.id).where(SessionRow.uid == uid)).scalar_one()


def beat(connection: sa.Connection, session_id: int) -> bool:
    """Show that a session is alive; True where it was taken for dead, and its claims are ended."""
    query = sa.select(SessionRow.state).where(SessionRow.id == session_id)
    # Locked, so that nobody ends it in between; new claims, which only point at the row, go on.
    before = connection.execute(query.with_for_update(key_share=True)).scalar()
    change = sa.update(SessionRow).where(SessionRow.id == session_id)
    connection.execute(change.values(beat=SessionRow.beat + 1, state=RUNNING))
    return before == GONE


def running_sessions(connection: sa.Connection) -> Sequence[Any]:
    """The rows of the sessions that nobody has ended."""
    return connection.execute(sa.select(SESSIONS).where(SessionRow.state == RUNNING)).all()


def process_of(row: Any) -> Process:
    """The process of a session's row."""
    return Process(row.host, row.boot, row.pid, row.pid_started)


def end_session(
    connection: sa.Connection, session_id: int, state: str, at_beat: int | None = None
) -> bool:
    """End a session and its claims.

    Args:
        connection: a transaction that writes.
        session_id: of the session.
        state: how it ended.
        at_beat: only where it has not beaten since; None: in any case.

    Returns:
        True if it was ended here.
    """
    own = sa.update(SessionRow).where(SessionRow.id == session_id, SessionRow.state == RUNNING)
    if at_beat is not None:
        own = own.where(SessionRow.beat == at_beat)
    if connection.execute(own.values(state=state)).rowcount != 1:
        return False
    # Tasks before claims, as everybody locks them.
    claimed = sa.select(ClaimRow.task_id).where(ClaimRow.session_id == session_id).distinct()
    ids = sorted(connection.execute(claimed).scalars())
    locked = sa.select(TaskRow.id).where(TaskRow.id.in_(ids)).order_by(TaskRow.id)
    connection.execute(locked.with_for_update()).all()
    connection.execute(sa.delete(ClaimRow).where(ClaimRow.session_id == session_id))
    return True


def delete_claims(
    connection: sa.Connection, session_id: int, keys: Mapping[str, Any], digests: Sequence[str]
) -> None:
    """End a session's claims of some configs of a task."""
    task_id = lock_task(connection, {name: keys[name] for name in TASK})
    connection.execute(
        sa.delete(ClaimRow)
        .where(ClaimRow.task_id == task_id, ClaimRow.session_id == session_id)
        .where(ClaimRow.config_digest.in_(digests))
    )


@dataclass(frozen=True)
class Claim:
    """A config that a session wants to measure.

    Attributes:
        session_id: who claims it.
        run_id: its run.
        number: the trial's number in the run.
        digest: of the config.
    """

    session_id: int
    run_id: int
    number: int
    digest: str


def _held(
    connection: sa.Connection, task_id: int, claim: Claim, observer: Process
) -> Mine | Taken | None:
    """The answer where the config is claimed already; a claim of the dead is ended."""
    where = (ClaimRow.task_id == task_id, ClaimRow.config_digest == claim.digest)
    query = (
        sa.select(ClaimRow.run_id, ClaimRow.number, *SESSIONS.c)
        .join(SESSIONS, SESSIONS.c.id == ClaimRow.session_id)
        .where(*where)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.id == claim.session_id:
        same = (row.run_id, row.number) == (claim.run_id, claim.number)
        return Mine() if same else Taken(row.uid, row.host, own=True)
    if row.state == RUNNING and not process_of(row).is_gone(observer):
        return Taken(row.uid, row.host)
    connection.execute(sa.delete(ClaimRow).where(*where))
    return None


def _recorded(
    connection: sa.Connection, task: Mapping[str, Any], digest: str
) -> TrialRecord | None:
    """The trial of a config that searches of a task recorded, a success if there is one."""
    query = (
        sa.select(TRIALS)
        .join(RunRow, RunRow.id == TrialRow.run_id)
        .where(*(TRIALS.c[name] == value for name, value in task.items()))
        .where(TrialRow.config_digest == digest, TrialRow.status != LOST)
        .where(RunRow.sampler != FINALISTS_RUN)
        .order_by(sa.case((TrialRow.status == "ok", 0), else_=1), TrialRow.id)
    )
    rows = connection.execute(query).all()
    reader = Reader(connection) if rows else None
    return next(filter(None, map(reader.trial, rows)), None) if reader else None


def count_claims(connection: sa.Connection, task_id: int) -> int:
    """The number of configs of a task that are being measured."""
    count = sa.select(sa.func.count(ClaimRow.id)).where(ClaimRow.task_id == task_id)
    return connection.execute(count).scalar_one()


def insert_claims(
    connection: sa.Connection,
    claims: Sequence[Claim],
    keys: Mapping[int, Json],
    observer: Process,
    total: int | None,
    together: Iterable[Mapping[str, Any]] = (),
    locked: Mapping[TaskColumns, int] | None = None,
) -> list[Answer]:
    """Claim configs of one or many tasks for a session, unless they are recorded or claimed.

    Args:
        connection: a transaction that writes.
        claims: the claims, of different configs.
        keys: of their runs.
        observer: their session's process, which may see that another's has ended.
        total: configs that all searches together try, of all the tasks together; None: any number.
        together: other tasks whose configs count for ``total``.
        locked: from :func:`~whet.db.store.batches.lock_tasks`, where the transaction has locked all
            these tasks already.

    Returns:
        An answer to each, in order.
    """
    tasks = [{name: keys[claim.run_id][name] for name in TASK} for claim in claims]
    others = list(together)
    if locked is None:
        locked = lock_tasks(connection, tasks, others)
    named = map(columns_of, [*tasks, *others])
    ids = {key: locked[key] for key in named if key in locked}
    own = [ids[columns_of(task)] for task in tasks]
    every = {"tasks": list(ids.values())}
    trials, claimed = map(int, connection.execute(COUNTS, every).one())
    known = _known_digests(connection, ids, claims, own)
    answers: list[Answer] = []
    rows: list[dict[str, Any]] = []
    for claim, task, task_id in zip(claims, tasks, own):
        answer: Answer | None = None
        if (task_id, claim.digest) in known:
            record = _recorded(connection, task, claim.digest)
            answer = None if record is None else Recorded(record)
            if answer is None and (answer := _held(connection, task_id, claim, observer)) is None:
                claimed = connection.execute(_COUNT, every).scalar_one() + len(rows)
        if answer is None and total is not None and trials + claimed >= total:
            answer = Full(trials, claimed)
        if answer is None:
            answer = Mine()
            claimed += 1
            rows.append(_row(claim, task_id))
        answers.append(answer)
    if rows:
        connection.execute(CLAIM, rows)
    return answers


def _row(claim: Claim, task_id: int) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "session_id": claim.session_id,
        "run_id": claim.run_id,
        "number": claim.number,
        "config_digest": claim.digest,
    }


def _known_digests(
    connection: sa.Connection,
    ids: Mapping[TaskColumns, int],
    claims: Sequence[Claim],
    own: Sequence[int],
) -> set[tuple[int, str]]:
    """The tried or claimed ones of some configs, each with its task's id."""
    known: set[tuple[int, str]] = set()
    for key, task_id in ids.items():
        task = dict(zip(TASK, key)) | {"task": task_id}
        digests = [claim.digest for claim, mine in zip(claims, own) if mine == task_id]
        for part in chunks(digests):
            found = connection.execute(KNOWN, task | {"digests": part}).scalars()
            known |= {(task_id, str(digest)) for digest in found}
    return known
