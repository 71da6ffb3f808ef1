"""Workers of the real pool that are killed, have no room, or lose their device during a search."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from faulty_kernels import CHEAP, scale
from leaks import started_with
from whole_searches import Told, check_told, recorded, search, states

import whet
from whet.compiler.errors import DeviceLostError, MeasureError
from whet.db import TuningLog
from whet.measure.pool.engine import StagedPool
from whet.measure.stage.builder import Built
from whet.measure.stage.runner import RunReport

KILLED = {"ok", "build_crash", "run_crash", "infra_error"}
"""Ends of candidates whose workers were killed: most are tried again and succeed."""


@pytest.fixture
def task(leaks):
    return whet.create_task(scale, (960,), target="llvm")


@pytest.fixture
def file(tmp_path, leaks):
    """Where a new log's file may be made."""
    yield str(tmp_path / "whet.db")
    leaks.check()


class Acknowledged:
    """A callback that counts what it is told."""

    def __init__(self):
        self.results = {}

    def __call__(self, task, trial):
        assert trial.config.key not in self.results
        self.results[trial.config.key] = trial.result


def on_workers(task, log, trials, callback, **more):
    """A search on the real local pool."""
    more = {"options": CHEAP, "progress": False, "callbacks": [callback], **more}
    return whet.tune(task, trials, log, "random", **more)


def check_all(location, told, trials):
    """All of a search is recorded once, and nothing is left to be measured."""
    with TuningLog(location, write=False) as log:
        there = recorded(log)
        assert states(log, "session")[-1] == "finished"
    assert len(there) == trials
    assert {key: tuple(result.costs) for key, result in told.results.items()} == there


def test_a_worker_that_is_killed_while_it_builds(task, file, tmp_path, monkeypatch, leaks):
    place = tmp_path / "held"
    killed, workers = [], []

    def kill():
        until = time.monotonic() + 120
        while time.monotonic() < until and not (place.exists() and place.read_text()):
            time.sleep(0.02)
        killed.append(int(place.read_text()))
        workers.extend(started_with(leaks.temporary))
        os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setenv("WHET_TEST_HOLD", str(place))
    thread = threading.Thread(target=kill)
    thread.start()
    options = whet.MeasureOptions(**{**vars(CHEAP), "build_timeout": 200.0})
    told = Acknowledged()
    on_workers(task, file, 6, told, options=options)
    thread.join()
    assert killed and killed[0] in workers  # not in this process: it was a worker that built
    assert not Path(f"/proc/{killed[0]}").exists()
    assert {result.status for result in told.results.values()} <= KILLED
    assert sum(result.ok for result in told.results.values()) >= 5
    check_all(file, told, 6)


def test_workers_that_are_killed_at_random_moments(task, file, leaks, seeds):
    draw, over, struck = random.Random(seeds(1)[0]), threading.Event(), []

    def kill():
        while not over.wait(draw.uniform(0.05, 0.6)) and len(struck) < 12:
            # Keepers, workers, and what they have just started.
            if victims := sorted(started_with(leaks.temporary)):
                with suppress(ProcessLookupError):
                    os.kill(victim := draw.choice(victims), signal.SIGKILL)
                    struck.append(victim)

    class Begun(Acknowledged):
        def __call__(self, task, trial):
            super().__call__(task, trial)
            if len(self.results) == 1:
                thread.start()

    thread, told = threading.Thread(target=kill), Begun()
    found = on_workers(task, file, 20, told)
    over.set()
    thread.join()
    assert found.state == "finished" and struck
    assert {result.status for result in told.results.values()} <= KILLED
    assert any(result.ok for result in told.results.values())
    check_all(file, told, 20)


DIES = """
import os, signal, tempfile, threading, time
from whet.measure.worker.supervisor import Supervisor

def die():
    while not os.listdir(tempfile.gettempdir()):
        time.sleep(0.001)
    time.sleep({after})
    os.kill(os.getpid(), signal.SIGKILL)

worker = Supervisor()
threading.Thread(target=die).start()
worker.start()
time.sleep(60)
"""


@pytest.mark.parametrize("after", [0.01, 3.0])
def test_a_worker_leaves_no_folder_when_its_driver_is_killed(leaks, after):
    """The driver has made the folder; the worker has not begun yet, or is up."""
    done = subprocess.run([sys.executable, "-c", DIES.format(after=after)])
    assert done.returncode == -signal.SIGKILL
    leaks.check()


def test_a_full_temporary_folder_ends_a_search_and_costs_no_config(file, leaks):
    """Generated C goes through files; the failures say nothing about the candidates."""
    place = leaks.temporary
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    ballast = place / "ballast"
    try:
        ballast.write_bytes(b"x" * (64 << 10))
        task = whet.create_task(scale, (960,), target="c")
        told = Acknowledged()
        with pytest.raises(MeasureError, match="No space left on device") as caught:
            on_workers(task, file, 30, told)
        assert "candidates in a row came back without an answer" in str(caught.value)
        assert {result.status for result in told.results.values()} == {"infra_error"}
        ballast.unlink()
        told = Acknowledged()
        found = on_workers(task, file, 6, told)
        assert len(found.trials) == 6 and all(r.ok for r in told.results.values())
        leaks.check()
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class Device:
    """Builds at once, and measures on a device that may be lost.

    Args:
        lost_at: the number of the candidate with which it is lost; None: never.
    """

    def __init__(self, lost_at=None):
        self.left, self.measured = lost_at, []

    def start(self):
        return "here"

    def overlaps_builds(self):
        return False

    def build(self, inp):
        return Built("ok", program_hash=inp.config.key)

    def run(self, measurement):
        if self.left is not None and len(self.measured) >= self.left:
            raise DeviceLostError("measurement on cuda:0", "it fell off the bus")
        self.measured.append(measurement.built.program_hash)
        return RunReport("ok", (1e-3 + 1e-6 * len(self.measured),))

    def close(self):
        pass


def test_a_device_that_is_lost_is_left_out(small, file):
    lost, other = Device(lost_at=3), Device()
    told = Acknowledged()
    with (
        StagedPool([Device()], [lost, other], whet.MeasureOptions()) as pool,
        pytest.warns(RuntimeWarning, match=r"(?s)fell off the bus.*1 other device"),
    ):
        found = whet.tune(small, 12, file, "random", pool, progress=False, callbacks=[told])
    assert found.state == "finished" and all(r.ok for r in told.results.values())
    searched = [*lost.measured, *other.measured]
    assert set(told.results) <= set(searched)  # what the lost one had in hand as well
    check_all(file, told, 12)


class LostLate(Device):
    """A device that is lost in the second round of the last measurement."""

    def __init__(self):
        super().__init__()
        self.again = []

    def run(self, measurement):
        if measurement.options.repeat == 1:
            if measurement.built.program_hash in self.again:
                raise DeviceLostError("measurement on cuda:0", "it fell off the bus")
            self.again.append(measurement.built.program_hash)
        return super().run(measurement)


def test_a_device_that_is_lost_in_the_last_measurement(small, file):
    lost, other = LostLate(), Device()
    told = Acknowledged()
    with (
        StagedPool([Device()], [lost, other], whet.MeasureOptions()) as pool,
        pytest.warns(RuntimeWarning, match=r"(?s)fell off the bus.*1 other device"),
    ):
        found = whet.tune(small, 12, file, "random", pool, progress=False, callbacks=[told])
    assert found.state == "finished" and lost.again
    assert all(other.measured.count(key) > 1 for key in lost.again)  # all began anew
    check_all(file, told, 12)


def test_the_loss_of_the_last_device_is_named(small, file):
    told = Acknowledged()
    with (
        StagedPool([Device()], [Device(lost_at=5)], whet.MeasureOptions()) as pool,
        pytest.raises(DeviceLostError, match="fell off the bus"),
    ):
        whet.tune(small, 12, file, "random", pool, progress=False, callbacks=[told])
    with TuningLog(file, write=False) as log:
        assert states(log, "run") == ["failed"] and states(log, "session") == ["failed"]
        before = recorded(log)
    assert set(told.results) <= set(before)
    resumed = Told()
    assert len(search(small, file, resumed, 12).trials) == 12
    assert not set(resumed.measured) & set(before)
    check_told(file, resumed)
