"""Pools inside a user's own script: it is never run again, and nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent

TEMPLATE_IN_MAIN = """
with open("runs.txt", "a") as file:
    file.write("run\\n")  # no __main__ guard: a worker that imports this file is found out

import time
from neighbour import SCALE
from whet.compiler import te
from whet.compiler.target import Target
from whet.measure import LocalPool, MeasureInput, MeasureOptions, RayPool
from whet.search_spaces import get_config, space_of, template

@template("script/own")
def own(n):
    a = te.placeholder((n,), "float32", name="a")
    b = te.compute((n,), lambda i: a[i] * SCALE, name="b")
    s = te.create_schedule(b.op)
    cfg = get_config()
    cfg.define_knob("how", ["plain", "vector", "parallel", "broken", "endless"])
    how = cfg["how"].val
    if how == "vector":
        s[b].vectorize(s[b].split(s[b].op.axis[0], factor=4)[1])
    elif how == "parallel":
        s[b].parallel(s[b].op.axis[0])
    elif how == "broken":
        s[b].split(s[b].op.axis[0], factor=0)
    while how == "endless":
        time.sleep(0.01)
    return s, [a, b]

target = Target("llvm").canonical()
workload = own.workload(1001)
with target:
    space = space_of(workload)
candidates = [MeasureInput(workload, target.to_json(), config, own.ref()) for config in list(space)]
options = MeasureOptions(build_timeout=2.0, min_repeat_ms=0.5, max_measure_s=0.01)
with {pool}(workers=1, options=options, reference=candidates[0]) as pool:
    for candidate in candidates:
        pool.submit(candidate)
    seen = []
    while len(seen) < len(candidates):
        seen += pool.collect()
    for ticket, result in sorted(seen):
        facts = result.environment
        print(candidates[ticket].config.choice("how"), result.status, facts.get("checked"))
        print("  " + result.error.replace("\\n", " "))
"""

HANGING = """
import sys, time
sys.path.append({here!r})
from measure_fakes import candidate
from whet.measure import LocalPool, RayPool
pool = {pool}(
    workers=1,
    build_function="measure_fakes:fake_build",
    run_function="measure_fakes:fake_run",
    prepare_function="measure_fakes:fake_prepare",
)
for behaviour in ("good", "hang", "build_hang"):
    pool.submit(candidate(behaviour))
pool.collect()
time.sleep(1)
print("hanging", flush=True)
pool.collect()
pool.collect()
"""


def script(folder: Path, text: str, pool: str) -> list[str]:
    (folder / "neighbour.py").write_text("SCALE = 10\n")
    (folder / "tune_it.py").write_text(text.format(here=str(HERE), pool=pool))
    return [sys.executable, "tune_it.py"]


@pytest.mark.parametrize("pool", ["LocalPool", "RayPool"])
def test_a_template_in_main_works_and_the_script_runs_once(tmp_path: Path, pool: str) -> None:
    done = subprocess.run(
        script(tmp_path, TEMPLATE_IN_MAIN, pool),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[::2] == [
        "plain ok True",
        "vector ok True",
        "parallel ok True",
        "broken lower_error None",
        "endless build_timeout None",
    ]
    assert "ScheduleError" in lines[7] and "tune_it.py" in lines[7]
    assert "killed after 2 s" in lines[9] and "tune_it.py" in lines[9]
    assert (tmp_path / "runs.txt").read_text() == "run\n"


@pytest.mark.parametrize("pool", ["LocalPool", "RayPool"])
def test_no_worker_outlives_a_killed_driver(tmp_path: Path, pool: str) -> None:
    driver = subprocess.Popen(
        script(tmp_path, HANGING, pool), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    with driver.stdout as lines:
        assert lines.readline() == "hanging\n"
    workers = [pid for pid in descendants(driver.pid) if is_worker(pid)]
    assert len(workers) == 2
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    deadline = time.monotonic() + 20
    while any(map(is_worker, workers)):
        assert time.monotonic() < deadline, "workers are still alive"
        time.sleep(0.05)


def test_interrupting_a_script_ends_its_workers(tmp_path: Path) -> None:
    text = HANGING.replace("pool.collect()\npool.collect()", "with pool: pool.collect()")
    driver = subprocess.Popen(
        script(tmp_path, text, "LocalPool"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    driver.stdout.readline()
    workers = [pid for pid in descendants(driver.pid) if is_worker(pid)]
    assert len(workers) == 2
    os.kill(driver.pid, signal.SIGINT)
    _, errors = driver.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors
    assert not any(map(is_worker, workers))


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for one in map(int, path.read_text().split()):
            found |= {one} | descendants(one)
    return found


def is_worker(pid: int) -> bool:
    try:
        return b"whet.measure.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
