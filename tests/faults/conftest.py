"""Faults of whole searches: a task that needs no kernel, both databases, and what may be left."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from autotune_synthetic import small_template
from leaks import nothing_left
from log_places import fresh_schema

from whet.autotune import create_task
from whet.autotune.features.watched import the_worker


@pytest.fixture
def small():
    """A task of 42 configs whose cost is a formula."""
    return create_task(small_template, args=(64,), target="llvm")


@pytest.fixture
def leaks(tmp_path, monkeypatch):
    """The leavings of a test's search: none, or the test fails."""
    the_worker()  # one serves all searches of a process, and ends with it
    with nothing_left(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path, leaks):
    """Where a new log may be made: a file, and a schema of its own on a server."""
    if request.param == "sqlite":
        yield str(tmp_path / "whet.db")
        leaks.check()
        return
    postgres = request.getfixturevalue("postgres")
    with fresh_schema(postgres) as url:
        leaks.servers.append((postgres, str(sa.make_url(url).query["application_name"])))
        yield url
        leaks.check()
        leaks.servers.clear()
