"""The tables of a tuning log: workload, target, device, run, trial.

Each identity (workload, target, device) is stored once, found by a SHA-256: of its canonical JSON,
or of the device's fingerprint. That stays a short unique key however long the text is. A trial
repeats the ids of its run's identities, so that the best trial of a workload is one walk along one
index. Everything structured is JSON text: data only, and the same bytes in SQLite and PostgreSQL.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
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

from whet.db.values.identity import plain_json

# Named constraints: a migration in batch mode can only drop what has a name.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class NotJSON:
    """What stands in a column of JSON and is none: one broken row shall not end a query.

    Args:
        text: what stands there.
    """

    def __init__(self, text: Any) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"{self.text!r}, which is no JSON"


class JSONText(TypeDecorator):
    """Plain JSON values kept as text: exact floats, no dialect's own JSON rules."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return plain_json(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        try:
            found = json.loads(value)
            if (
                "\\ud" in value.lower()
            ):  # half of a pair of surrogates can be neither shown nor kept
                json.dumps(found, ensure_ascii=False).encode()
            return found
        except (ValueError, TypeError, RecursionError):
            return NotJSON(value)


class Base(DeclarativeBase):
    """Base of the log's tables."""

    metadata = MetaData(naming_convention=NAMES)


class WorkloadRow(Base):
    """A template's name with its arguments."""

    __tablename__ = "workload"
    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    template: Mapped[str] = mapped_column(Text)
    data: Mapped[Any] = mapped_column(JSONText)


class TargetRow(Base):
    """A canonical target: what the kernels were compiled for."""

    __tablename__ = "target"
    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    data: Mapped[Any] = mapped_column(JSONText)


class DeviceRow(Base):
    """A machine, as it was described when it was first seen: where the kernels were measured."""

    __tablename__ = "device"
    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    data: Mapped[Any] = mapped_column(JSONText)


class RunRow(Base):
    """One search: who proposed, from which seed, over which version of the space."""

    __tablename__ = "run"
    id: Mapped[int] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(String(32), unique=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workload.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("target.id"))
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"))
    space_fingerprint: Mapped[str] = mapped_column(Text)
    sampler: Mapped[str] = mapped_column(Text)
    seed: Mapped[Any] = mapped_column(JSONText)
    options: Mapped[Any] = mapped_column(JSONText)
    versions: Mapped[Any] = mapped_column(JSONText)
    state: Mapped[str] = mapped_column(Text)
    started_at: Mapped[float] = mapped_column(Double)
    finished_at: Mapped[float | None] = mapped_column(Double)


class TrialRow(Base):
    """One candidate: its config and what came of it, failures with their whole error text."""

    __tablename__ = "trial"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    number: Mapped[int]
    workload_id: Mapped[int] = mapped_column(ForeignKey("workload.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("target.id"))
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"))
    space_fingerprint: Mapped[str] = mapped_column(Text)
    config: Mapped[Any] = mapped_column(JSONText)
    flop: Mapped[float] = mapped_column(Double)
    status: Mapped[str] = mapped_column(Text)
    stage: Mapped[str] = mapped_column(Text)
    cost: Mapped[float | None] = mapped_column(Double)
    costs: Mapped[Any] = mapped_column(JSONText)
    error: Mapped[str] = mapped_column(Text)
    program_hash: Mapped[str] = mapped_column(Text)
    timings: Mapped[Any] = mapped_column(JSONText)
    environment: Mapped[Any] = mapped_column(JSONText)
    timestamp: Mapped[float] = mapped_column(Double)
    features: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (
        UniqueConstraint("run_id", "number"),
        # Only successes, cheapest first: the best trial is the first entry of its task. The status
        # ends it for SQLite before 3.41, which would fetch each row to test it once more.
        Index(
            "ix_trial_best",
            "workload_id",
            "target_id",
            "device_id",
            "space_fingerprint",
            "cost",
            "id",
            "status",
            sqlite_where=text("status = 'ok'"),
            postgresql_where=text("status = 'ok'"),
        ),
        Index(
            "ix_trial_program",
            "device_id",
            "program_hash",
            sqlite_where=text("program_hash <> ''"),
            postgresql_where=text("program_hash <> ''"),
        ),
        # All trials of a task, whatever came of them: what a resumed search reads.
        Index("ix_trial_task", "workload_id", "target_id", "device_id", "space_fingerprint"),
    )
