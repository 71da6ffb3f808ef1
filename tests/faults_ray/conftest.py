"""Clusters of this room stand one at a time, and leave nothing behind."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_checks import at_work, check_locks, check_log, left_in
from ray_machines import QUICK_HEALTH, RayMachines, processes, until
from ray_search import Search

ENDED_S = 60.0
"""Seconds in which what a search had on other machines must be gone after its end: a second or two,
but on a machine with much else to do. That ten are enough is tested on its own."""


@pytest.fixture(scope="module")
def one_cluster_at_a_time() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / "whet_test_cluster.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def cluster(one_cluster_at_a_time: None) -> Iterator[RayMachines]:
    """A head that only manages; nothing of its machines is left in the end."""
    with RayMachines(QUICK_HEALTH) as machines:
        yield machines
        shared = set(Path("/dev/shm").glob(f"*{machines.uid}*"))
    assert not processes(machines.uid, machines.sessions)
    assert not machines.folder.exists() and not shared


@pytest.fixture
def search(cluster: RayMachines, tmp_path: Path) -> Iterator[Callable[..., Search]]:
    """Starts searches on the cluster, all on one log; ends those that are left, checks the log."""
    started: list[Search] = []

    def start(trials: int, **more: Any) -> Search:
        asked = {"address": cluster.address, "log": tmp_path / "log.db", "trials": trials, **more}
        started.append(Search(tmp_path, f"search{len(started)}", **asked))
        return started[-1]

    yield start
    for one in started:
        one.end()
    check_log(*started)
    assert not [*tmp_path.glob("log.db-*")], "a journal is left"
    until(lambda: not at_work(cluster), ENDED_S, lambda: at_work(cluster))
    for machine in cluster.machines.values():
        until(
            lambda m=machine: not left_in(m.temporary),
            ENDED_S,
            lambda m=machine: left_in(m.temporary),
        )
        check_locks(machine.temporary)
