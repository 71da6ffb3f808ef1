"""Searches in processes of their own, on real workers: faults, kills, Ctrl-C, and deployment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whet.db import TuningLog

# As a user writes it: a template of its own, some of whose configs do harm, and a search.
SCRIPT = """
import ctypes
import sys
import time

from neighbour import SCALE

import whet
from whet import te

WORKERS, LOG, RUNS, SECONDS = sys.argv[1:]
with open(RUNS, "a") as file:
    file.write("run\\n")  # no __main__ guard: a worker that ran this file again would be found out

HARM = ["raise", "hang", "crash", "hog", "far read", "long loop", "large array", "wrong"]


@whet.template("script/faulty")
def faulty(n):
    cfg = whet.get_config()
    cfg.define_knob("how", ["plain", "vector", "parallel", *HARM])
    how = cfg["how"].val
    a = te.placeholder((n,), "float32", name="a")
    at = te.placeholder((n,), "int64", name="at")
    large = n << 30 if how == "large array" else n
    far = 1 << 40 if how == "far read" else 0
    t = te.compute((large,), lambda i: a[i % n] * SCALE, name="t")
    r = te.reduce_axis((0, 1 << 50 if how == "long loop" else 4), name="r")
    more = 1 if how == "wrong" else 0
    b = te.compute((n,), lambda i: te.sum(t[i + far * at[i]] * a[i] + more, axis=r), name="b")
    s = te.create_schedule(b.op)
    if how == "vector":
        outer, inner = s[b].split(b.op.axis[0], factor=8)
        s[b].reorder(outer, r, inner)
        s[b].vectorize(inner)
    elif how == "parallel":
        s[b].parallel(b.op.axis[0])
    elif how == "raise":
        s[b].split(b.op.axis[0], factor=0)
    elif how == "crash":
        ctypes.string_at(0)
    elif how == "hog":
        bytearray(1 << 40)
    while how == "hang":
        time.sleep(0.01)
    return s, [a, at, b]


task = whet.create_task(faulty, (1001,), target="llvm")
options = whet.MeasureOptions(
    build_timeout=float(SECONDS),
    run_timeout=float(SECONDS),
    min_repeat_ms=0.5,
    max_measure_s=0.02,
    memory_limit=1 << 31,
)
workers = None if WORKERS == "local" else WORKERS
found = whet.tune(task, 100, LOG, "grid", workers, progress=False, options=options)
print(found)
"""
FAULTS = {
    "raise": ("lower_error", "factor must be at least 1"),
    "hang": ("build_timeout", "faulty_script.py"),
    "crash": ("build_crash", "SIGSEGV"),
    "hog": ("out_of_memory", "more than 2048 MiB asked for"),
    "far read": ("run_crash", "SIGSEGV"),
    "long loop": ("run_timeout", "killed after"),
    "large array": ("out_of_memory", "more than 2048 MiB asked for"),
    "wrong": ("wrong_answer", "of 1001 numbers differ"),
}


@pytest.mark.parametrize("workers", ["local", "ray"])
def test_each_fault_of_a_scripts_own_template_costs_one_trial(tmp_path, workers):
    (tmp_path / "neighbour.py").write_text("SCALE = 10\n")  # workers have the script's path
    program = tmp_path / "faulty_script.py"
    program.write_text(SCRIPT)
    for seconds in (1.5, 8.0, 40.0):  # a busy machine may kill what would end by itself
        log = tmp_path / f"{seconds}.db"
        (tmp_path / "runs.txt").unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, program, workers, log.name, "runs.txt", str(seconds)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        with TuningLog(log, write=False) as opened:
            search, finals = opened.runs()
            trials = {t.config.choice("how"): t.result for t in opened.trials(run_id=search.id)}
            last = {t.config.choice("how") for t in opened.trials(run_id=finals.id)}
        killed = {how for how, result in trials.items() if result.status.endswith("timeout")}
        if killed == {"hang", "long loop"}:
            break
    # The speed-up may be "none": on a busy machine noise can hide what vectors bring here.
    assert "11 trials, exhausted" in done.stdout and "  speed-up " in done.stdout
    assert (tmp_path / "runs.txt").read_text() == "run\n"
    assert last <= trials.keys()
    assert len(trials) == 3 + len(FAULTS)
    for how in ("plain", "vector", "parallel"):
        assert trials[how].ok and trials[how].environment["checked"], (how, trials[how])
    for how, (status, words) in FAULTS.items():
        assert trials[how].status == status, (how, trials[how])
        assert words in trials[how].error, (how, trials[how].error)


ARGS = ("--op", "matmul", "--args", "64", "48", "80", "--sampler", "random", "--log", "a.db")

BUILD = """
import numpy as np, whet
task = whet.create_task("matmul", args=(64, 48, 80), target="llvm")
f = whet.build(task, log="a.db")
a, b = (np.random.default_rng(0).random(shape, "float32") for shape in ((64, 48), (48, 80)))
c = np.full((64, 80), np.nan, "float32")
f(a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-4)
print(whet.autotune.best_from_log(task, "a.db").config)
"""


def whet_tune(folder: Path, trials: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "whet.cli", "tune", *ARGS, "--trials", str(trials)]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_trials(log: Path, count: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if log.exists():
            with TuningLog(log) as opened:
                if len(opened.trials()) >= count:
                    return
        time.sleep(0.05)
    raise AssertionError("the search does not come on")


def workers_of(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in path.read_text().split()]
    return found


def alive(pid: int) -> bool:
    try:
        return b"whet.measure.worker.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_search_that_is_killed_and_interrupted_goes_on_and_is_built_elsewhere(tmp_path):
    log = tmp_path / "a.db"
    for how, enough in ((signal.SIGKILL, 5), (signal.SIGINT, 12)):
        search = whet_tune(tmp_path, 400)
        try:
            wait_for_trials(log, enough)
            workers = workers_of(search.pid)
            os.kill(search.pid, how)
            out, err = search.communicate(timeout=300)
        finally:
            search.kill()
        assert workers and search.returncode == (130 if how == signal.SIGINT else -how), err
        deadline = time.monotonic() + 120
        while any(map(alive, workers)):
            assert time.monotonic() < deadline, "workers outlive the search"
            time.sleep(0.05)
        with TuningLog(log, write=False) as opened:
            numbers = {t.number for t in opened.trials()}
        assert len(set(range(max(numbers))) - numbers) <= 4  # those in flight
    assert f"{len(numbers)} trials, interrupted" in err and "Traceback" not in err
    total = len(numbers) + 4
    search = whet_tune(tmp_path, total)
    out, err = search.communicate(timeout=600)
    assert search.returncode == 0, err
    assert f"{total} trials, finished" in out
    with TuningLog(log, write=False) as opened:
        killed, interrupted, last, finals = opened.runs()
        states = [run.state for run in (killed, interrupted, last, finals)]
        searched = [t for t in opened.trials() if t.run_id != finals.id]
    assert states == ["running", "interrupted", "finished", "finished"]
    assert sorted(t.number for t in searched) == list(range(total))
    assert len({t.config.key for t in searched}) == total  # nothing was measured twice
    built = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=tmp_path, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    assert built.stdout.strip() in out
