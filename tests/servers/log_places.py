"""A schema of its own for each log of a test on a PostgreSQL server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa


@contextmanager
def fresh_schema(postgres: str) -> Iterator[str]:
    """The URL of an empty schema, which is dropped in the end.

    Args:
        postgres: the server's URL.
    """
    url = sa.make_url(postgres).set(drivername="postgresql+psycopg")
    # Without a pool: a log's server is asked who is connected to it.
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    schema = f"whet_test_{uuid.uuid4().hex[:12]}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    mine = url.update_query_dict({"options": f"-csearch_path={schema}", "application_name": schema})
    try:
        yield mine.render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
        engine.dispose()
