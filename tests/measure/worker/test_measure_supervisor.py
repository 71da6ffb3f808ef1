"""The supervisor: each way for a worker to die is named, bounded in time, and harms nobody else."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import measure_fakes
import numpy as np
import pytest

from whet.compiler.errors import MeasureError
from whet.measure.worker.supervisor import Outcome, Supervisor, _Worker

FAKES = "measure_fakes:"
PATIENT = 60.0
"""Seconds of what ends by itself: on a busy machine, too, nothing of it is killed."""
DEADLINES = (0.6, 4.0, 30.0)
"""Seconds of what never ends: on a busy machine it may come to the point after the first."""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(condition, seconds: float = PATIENT) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def endless(supervisor: Supervisor, function: str, *args: object, point: str) -> Outcome:
    """A call that never ends; it is killed once its output shows that it came to the point."""
    for seconds in DEADLINES:
        outcome = supervisor.call(FAKES + function, *args, timeout=seconds)
        assert outcome.kind == "timeout" and f"killed after {seconds:g} s" in outcome.error
        if point in outcome.error:
            return outcome
    raise AssertionError(outcome.error)


@pytest.fixture(scope="module")
def shared() -> Iterator[Supervisor]:
    supervisor = Supervisor(memory_limit=1 << 30)
    yield supervisor
    supervisor.close()


@pytest.mark.parametrize("fails", ["subprocess.Popen", "socket.socketpair"])
def test_a_worker_that_cannot_be_started_leaves_nothing(
    fails: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        assert list(tmp_path.iterdir())  # its folder is there
        raise OSError("too many processes")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fails, refuse)
    with (
        contextlib.closing(Supervisor()) as supervisor,
        pytest.raises(OSError, match="too many processes"),
    ):
        supervisor.start()
    assert not list(tmp_path.iterdir())


def test_one_warm_worker_serves_many_calls(shared: Supervisor) -> None:
    first = shared.call(FAKES + "pid", timeout=PATIENT).value
    assert shared.call(FAKES + "echo", [1, "x"], timeout=PATIENT).value == [1, "x"]
    assert shared.call(FAKES + "pid", timeout=PATIENT).value == first != os.getpid()


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("raise_error", "error", ["ValueError: no such tile", "about to fail"]),
        ("segfault", "crash", ["SIGSEGV", "last words before the fault", "measure_fakes.py"]),
        ("abort", "crash", ["SIGABRT"]),
        ("leave", "crash", ["exited with status 3"]),
        ("hog", "out_of_memory", ["1024 MiB", "MemoryError"]),
        ("unpicklable", "error", ["does not pickle"]),
        ("missing", "error", ["AttributeError", "missing"]),
    ],
)
def test_each_fault_is_named_and_the_next_call_works(
    shared: Supervisor, function: str, kind: str, words: list[str]
) -> None:
    outcome = shared.call(FAKES + function, timeout=PATIENT)
    assert outcome.kind == kind, outcome.error
    for word in words:
        assert word in outcome.error
    assert shared.call(FAKES + "echo", 7, timeout=PATIENT).value == 7


def test_native_code_that_runs_out_of_memory_is_told_from_a_crash() -> None:
    # A process is born with the peak of the one that starts it: the limit has to be above that.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    limit = max(1 << 30, -(-2 * own >> 20) << 20)
    with contextlib.closing(Supervisor(memory_limit=limit)) as supervisor:
        outcome = supervisor.call(FAKES + "creeping_hog", timeout=PATIENT)
        assert outcome.kind == "out_of_memory", outcome.error
        assert f"of {limit >> 20} MiB used" in outcome.error and "SIGABRT" in outcome.error
        assert supervisor.call(FAKES + "echo", [1], timeout=PATIENT).value == [1]


def test_a_hang_is_killed_and_says_where(shared: Supervisor) -> None:
    assert "in hang" in endless(shared, "hang", point="entering the loop").error
    assert shared.call(FAKES + "echo", 7, timeout=PATIENT).value == 7


def test_where_it_hangs_is_told_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack comes line by line, and on a busy machine with pauses between the lines."""
    lines = ["", "Timeout (0:00:01)!\n", "Thread 0x1 (most recent call first):\n"]
    lines += ['  File "a.py", line 3 in hang\n', '  File "<string>", line 1 in <module>\n']
    written = iter(accumulate(lines))
    worker = object.__new__(_Worker)
    monkeypatch.setattr(worker, "output", lambda: next(written))
    worker.wait_for_traceback()
    assert next(written, None) is None


def test_the_memory_of_the_driver_is_not_the_workers() -> None:
    """A child begins with its parent's peak, which says nothing of the child."""
    ballast = np.ones(300 << 20, np.uint8)
    with contextlib.closing(Supervisor(memory_limit=256 << 20)) as supervisor:
        outcome = supervisor.call(FAKES + "segfault", timeout=PATIENT)
    assert ballast[-1] == 1
    assert outcome.kind == "crash", outcome.error


def test_output_of_one_call_is_not_blamed_on_the_next(shared: Supervisor) -> None:
    assert "about to fail" in shared.call(FAKES + "raise_error", timeout=PATIENT).error
    assert "about to fail" not in shared.call(FAKES + "missing", timeout=PATIENT).error


def test_long_output_is_cut_and_does_not_block(shared: Supervisor) -> None:
    assert shared.call(FAKES + "chatter", timeout=PATIENT).value == "done"


def test_grandchildren_die_with_a_timeout(shared: Supervisor) -> None:
    name = "98765.25"
    endless(shared, "grandchild", name, point="it sleeps")
    assert wait_until(lambda: not _processes_named(f"sleep {name}"))


def _processes_named(text: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if words.strip() == text:
            found.append(int(folder.name))
    return found


def test_worker_is_pinned_and_does_not_know_the_script() -> None:
    core = max(os.sched_getaffinity(0))
    supervisor = Supervisor(cpus=[core])
    try:
        assert supervisor.call(FAKES + "cores", timeout=PATIENT).value == [core]
        assert supervisor.call(FAKES + "main_module", timeout=PATIENT).value == [
            "None",
            "whet-worker",
        ]
    finally:
        supervisor.close()


def test_worker_is_replaced_after_max_calls() -> None:
    supervisor = Supervisor(max_calls=2)
    try:
        pids = [supervisor.call(FAKES + "pid", timeout=PATIENT).value for _ in range(4)]
    finally:
        supervisor.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_close_ends_a_call_in_flight_and_refuses_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHET_TEST_HANGING", str(tmp_path))
    supervisor = Supervisor()
    pid = supervisor.call(FAKES + "pid", timeout=PATIENT).value
    outcomes: list = []
    thread = threading.Thread(
        target=lambda: outcomes.append(supervisor.call(FAKES + "hang", timeout=600))
    )
    thread.start()
    assert wait_until(lambda: list(tmp_path.iterdir()))
    supervisor.close()
    thread.join(PATIENT)
    assert outcomes[0].kind == "crash"
    assert not alive(pid)
    with pytest.raises(MeasureError, match="closed"):
        supervisor.call(FAKES + "pid", timeout=PATIENT)


def test_worker_outlives_the_thread_that_first_called_it() -> None:
    supervisor = Supervisor()
    pids: list[int] = []
    thread = threading.Thread(
        target=lambda: pids.append(supervisor.call(FAKES + "pid", timeout=PATIENT).value)
    )
    thread.start()
    thread.join()
    try:
        assert supervisor.call(FAKES + "pid", timeout=PATIENT).value == pids[0]
    finally:
        supervisor.close()


def test_a_worker_that_cannot_start_is_an_error_with_its_output() -> None:
    supervisor = Supervisor(preload=["no_such_module_of_ours"])
    with pytest.raises(MeasureError, match="no_such_module_of_ours"):
        supervisor.call(FAKES + "pid", timeout=PATIENT)
    supervisor.close()


def test_a_hung_worker_dies_when_the_driver_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "hanging"
    hanging.mkdir()
    monkeypatch.setenv("WHET_TEST_HANGING", str(hanging))
    script = tmp_path / "driver.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(Path(measure_fakes.__file__).parent)!r})
            from whet.measure.worker.supervisor import Supervisor
            supervisor = Supervisor()
            print(supervisor.call("measure_fakes:pid", timeout={PATIENT}).value, flush=True)
            supervisor.call("measure_fakes:hang", timeout=600)
            """
        )
    )
    driver = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    pid = int(driver.stdout.readline())
    assert wait_until(lambda: list(hanging.iterdir())) and alive(pid)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert wait_until(lambda: not alive(pid))
