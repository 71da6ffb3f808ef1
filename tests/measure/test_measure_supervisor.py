"""The supervisor: each way for a worker to die is named, bounded in time, and harms nobody else."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import measure_fakes
import numpy as np
import pytest

from whet.compiler.errors import MeasureError
from whet.measure.supervisor import Supervisor

FAKES = "measure_fakes:"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(condition, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(scope="module")
def shared() -> Iterator[Supervisor]:
    supervisor = Supervisor(memory_limit=1 << 30)
    yield supervisor
    supervisor.close()


def test_one_warm_worker_serves_many_calls(shared: Supervisor) -> None:
    first = shared.call(FAKES + "pid", timeout=5).value
    assert shared.call(FAKES + "echo", [1, "x"], timeout=5).value == [1, "x"]
    assert shared.call(FAKES + "pid", timeout=5).value == first != os.getpid()


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("raise_error", "error", ["ValueError: no such tile", "about to fail"]),
        ("segfault", "crash", ["SIGSEGV", "last words before the fault", "measure_fakes.py"]),
        ("abort", "crash", ["SIGABRT"]),
        ("leave", "crash", ["exited with status 3"]),
        ("hang", "timeout", ["killed after 0.6 s", "entering the loop", "in hang"]),
        ("hog", "out_of_memory", ["1024 MiB", "MemoryError"]),
        ("creeping_hog", "out_of_memory", ["of 1024 MiB used", "SIGABRT"]),
        ("unpicklable", "error", ["does not pickle"]),
        ("missing", "error", ["AttributeError", "missing"]),
    ],
)
def test_each_fault_is_named_and_the_next_call_works(
    shared: Supervisor, function: str, kind: str, words: list[str]
) -> None:
    begin = time.monotonic()
    outcome = shared.call(FAKES + function, timeout=0.6 if kind == "timeout" else 20)
    assert outcome.kind == kind, outcome.error
    for word in words:
        assert word in outcome.error
    if kind == "timeout":
        assert time.monotonic() - begin < 1.5
    assert shared.call(FAKES + "echo", 7, timeout=5).value == 7


def test_the_memory_of_the_driver_is_not_the_workers() -> None:
    """A child begins with its parent's peak, which says nothing of the child."""
    ballast = np.ones(700 << 20, np.uint8)
    with contextlib.closing(Supervisor(memory_limit=512 << 20)) as supervisor:
        outcome = supervisor.call(FAKES + "segfault", timeout=20)
    assert ballast[-1] == 1
    assert outcome.kind == "crash", outcome.error


def test_output_of_one_call_is_not_blamed_on_the_next(shared: Supervisor) -> None:
    assert "about to fail" in shared.call(FAKES + "raise_error", timeout=5).error
    assert "about to fail" not in shared.call(FAKES + "missing", timeout=5).error


def test_long_output_is_cut_and_does_not_block(shared: Supervisor) -> None:
    assert shared.call(FAKES + "chatter", timeout=5).value == "done"


def test_grandchildren_die_with_a_timeout(shared: Supervisor) -> None:
    name = "98765.25"
    assert shared.call(FAKES + "grandchild", name, timeout=0.4).kind == "timeout"
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
        assert supervisor.call(FAKES + "cores", timeout=5).value == [core]
        assert supervisor.call(FAKES + "main_module", timeout=5).value == ["None", "whet-worker"]
    finally:
        supervisor.close()


def test_worker_is_replaced_after_max_calls() -> None:
    supervisor = Supervisor(max_calls=2)
    try:
        pids = [supervisor.call(FAKES + "pid", timeout=5).value for _ in range(4)]
    finally:
        supervisor.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_close_ends_a_call_in_flight_and_refuses_more() -> None:
    supervisor = Supervisor()
    pid = supervisor.call(FAKES + "pid", timeout=5).value
    outcomes: list = []
    thread = threading.Thread(
        target=lambda: outcomes.append(supervisor.call(FAKES + "hang", timeout=60))
    )
    thread.start()
    time.sleep(0.3)
    begin = time.monotonic()
    supervisor.close()
    thread.join(5)
    assert time.monotonic() - begin < 2
    assert outcomes[0].kind == "crash"
    assert not alive(pid)
    with pytest.raises(MeasureError, match="closed"):
        supervisor.call(FAKES + "pid", timeout=5)


def test_worker_outlives_the_thread_that_first_called_it() -> None:
    supervisor = Supervisor()
    pids: list[int] = []
    thread = threading.Thread(
        target=lambda: pids.append(supervisor.call(FAKES + "pid", timeout=5).value)
    )
    thread.start()
    thread.join()
    time.sleep(0.1)
    try:
        assert supervisor.call(FAKES + "pid", timeout=5).value == pids[0]
    finally:
        supervisor.close()


def test_a_worker_that_cannot_start_is_an_error_with_its_output() -> None:
    supervisor = Supervisor(preload=["no_such_module_of_ours"])
    with pytest.raises(MeasureError, match="no_such_module_of_ours"):
        supervisor.call(FAKES + "pid", timeout=5)
    supervisor.close()


def test_a_hung_worker_dies_when_the_driver_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(Path(measure_fakes.__file__).parent)!r})
            from whet.measure.supervisor import Supervisor
            supervisor = Supervisor()
            print(supervisor.call("measure_fakes:pid", timeout=20).value, flush=True)
            supervisor.call("measure_fakes:hang", timeout=60)
            """
        )
    )
    driver = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    pid = int(driver.stdout.readline())
    time.sleep(0.5)  # now it hangs in native code with the GIL held
    assert alive(pid)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert wait_until(lambda: not alive(pid))
