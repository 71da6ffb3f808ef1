"""The tuning log at scale: rows written, the best record, openings and totals of a long log.

    python benchmarks/scale/log.py [--trials 1000000] [--postgresql URL] [--upgrade] [--save]

A log is written by batches, as searches write it: one process on SQLite, eight on a PostgreSQL
server (an empty database of its own). A tenth of its trials is one search's, of a real template;
the others are a hundred tasks'. Then every figure is measured on that log, each with a connection
or a process of its own. `--upgrade` makes the log once more, as the version before wrote it, and
times its upgrade. ``--keep FOLDER`` keeps the file and uses it again.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from log_figures import GOALS, Figure, show, timed
from log_makers import SEARCHED, fill, write_with_processes
from log_upgrade import time_upgrade

import whet
from whet.db import device_key

REPEATS = 21
WRITERS = 8
BATCH = 1000
LEAST = 100
"""Trials: a tenth of them is one search's, which has some that succeed."""

FRESH = {
    "record": """
import whet
from whet.search_spaces.values import Workload
log = whet.TuningLog({location!r}, write=False)
best = log.best(Workload({template!r}, {args!r}), {target!r}, {device!r}, {fingerprint!r})
assert best is not None
""",
    "config": """
import whet
from whet.search_spaces.values import Workload
with whet.apply_best({location!r}) as applied, whet.Target("llvm"):
    assert applied.resolve(Workload({template!r}, {args!r})) is not None
""",
}
"""Programs of a process that begins: the best record of a task, and its config under apply_best."""


def fresh(name: str, code: str) -> Figure:
    """The durations of processes that run a program, the interpreter's own start included."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def run() -> None:
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)

    run()  # the first compiles the modules
    return timed(name, run, REPEATS, children=True)


def reads(location: str, name: str, say: Callable[[Figure], None]) -> None:
    """Measure what is read from a long log."""
    task, goal = SEARCHED(), f"of {name}"
    names = (task.workload, task.target, task.device, task.fingerprint)

    def best() -> None:
        with whet.TuningLog(location, write=False) as log:
            assert log.best(*names)

    def slow_best() -> None:
        with whet.TuningLog(location) as log:
            assert log.best(*names)

    def opening() -> None:
        whet.TuningLog(location, write=False).close()

    say(timed(f"best record, new connection, {goal}", best, REPEATS))
    say(timed(f"best record, new connection of a log that is written, {goal}", slow_best, REPEATS))
    say(timed(f"opening, {goal}", opening, REPEATS))
    other = whet.Target("llvm -num-threads=7").canonical()
    with whet.TuningLog(location) as log:
        questions: list[tuple[str, Callable[[], Any], int]] = [
            ("best record, same connection", lambda: log.best(*names), REPEATS),
            ("best record of any space, same connection", lambda: log.best(*names[:3]), REPEATS),
            ("totals of all tasks with their best (summary)", log.summary, 5),
            ("totals of all tasks (tasks)", log.tasks, 5),
            ("counters of one task", lambda: log.counts(task), REPEATS),
            ("the first 5,000 points of a task", lambda: log.news(task), 5),
            ("why a workload has no record", lambda: explained(log, task, other), 5),
        ]
        for question, ask, repeats in questions:
            say(timed(f"{question}, {goal}", ask, repeats))
    facts = {
        "location": location,
        "template": task.workload.template,
        "args": task.workload.args,
        "target": task.target,
        "device": device_key(task.device),
        "fingerprint": task.fingerprint,
    }
    for kind, code in FRESH.items():
        say(fresh(f"fresh process to the best {kind}, {goal}", code.format(**facts)))


def explained(log: Any, task: Any, target: Any) -> None:
    """Ask why a log has nothing for a target."""
    from whet.db.missing import explain

    assert explain(log, task.workload, target, task.fingerprint, task.device, "tune it")


@contextmanager
def folder(kept: str | None) -> Iterator[Path]:
    """Where the log's file stands."""
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    with tempfile.TemporaryDirectory(prefix="whet_scale_") as made:
        yield Path(made)


def main() -> None:
    """Make the logs, measure, and show or keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1_000_000, help=f"at least {LEAST}")
    parser.add_argument("--postgresql", default="", help="URL of an empty database")
    parser.add_argument("--upgrade", action="store_true")
    parser.add_argument("--keep", help="folder of the file, which is used again if it is there")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.trials < LEAST:
        parser.error(f"--trials {options.trials}: a log of this benchmark has at least {LEAST}")
    figures: list[Figure] = []

    def say(figure: Figure) -> None:
        print(f"  {show(figure)}", flush=True)
        figures.append(figure)

    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", flush=True)
    sizes: dict[str, Any] = {"trials": options.trials, "load_before": os.getloadavg()[0]}
    with folder(options.keep) as where:
        path = where / f"log_{options.trials}.db"
        if not path.exists():
            say(fill(str(path), options.trials, BATCH))
        sizes["sqlite_bytes"] = path.stat().st_size
        reads(str(path), "SQLite", say)
        if options.upgrade:
            for figure in time_upgrade(path, where / "old.db"):
                say(figure)
    if options.postgresql:
        rate = write_with_processes(options.postgresql, options.trials, BATCH, WRITERS)
        say(Figure(f"rows written by {WRITERS} processes, PostgreSQL", "1/s", [rate]))
        reads(options.postgresql, "PostgreSQL", say)
    data = {
        **sizes,
        "goals": GOALS,
        "figures": {figure.name: figure.to_json() for figure in figures},
        "load_after": os.getloadavg()[0],
    }
    head = f"{options.trials:,} trials; medians, then the extremes; goal where there is one"
    harness.report("scale_log", [head, *map(show, figures)], data, "all threads")


if __name__ == "__main__":
    main()
