"""Applying a log of a million trials: a choice that was made, a fresh process, each fallback.

    python benchmarks/scale/apply.py [--trials 1000000] [--log FILE] [--save]

The log is made by SQL from a trial of each task, so that it takes a minute. A warm choice is what a
template's call asks under ``apply_best`` once its config was chosen; each way to a config is
measured cold, in a context of its own. A fresh process is started for each figure of its kind:
the start of Python, whet, the task, the log, the config, the kernel. Its modules are compiled
before, as an installation does: ``PYTHONDONTWRITEBYTECODE`` would have each process compile them
again. ``cpu`` is its own processor time, all of it, ``wall`` has what else ran meanwhile; beside it
stands a process that imports numpy alone. The whole takes a few minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

import harness

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import tempfile
import time
import warnings
from typing import Any

import whet
from whet.db import TuningLog, UntunedWarning
from whet.measure import MeasureResult
from whet.measure.device.names import this_device
from whet.search_spaces.template.config_scope import resolved_in_force

TASKS = 100
CALLS, ROUNDS, PROCESSES = 2000, 21, 11
WARM_US, NEW_MS, FRESH_MS = 20.0, 5.0, 200.0
"""The goals: microseconds of a warm choice; milliseconds of the best record by a new connection,
and of a fresh process to its config."""

COPY = """
INSERT INTO trial ({columns}, number, cost, costs, config_digest)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
SELECT {columns}, i, ? * (1 + i * 1e-3), '[' || ? * (1 + i * 1e-3) || ']',
       substr('{zeros}' || i, -64)
FROM trial, n WHERE run_id = ? AND number = 0
"""

FRESH = """
import time
def now():
    return time.time(), time.process_time()  # which both began before this line
import sys, whet
task = whet.create_task("matmul", args=(256, 256, 64), target="llvm")
made = now()
with whet.apply_best(sys.argv[1]) as applied, task.target:
    assert applied.choose(task.workload).tuned_by.how == "exact"
    chosen = now()
    whet.build(task)
    built = now()
import json
print(json.dumps([made, chosen, built]))
"""
NUMPY = "import json, time, numpy; print(json.dumps([(time.time(), time.process_time())]))"
PARTS = ("task", "config", "kernel")


def task_of(size: int, target: str = "llvm") -> whet.Task:
    """One of the log's tasks."""
    return whet.create_task("matmul", args=(256, 256, size), target=target)


def fill(path: Path, trials: int) -> None:
    """Make the log: :data:`TASKS` tasks with as many trials each."""
    sizes = range(64, 64 + TASKS)
    with TuningLog(path) as log:
        runs = []
        for done, size in enumerate(sizes):
            task, cost = task_of(size), 1e-3 * size
            config = task.config_space.default
            run = log.start_run(task.workload, task.target, this_device(), config.fingerprint)
            log.add_trial(run, 0, config, MeasureResult("ok", (cost,)))
            runs.append((run, cost))
            if done % 20 == 0:
                print(f"log: {done} of {TASKS} tasks", file=sys.stderr)
    with sqlite3.connect(path) as raw:
        every = [row[1] for row in raw.execute("PRAGMA table_info(trial)")]
        same = [c for c in every if c not in ("id", "number", "cost", "costs", "config_digest")]
        statement = COPY.format(columns=", ".join(same), zeros="0" * 64)
        for done, (run, cost) in enumerate(runs):
            raw.execute(statement, (trials // TASKS - 1, cost, cost, run))
            if done % 20 == 0:
                print(f"log: trials of {done} of {TASKS} tasks", file=sys.stderr)
        raw.execute(f"UPDATE task SET trials = {trials // TASKS}, succeeded = {trials // TASKS}")


def warm(path: Path) -> dict[str, float]:
    """Microseconds of a choice that was made: a target in force, and none."""
    task = task_of(64)
    found = {}
    with whet.apply_best(path):
        for words, target in (("a target in force", task.target), ("none", None)):
            if target is not None:
                target.__enter__()
            assert resolved_in_force(task.workload).config is not None
            times = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                for _ in range(CALLS):
                    resolved_in_force(task.workload)
                times.append((time.perf_counter() - began) / CALLS * 1e6)
            found[words] = statistics.median(times)
            if target is not None:
                target.__exit__(None, None, None)
    return found


def cold(path: Path) -> dict[str, float]:
    """Milliseconds of each way to a config, in a context of its own, the log opened anew."""
    there, near = task_of(64), task_of(1000)
    ways = {
        "exact": (there, "none", None),
        "device": (there, "device", "cpu-elsewhere"),
        "shape": (near, "shape", None),
        "default": (near, "none", None),
    }
    with TuningLog(path) as log:  # so that there is such a machine
        other = task_of(2000)
        config = other.config_space.default
        run = log.start_run(other.workload, other.target, "cpu-elsewhere", config.fingerprint)
        log.add_trial(run, 0, config, MeasureResult("ok", (1.0,)))
    found = {}
    for how, (task, fallback, device) in ways.items():
        times = []
        for _ in range(5):
            began = time.perf_counter()
            with whet.apply_best(path, fallback=fallback, device=device) as applied, task.target:
                chosen = applied.choose(task.workload)
                times.append((time.perf_counter() - began) * 1e3)
            assert chosen.tuned_by.how == how, chosen
        found[how] = statistics.median(times)
    return found


def new_connection(path: Path) -> float:
    """Milliseconds of the best record of a task: the log is opened, asked and closed."""
    task = task_of(64)
    space, times = task.config_space, []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with TuningLog(path, write=False) as log:
            assert log.best_in(space, task.workload, task.target) is not None
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def started(compiled: str, code: str, *words: str) -> list[list[float]]:
    """Milliseconds, wall and CPU, from the start of a process to each time that it prints.

    Args:
        compiled: the folder of its modules' bytecode, written where it is not there.
    """
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=settings | {"PYTHONPYCACHEPREFIX": compiled},
        capture_output=True,
        text=True,
        check=True,
    )
    return [[1e3 * (at - began), 1e3 * cpu] for at, cpu in json.loads(done.stdout)]


def fresh(path: Path) -> dict[str, dict[str, float]]:
    """Milliseconds of fresh processes to each part: median and least, wall and CPU."""
    rows = []
    with tempfile.TemporaryDirectory() as compiled:
        for number in range(PROCESSES + 1):
            rows.append([*started(compiled, FRESH, str(path)), *started(compiled, NUMPY)])
            print(f"fresh process {number} of {PROCESSES}", file=sys.stderr)
    del rows[0]  # it compiled all modules, and asked LLVM for this machine
    return {
        part: {
            f"{clock}_{name}": of([row[k][c] for row in rows])
            for c, clock in enumerate(("wall", "cpu"))
            for name, of in (("median", statistics.median), ("min", min))
        }
        for k, part in enumerate((*PARTS, "numpy"))
    }


def main() -> None:
    """Measure, and say which goals hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--log", type=Path, help="one that was made before; made where it is not")
    options, _ = parser.parse_known_args()
    warnings.simplefilter("ignore", UntunedWarning)
    with tempfile.TemporaryDirectory() as folder:
        path = options.log or Path(folder) / "scale.db"
        if not path.exists():
            fill(path, options.trials)
        found: dict[str, Any] = {
            "warm_us": warm(path),
            "new_ms": new_connection(path),
            "cold_ms": cold(path),
            "fresh": fresh(path),
        }
        lines = [f"{options.trials:,} trials of {TASKS} tasks, {path.stat().st_size / 1e6:.0f} MB"]
    for words, us in found["warm_us"].items():
        lines.append(f"warm choice, {words}: {us:.2f} us (goal {WARM_US:.0f}: {held(us, WARM_US)})")
    new = found["new_ms"]
    lines.append(
        f"best record, new connection: {new:.2f} ms (goal {NEW_MS:.0f}: {held(new, NEW_MS)})"
    )
    for how, ms in found["cold_ms"].items():
        lines.append(f"first choice, log opened for it, {how}: {ms:.1f} ms")
    for part, ms in found["fresh"].items():
        cpu = ms["cpu_median"]
        goal = f" (goal {FRESH_MS:.0f}: {held(cpu, FRESH_MS)})" if part == "config" else ""
        to = "that imports numpy alone" if part == "numpy" else f"to its {part}"
        lines.append(
            f"fresh process {to}: cpu {cpu:.0f} ms{goal}, least {ms['cpu_min']:.0f}, "
            f"wall {ms['wall_median']:.0f} ms"
        )
    harness.report("scale_apply", lines, {"trials": options.trials, **found})


def held(figure: float, goal: float) -> str:
    """The verdict on a goal."""
    return "holds" if figure <= goal else "missed"


if __name__ == "__main__":
    main()
