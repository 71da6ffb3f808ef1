"""What Alembic runs to migrate a log: inside the transaction of ``whet.db.schema.upgrade``."""

from alembic import context

from whet.db.models import Base
from whet.db.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
