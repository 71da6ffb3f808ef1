"""The lock between unrelated runs on one device: exclusive, given up, and fair."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from whet.compiler.errors import MeasureError
from whet.measure.stage import machine

# A run that always has a candidate waiting: it lets go of the device only to take it again.
BUSY = """
import sys, time
from whet.measure.stage import machine
while True:
    with machine.exclusive(sys.argv[1], lambda: False):
        print("mine", flush=True)
        time.sleep(0.02)
"""


@pytest.fixture
def device() -> Iterator[str]:
    name = f"test-{os.getpid()}"
    yield name
    for path in machine.lock_paths(name):
        path.unlink(missing_ok=True)


@pytest.fixture
def busy(device: str) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-c", BUSY, device]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        yield process
        process.kill()


def test_a_busy_run_lets_others_have_their_turn(device: str, busy: subprocess.Popen) -> None:
    for _ in range(10):
        with machine.exclusive(device, lambda: False):
            pass
    busy.kill()
    assert busy.stdout is not None
    # The other one has a turn before each of ours, and some more while we are not in the queue
    # yet; without the queue it has hundreds.
    assert busy.stdout.read().count("mine") < 100


def test_who_waits_may_give_up_and_leaves_no_lock(device: str, busy: subprocess.Popen) -> None:
    asked = iter([False, False, True])
    with (
        pytest.raises(MeasureError, match="closed while waiting for its turn"),
        machine.exclusive(device, lambda: next(asked)),
    ):
        raise AssertionError("the lock is not exclusive")
    with machine.exclusive(device, lambda: False):
        pass


def test_a_lock_file_that_cannot_be_opened_is_named(device: str) -> None:
    path, _ = machine.lock_paths(device)
    path.symlink_to("/nowhere")  # the file of whoever can write to the folder is not followed
    with (
        pytest.raises(MeasureError, match=rf"(?s)measurement on {device}.*{path}.*is it yours"),
        machine.exclusive(device, lambda: False),
    ):
        raise AssertionError("it was followed")
