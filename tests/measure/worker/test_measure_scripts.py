"""Pools inside a user's own script: nothing outlives it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]

HANGING = """
import contextlib, os, sys, time
sys.path.append({here!r})
from measure_fakes import candidate
from whet.measure import LocalPool, MeasureOptions, RayPool
from whet.measure.stage import machine
pool = {pool}(
    workers=1,
    options=MeasureOptions(build_timeout=600.0, run_timeout=600.0),
    build_function="measure_fakes:fake_build",
    run_function="measure_fakes:fake_run",
    prepare_function="measure_fakes:fake_prepare",
)
for behaviour in ("hang", "build_hang"):
    pool.submit(candidate(behaviour))
hanging = 1 if machine.cores_overlap() else 2  # on one core, builds and runs take turns
while len(os.listdir(os.environ["WHET_TEST_HANGING"])) < hanging:
    time.sleep(0.01)
with {around}:
    print("hanging", flush=True)
    pool.collect()
    pool.collect()
"""


@pytest.fixture(autouse=True)
def hanging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder in which workers say that they hang."""
    folder = tmp_path / "hanging"
    folder.mkdir()
    monkeypatch.setenv("WHET_TEST_HANGING", str(folder))


def script(folder: Path, pool: str, around: str = "contextlib.nullcontext()") -> list[str]:
    (folder / "tune_it.py").write_text(HANGING.format(here=str(HERE), pool=pool, around=around))
    return [sys.executable, "tune_it.py"]


@pytest.mark.parametrize("pool", ["LocalPool", "RayPool"])
def test_no_worker_outlives_a_killed_driver(tmp_path: Path, pool: str) -> None:
    driver = subprocess.Popen(
        script(tmp_path, pool), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    with driver.stdout as lines:
        assert lines.readline() == "hanging\n"
    workers = [pid for pid in descendants(driver.pid) if is_worker(pid)]
    # each with its keeper, and below an actor with that one's shelter
    assert len(workers) == (6 if pool == "RayPool" else 4)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    deadline = time.monotonic() + 120
    while any(map(is_worker, workers)):
        assert time.monotonic() < deadline, "workers are still alive"
        time.sleep(0.05)


def test_interrupting_a_script_ends_its_workers(tmp_path: Path) -> None:
    driver = subprocess.Popen(
        script(tmp_path, "LocalPool", around="pool"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    driver.stdout.readline()
    workers = [pid for pid in descendants(driver.pid) if is_worker(pid)]
    assert len(workers) == 4  # each with its keeper
    os.kill(driver.pid, signal.SIGINT)
    _, errors = driver.communicate(timeout=120)
    assert "KeyboardInterrupt" in errors
    assert not any(map(is_worker, workers))


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:  # the thread or the process has just ended
            continue
        for one in map(int, children):
            found |= {one} | descendants(one)
    return found


def is_worker(pid: int) -> bool:
    try:
        return b"whet.measure.worker.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
