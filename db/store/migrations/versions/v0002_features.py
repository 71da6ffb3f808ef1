"""Revision 0002: a trial keeps what a cost model saw of it, for searches of other tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, empty for the trials that are there."""
    with op.batch_alter_table("trial") as trial:
        trial.add_column(sa.Column("features", sa.Text, nullable=True))


def downgrade() -> None:
    """Drop the column; the trials stay."""
    with op.batch_alter_table("trial") as trial:
        trial.drop_column("features")
