"""Clusters of this room stand one at a time: Ray's servers for clients take fixed ports."""

import fcntl
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def one_cluster_at_a_time():
    with (Path(tempfile.gettempdir()) / "whet_test_cluster.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
