"""A machine has no memory left, no room on its disk, or another time of day: the search goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ray_machines import Machine, RayMachines, until
from ray_search import Search

from whet.db import TuningLog

pytestmark = pytest.mark.faults
MEMORY = Path("/sys/fs/cgroup/memory")
LIMIT_MB, HOG_MB = 1200, 2000
DISK_MB = 24
DAY_S = 86_400


def added(cluster: RayMachines, name: str, **more: object) -> Machine:
    machine = cluster.add(name, **more)  # type: ignore[arg-type]
    cluster.await_machines(machine)
    return machine


@pytest.fixture
def beside(cluster: RayMachines) -> Machine:
    """A machine that works."""
    there = cluster.machines.get("a")
    return there or added(cluster, "a")


@pytest.fixture
def small(cluster: RayMachines, beside: Machine) -> Iterator[Machine]:
    """A machine with little memory: the kernel kills what takes more."""
    group = MEMORY / cluster.uid
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(LIMIT_MB << 20))
    except OSError as error:
        pytest.skip(f"a control group with a limit of memory cannot be made: {error}")
    within = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    machine = added(cluster, "small", within=within)
    yield machine
    machine.kill()
    until(lambda: not (group / "cgroup.procs").read_text().strip())
    group.rmdir()


def test_a_candidate_that_eats_a_machines_memory_ends_alone(
    small: Machine, search: Callable[..., Search]
) -> None:
    one = search(30, memory_mb=3 * HOG_MB)
    until(lambda: one.is_at(3) and small.did("run"), why=lambda: one.said)
    small.ask("build", f"hog {HOG_MB}")
    until(lambda: not (small.marks / "next-build").exists(), why=lambda: one.said)
    did = len(small.did("build"))
    assert one.wait(180) == 0, one.whole()
    assert one.finished == ("finished", 30)
    killed = (MEMORY / small.mark.partition(".")[0] / "memory.oom_control").read_text()
    assert "oom_kill 0" not in killed, killed
    # Its candidate has failed, or was built elsewhere; all others are as ever, and it goes on.
    assert one.statuses["ok"] >= 29, one.statuses
    assert set(one.statuses) <= {"ok", "build_crash", "out_of_memory"}
    assert len(small.did("build")) > did


@pytest.fixture
def full(cluster: RayMachines, beside: Machine) -> Iterator[Machine]:
    """A machine with a small disk of its own for temporary files."""
    folder = cluster.folder / "full" / "tmp"
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a file system of {DISK_MB} MB cannot be mounted: {done.stderr.strip()}")
    try:
        machine = added(cluster, "full")
        yield machine
        machine.kill()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_machine_with_a_full_disk_harms_no_trial(
    full: Machine, search: Callable[..., Search]
) -> None:
    one = search(30)
    until(lambda: one.is_at(3) and full.did("run"), why=lambda: one.said)
    full.ask("build", "fill")
    until(lambda: not (full.marks / "next-build").exists(), why=lambda: one.said)
    until(lambda: shutil.disk_usage(full.temporary).free < 1 << 16)
    assert one.wait(180) == 0, one.whole()
    assert one.finished == ("finished", 30) and one.statuses == {"ok": 30}
    (full.temporary / "filled").unlink()
    two = search(40)
    assert two.wait(180) == 0, two.whole()
    assert two.finished == ("finished", 40) and two.statuses == {"ok": 10}


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a clock that can be set has to be compiled: there is no cc")
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", source, "-o", library, "-ldl"], check=True)
    return library


def test_a_machine_whose_clock_jumps_is_measured_on_as_before(
    cluster: RayMachines, beside: Machine, clock: Path, search: Callable[..., Search]
) -> None:
    moved = cluster.folder / "clock.txt"
    moved.write_text("0")
    more = {"LD_PRELOAD": str(clock), "WHET_TEST_CLOCK": str(moved)}
    machine = added(cluster, "clock", more=more)
    one = search(40)
    until(lambda: one.is_at(3) and machine.did("run"), why=lambda: one.said)
    for jump in (40 * DAY_S, -40 * DAY_S):
        swapped = cluster.folder / "clock.new"
        swapped.write_text(str(jump))
        os.replace(swapped, moved)
        did = len(machine.did("run"))
        until(lambda did=did: len(machine.did("run")) >= did + 3, 60, lambda: one.said)
    assert one.wait(150) == 0, one.whole()
    assert one.finished == ("finished", 40) and one.statuses == {"ok": 40}
    assert "is lost" not in one.said
    with TuningLog(one.log, write=False) as log:
        trials = [trial.result for trial in log.trials()]
    assert all(0 <= seconds < 600 for t in trials for seconds in t.timings.values())
    seen = map(float, (machine.marks / "clock").read_text().split())
    assert {round((at - time.time()) / DAY_S) for at in seen} == {0, 40, -40}
    assert all(abs(t.timestamp - time.time()) < 3600 for t in trials)  # of one clock, ours
    machine.kill()
