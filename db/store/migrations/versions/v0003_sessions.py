"""Revision 0003: searches that share a log. Tables of tasks, sessions and claims; configs' digests.

Columns are added, never a table rebuilt: a log of a million trials takes minutes, not hours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from whet.db.store.patience import Pace
from whet.db.values.identity import config_digest_of_text

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

IDENTITIES = ("workload", "target", "device")
TASK = ("workload_id", "target_id", "device_id", "space_fingerprint")
BATCH = 5000
"""Trials whose digests are written at a time."""
STEPS = 100_000
"""Instructions of SQLite between two looks at the time."""
BEST = [*TASK, "cost", "id", "status"]


def upgrade() -> None:
    """Add the tables, the columns and the indexes; fill in what follows from the trials."""
    pace = Pace(context.config.attributes.get("progress"))
    with _ticking(op.get_bind(), pace):
        for name, kind in (
            ("config_digest", sa.String(64)), ("told", sa.Text), ("withdrawn", sa.Text)
        ):  # fmt: skip
            op.add_column("trial", sa.Column(name, kind, nullable=True))
        _create_tables()
        _write_digests(op.get_bind(), pace)
        pace.at("upgrading the log: counting the trials of each task")
        _count_trials()
        _create_indexes(pace)


@contextmanager
def _ticking(connection: sa.Connection, pace: Pace) -> Iterator[None]:
    """Tell of a long statement while SQLite is at it."""
    raw: Any = connection.connection.dbapi_connection
    if connection.dialect.name != "sqlite":
        yield
        return
    raw.set_progress_handler(pace.tick, STEPS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)


def _create_indexes(pace: Pace) -> None:
    def create(number: int, name: str, columns: list[str], **more: Any) -> None:
        pace.at(f"upgrading the log: index {number} of 4")
        op.create_index(name, "run" if "run" in name else "trial", columns, **more)

    still = sa.text("status = 'ok' AND withdrawn IS NULL")
    op.drop_index("ix_trial_best", "trial")
    columns = [*BEST, "withdrawn", "run_id"]
    create(1, "ix_trial_best", columns, sqlite_where=still, postgresql_where=still)
    op.drop_index("ix_trial_task", "trial")
    create(2, "ix_trial_task", [*TASK, "id"])
    create(3, "ix_trial_config", [*TASK, "config_digest"])
    create(4, "ix_run_task", [*TASK, "id"])


def _create_tables() -> None:
    op.create_table(
        "task",
        sa.Column("id", sa.Integer, nullable=False),
        *(sa.Column(f"{name}_id", sa.Integer, nullable=False) for name in IDENTITIES),
        sa.Column("space_fingerprint", sa.Text, nullable=False),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("succeeded", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_task"),
        sa.UniqueConstraint(*TASK, name="uq_task"),
        *(
            sa.ForeignKeyConstraint([f"{name}_id"], [f"{name}.id"], name=f"fk_task_{name}_id")
            for name in IDENTITIES
        ),
    )
    op.create_table(
        "session",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("uid", sa.String(32), nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("boot", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("pid_started", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_session"),
        sa.UniqueConstraint("uid", name="uq_session_uid"),
    )
    op.create_table(
        "claim",
        sa.Column("id", sa.Integer, nullable=False),
        *(sa.Column(f"{name}_id", sa.Integer, nullable=False) for name in ("task", "session")),
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("config_digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_claim"),
        sa.UniqueConstraint("task_id", "config_digest", name="uq_claim_task_id_config_digest"),
        *(
            sa.ForeignKeyConstraint([f"{name}_id"], [f"{name}.id"], name=f"fk_claim_{name}_id")
            for name in ("task", "session", "run")
        ),
    )
    op.create_index("ix_claim_session_id", "claim", ["session_id"])


def _write_digests(connection: sa.Connection, pace: Pace) -> None:
    """The digests of the configs that can be read; those of others stay empty."""
    trial = sa.table("trial", sa.column("id"), sa.column("config"), sa.column("config_digest"))
    change = (
        sa.update(trial)
        .where(trial.c.id == sa.bindparam("row"))
        .values(config_digest=sa.bindparam("digest"))
    )
    count = connection.execute(sa.select(sa.func.count()).select_from(trial)).scalar_one()
    last, done = -1, 0
    page = sa.select(trial.c.id, trial.c.config).order_by(trial.c.id).limit(BATCH)
    while rows := connection.execute(page.where(trial.c.id > last)).all():
        digests = [{"row": row.id, "digest": config_digest_of_text(row.config)} for row in rows]
        connection.execute(change, digests)
        last = rows[-1].id
        done += len(rows)
        pace.at(f"upgrading the log: {done:,} of {count:,} trials")


def _count_trials() -> None:
    """A row for each task, with its configs that searches tried, each counted once."""
    task = ", ".join(TASK)
    of_trial = ", ".join(f"trial.{name}" for name in TASK)
    op.execute(
        f"""
        INSERT INTO task ({task}, trials, succeeded)
        SELECT {", ".join(f"tasks.{name}" for name in TASK)},
            COALESCE(counted.trials, 0), COALESCE(counted.succeeded, 0)
        FROM (SELECT DISTINCT {task} FROM run) AS tasks
        LEFT JOIN (
            SELECT {of_trial}, COUNT(DISTINCT trial.config_digest) AS trials,
                COUNT(DISTINCT CASE WHEN trial.status = 'ok' THEN trial.config_digest END)
                    AS succeeded
            FROM trial JOIN run ON run.id = trial.run_id
            WHERE trial.status <> 'infra_error' AND run.sampler <> 'finalists'
            GROUP BY {of_trial}
        ) AS counted ON {" AND ".join(f"counted.{name} = tasks.{name}" for name in TASK)}
        """
    )


def downgrade() -> None:
    """Refused: nothing needs it, and an older Whet reads the copy that was made before."""
    raise NotImplementedError("revision 0003 is not taken back: use the copy, <name>.v0002.bak")
