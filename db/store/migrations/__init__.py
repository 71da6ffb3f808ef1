"""Alembic's scripts: one file a revision, run in order by ``whet.db.store.schema``."""
