"""The databases on which searches share a log."""

from __future__ import annotations

import pytest
from log_places import fresh_schema


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path):
    """Where a new log may be made: a file, and a schema of its own on a server."""
    if request.param == "sqlite":
        yield str(tmp_path / "shared.db")
        return
    with fresh_schema(request.getfixturevalue("postgres")) as url:
        yield url
