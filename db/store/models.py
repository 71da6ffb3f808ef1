"""The tables of a tuning log: workload, target, device, task, run, trial, session, claim.

Each identity (workload, target, device) is stored once, found by a SHA-256: of its canonical JSON,
or of the device's fingerprint. That stays a short unique key however long the text is. A trial
repeats the ids of its run's identities, so that the best trial of a workload is one walk along one
index. Everything structured is JSON text: data only, and the same bytes in SQLite and PostgreSQL.

A task's row counts its configs; whoever claims a config or adds a trial locks it first, so that the
ids of a task's trials are in the order of their commits. A session is a search that is alive; it
claims each config before that is measured, and the claim goes with the trial's insertion.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Dialect,
    Double,
    ForeignKey,
    Index,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from whet.db.quick.best import TASK as TASK
from whet.db.quick.rows import decoded
from whet.db.values.identity import plain_json

# Named constraints: a migration in batch mode can only drop what has a name.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class JSONText(TypeDecorator):
    """Plain JSON values kept as text: exact floats, no dialect's own JSON rules."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return plain_json(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return decoded(value)


class Base(DeclarativeBase):
    """Base of the log's tables."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {str: Text, float: Double, Any: JSONText}


class Identity(Base):
    """A workload, a target or a device: its data, and the digest by which it is found."""

    __abstract__ = True
    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    data: Mapped[Any]


class WorkloadRow(Identity):
    """A template's name with its arguments."""

    __tablename__ = "workload"
    template: Mapped[str]


class TargetRow(Identity):
    """A canonical target: what the kernels were compiled for."""

    __tablename__ = "target"


class DeviceRow(Identity):
    """A machine, as it was described when it was first seen: where the kernels were measured."""

    __tablename__ = "device"


class OfTask(Base):
    """A row of a run or a trial: its task's workload, target, device and version of the space."""

    __abstract__ = True
    id: Mapped[int] = mapped_column(primary_key=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workload.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("target.id"))
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"))
    space_fingerprint: Mapped[str]


class TaskRow(OfTask):
    """A task's counters: configs that searches tried, each once; lost workers do not count."""

    __tablename__ = "task"
    trials: Mapped[int]
    succeeded: Mapped[int]

    __table_args__ = (UniqueConstraint(*TASK, name="uq_task"),)


class RunRow(OfTask):
    """One search: who proposed, from which seed, over which version of the space."""

    __tablename__ = "run"
    uid: Mapped[str] = mapped_column(String(32), unique=True)
    sampler: Mapped[str]
    seed: Mapped[Any]
    options: Mapped[Any]
    versions: Mapped[Any]
    state: Mapped[str]
    started_at: Mapped[float]
    finished_at: Mapped[float | None]

    __table_args__ = (Index("ix_run_task", *TASK, "id"),)


def _index(name: str, *columns: str, where: str) -> Index:
    """An index of the rows for which a condition holds."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


class TrialRow(OfTask):
    """One candidate: its config and what came of it, failures with their whole error text.

    ``told`` is JSON: the results that its proposer had been told of since the proposal before, as
    numbers of its own run and ``"t<id>"`` for another's trial. ``withdrawn`` says why the record no
    longer holds.
    """

    __tablename__ = "trial"
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    number: Mapped[int]
    config: Mapped[Any]
    flop: Mapped[float]
    status: Mapped[str]
    stage: Mapped[str]
    cost: Mapped[float | None]
    costs: Mapped[Any]
    error: Mapped[str]
    program_hash: Mapped[str]
    timings: Mapped[Any]
    environment: Mapped[Any]
    timestamp: Mapped[float]
    features: Mapped[str | None]
    config_digest: Mapped[str | None] = mapped_column(String(64))
    told: Mapped[str | None]
    withdrawn: Mapped[str | None]

    __table_args__ = (
        UniqueConstraint("run_id", "number"),
        # Only successes, cheapest first: the best trial is the first entry of its task, or the
        # first one of some runs. What is asked of them ends it for SQLite before 3.41, which would
        # fetch each row to test it again.
        _index(
            "ix_trial_best",
            *(*TASK, "cost", "id", "status", "withdrawn", "run_id"),
            where="status = 'ok' AND withdrawn IS NULL",
        ),
        _index("ix_trial_program", "device_id", "program_hash", where="program_hash <> ''"),
        # All trials of a task, whatever came of them: what a resumed search reads.
        Index("ix_trial_task", *TASK, "id"),
        # A config's trial, before it is measured again.
        Index("ix_trial_config", *TASK, "config_digest"),
    )


class SessionRow(Base):
    """A process that searches: its claims hold while ``beat`` rises and ``state`` is running.

    ``boot`` names the machine's boot and the processes' name space, within which ``pid`` and
    ``pid_started`` name a process; "" where that is not known.
    """

    __tablename__ = "session"
    id: Mapped[int] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(String(32), unique=True)
    host: Mapped[str]
    boot: Mapped[str]
    pid: Mapped[int]
    pid_started: Mapped[str]
    label: Mapped[Any]
    beat: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str]


class ClaimRow(Base):
    """A config that a session measures now."""

    __tablename__ = "claim"
    id: Mapped[int] = mapped_column(primary_key=True)
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id"))
    session_id: Mapped[int] = mapped_column(ForeignKey("session.id"), index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    number: Mapped[int]
    config_digest: Mapped[str] = mapped_column(String(64))

    __table_args__ = (UniqueConstraint("task_id", "config_digest"),)
