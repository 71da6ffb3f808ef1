"""The databases on which searches share a log."""

import os
import uuid

import pytest

POSTGRES = os.environ.get("WHET_TEST_POSTGRES", "")


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path):
    """Where a new log may be made: a file, and a schema of its own on a server."""
    if request.param == "sqlite":
        yield str(tmp_path / "shared.db")
        return
    if not POSTGRES:
        pytest.skip("no PostgreSQL: set WHET_TEST_POSTGRES=postgresql://user:password@host/name")
    import sqlalchemy as sa

    url = sa.make_url(POSTGRES).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    schema = f"whet_test_{uuid.uuid4().hex[:12]}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    mine = url.update_query_dict({"options": f"-csearch_path={schema}"})
    yield mine.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    engine.dispose()
