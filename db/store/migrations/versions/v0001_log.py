"""Revision 0001: the five tables of a log.

Spelled out, not taken from the models: this file must make the same tables when the models have
moved on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _identity(name: str, *columns: sa.Column) -> None:
    op.create_table(
        name,
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        *columns,
        sa.Column("data", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        sa.UniqueConstraint("digest", name=f"uq_{name}_digest"),
    )


def _points_to(table: str, *others: str) -> list[sa.ForeignKeyConstraint]:
    return [
        sa.ForeignKeyConstraint([f"{other}_id"], [f"{other}.id"], name=f"fk_{table}_{other}_id")
        for other in others
    ]


def upgrade() -> None:
    """Create the tables and their indexes."""
    _identity("workload", sa.Column("template", sa.Text, nullable=False))
    _identity("target")
    _identity("device")
    op.create_table(
        "run",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("uid", sa.String(32), nullable=False),
        sa.Column("workload_id", sa.Integer, nullable=False),
        sa.Column("target_id", sa.Integer, nullable=False),
        sa.Column("device_id", sa.Integer, nullable=False),
        sa.Column("space_fingerprint", sa.Text, nullable=False),
        sa.Column("sampler", sa.Text, nullable=False),
        sa.Column("seed", sa.Text, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("versions", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("finished_at", sa.Double, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
        sa.UniqueConstraint("uid", name="uq_run_uid"),
        *_points_to("run", "workload", "target", "device"),
    )
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("workload_id", sa.Integer, nullable=False),
        sa.Column("target_id", sa.Integer, nullable=False),
        sa.Column("device_id", sa.Integer, nullable=False),
        sa.Column("space_fingerprint", sa.Text, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("flop", sa.Double, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("cost", sa.Double, nullable=True),
        sa.Column("costs", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("program_hash", sa.Text, nullable=False),
        sa.Column("timings", sa.Text, nullable=False),
        sa.Column("environment", sa.Text, nullable=False),
        sa.Column("timestamp", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trial"),
        sa.UniqueConstraint("run_id", "number", name="uq_trial_run_id_number"),
        *_points_to("trial", "run", "workload", "target", "device"),
    )
    task = ["workload_id", "target_id", "device_id", "space_fingerprint"]
    succeeded = sa.text("status = 'ok'")
    op.create_index(
        "ix_trial_best",
        "trial",
        [*task, "cost", "id", "status"],
        sqlite_where=succeeded,
        postgresql_where=succeeded,
    )
    hashed = sa.text("program_hash <> ''")
    op.create_index(
        "ix_trial_program",
        "trial",
        ["device_id", "program_hash"],
        sqlite_where=hashed,
        postgresql_where=hashed,
    )
    op.create_index("ix_trial_task", "trial", task)


def downgrade() -> None:
    """Refused: the first revision has nothing before it, and a log is never thrown away."""
    raise NotImplementedError("revision 0001 is the first: delete the file to be rid of a log")
