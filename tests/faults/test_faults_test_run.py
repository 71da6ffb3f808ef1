"""A test run that is ended leaves no database server behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from postgres_server import PostgresServer, programs

pytestmark = pytest.mark.skipif(
    not programs(), reason="no PostgreSQL server: apt install postgresql"
)
RUN = """
import time
import pytest
from postgres_server import PostgresServer

@pytest.fixture(scope="session")
def server():
    with PostgresServer() as server:
        yield server

def test_that_is_ended(server):
    print(server.folder, (server.data / "postmaster.pid").read_text().split()[0], flush=True)
    time.sleep(600)
"""
MORE = [pytest.param(n, marks=pytest.mark.faults) for n in (signal.SIGKILL, signal.SIGINT)]
GONE_S = 60.0
"""Seconds in which a server has ended: a fraction of one, on a machine that is not busy."""


def is_up(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, *MORE])
def test_a_run_that_is_ended_leaves_no_server(tmp_path, number):
    (tmp_path / "test_that_is_ended.py").write_text(RUN)
    environment = {k: v for k, v in os.environ.items() if k != "WHET_TEST_POSTGRES"}
    environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
    words = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(tmp_path)]
    with subprocess.Popen(
        words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        said = next((line for line in run.stdout if "whet-postgres-" in line), "")
        folder, pid = said.rpartition("/tmp/")[2].split()
        assert is_up(int(pid)) and Path("/tmp", folder).is_dir()
        run.send_signal(number)
    until = time.monotonic() + GONE_S
    while is_up(int(pid)) or Path("/tmp", folder).exists():
        assert time.monotonic() < until, f"process {pid} or /tmp/{folder} is left"
        time.sleep(0.05)


@pytest.mark.faults
def test_a_server_of_a_crash_is_no_obstacle_to_its_end():
    """The number in the file of a killed server may be another process's by now."""
    with PostgresServer() as server:
        server.stop()
        (server.data / "postmaster.pid").write_text(f"{os.getpid()}\n")
    assert not server.folder.exists()
