"""Revision 0001: the five tables of a log.

Spelled out, not taken from the models: this file must make the same tables when the models have
moved on.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


IDENTITIES = ("workload", "target", "device")
TASK: dict[str, Any] = {"workload_id": sa.Integer, "target_id": sa.Integer, "device_id": sa.Integer}
TASK |= {"space_fingerprint": sa.Text}
NULLABLE = ("finished_at", "cost")
RUN = {
    "uid": sa.String(32),
    **TASK,
    **dict.fromkeys(("sampler", "seed", "options", "versions", "state"), sa.Text),
    "started_at": sa.Double,
    "finished_at": sa.Double,
}
TRIAL = {
    "run_id": sa.Integer,
    "number": sa.Integer,
    **TASK,
    "config": sa.Text,
    "flop": sa.Double,
    "status": sa.Text,
    "stage": sa.Text,
    "cost": sa.Double,
    **dict.fromkeys(("costs", "error", "program_hash", "timings", "environment"), sa.Text),
    "timestamp": sa.Double,
}


def _create(table: str, columns: dict[str, Any], unique: list[str], *others: str) -> None:
    """A table whose rows have an id, a unique key, and may point to others."""
    op.create_table(
        table,
        sa.Column("id", sa.Integer, nullable=False),
        *(sa.Column(name, kind, nullable=name in NULLABLE) for name, kind in columns.items()),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint(*unique, name="_".join(["uq", table, *unique])),
        *(
            sa.ForeignKeyConstraint([f"{other}_id"], [f"{other}.id"], name=f"fk_{table}_{other}_id")
            for other in others
        ),
    )


def _index(name: str, columns: list[str], where: str) -> None:
    """An index of the trials for which a condition holds."""
    condition = sa.text(where)
    op.create_index(name, "trial", columns, sqlite_where=condition, postgresql_where=condition)


def upgrade() -> None:
    """Create the tables and their indexes."""
    for table in IDENTITIES:
        own = {"template": sa.Text} if table == "workload" else {}
        _create(table, {"digest": sa.String(64), **own, "data": sa.Text}, ["digest"])
    _create("run", RUN, ["uid"], *IDENTITIES)
    _create("trial", TRIAL, ["run_id", "number"], "run", *IDENTITIES)
    _index("ix_trial_best", [*TASK, "cost", "id", "status"], "status = 'ok'")
    _index("ix_trial_program", ["device_id", "program_hash"], "program_hash <> ''")
    op.create_index("ix_trial_task", "trial", [*TASK])


def downgrade() -> None:
    """Refused: the first revision has nothing before it, and a log is never thrown away."""
    raise NotImplementedError("revision 0001 is the first: delete the file to be rid of a log")
