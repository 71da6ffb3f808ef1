"""Alembic runs this to migrate a log, in the transaction of ``whet.db.store.schema.upgrade``."""

from alembic import context

from whet.db.store.models import Base
from whet.db.store.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
