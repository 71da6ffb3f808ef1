"""The drivers that are killed: one process imports Whet once and forks a driver for each order.

An order is a line of JSON on its standard input. It answers with the driver's number, and, when the
driver has ended, with its wait status. A driver is a process like any other from then on: the pool
is the real one, and it ends as Python ends.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any

import whet
from whet import te
from whet.measure.pool.engine import StagedPool

OPTIONS = whet.MeasureOptions(min_repeat_ms=0.1, max_measure_s=0.01)


@whet.template("kills/scale")
def scale(n: int) -> tuple[Any, list[Any]]:
    """Cheap to build and to run; a few hundred configs."""
    cfg = whet.get_config()
    a = te.placeholder((n,), "float32", name="a")
    b = te.compute((n,), lambda i: a[i] * 2 + 1, name="b")
    s = te.create_schedule(b.op)
    cfg.define_split("tile", b.op.axis[0], num_outputs=3)
    cfg.define_knob("unroll", [False, True])
    _, middle, _ = cfg["tile"].apply(s, b, b.op.axis[0])
    if cfg["unroll"].val:
        s[b].unroll(middle)
    return s, [a, b]


def task_of(number: int) -> whet.Task:
    """The task with a number: each has another size, of many divisors."""
    return whet.create_task(scale, (960 + 240 * number,), target="llvm")


class Notes:
    """The acts of a driver, a line each, in one file that only grows.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    def add(self, *words: Any) -> None:
        """One line; whoever is killed has written all of it or none."""
        os.write(self._file, json.dumps(words).encode() + b"\n")


def drive(order: dict[str, Any]) -> int:
    """Search as an order says; the exit code."""
    notes = Notes(order["notes"])
    submit, remeasure = StagedPool.submit, StagedPool.remeasure

    def noted(pool: StagedPool, inp: Any) -> int:
        notes.add("submitted", list(inp.workload.args), inp.config.key)
        return submit(pool, inp)

    def acknowledged(task: whet.Task, trial: Any) -> None:
        costs = list(trial.result.costs)
        notes.add("acknowledged", list(task.workload.args), trial.config.key, costs)

    def noted_finals(pool: StagedPool, inputs: list[Any], rounds: Any) -> Any:
        notes.add("finals", len(inputs))
        return remeasure(pool, inputs, rounds)

    StagedPool.submit = noted  # type: ignore[method-assign]
    StagedPool.remeasure = noted_finals  # type: ignore[method-assign]
    notes.add("began", os.getpid())
    try:
        found = whet.tune(
            task_of(order["task"]),
            order["trials"],
            order["location"],
            "random",
            progress=False,
            options=OPTIONS,
            seed=order["task"],
            callbacks=[acknowledged],
        )
    except KeyboardInterrupt:
        return 130
    notes.add("finished", len(found.trials))
    return 0


def become_driver(order: dict[str, Any]) -> None:
    """Cut this process off from the one that takes orders."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(old, new)


def main() -> None:
    """Fork a driver for each line until there is none."""
    from whet.db import TuningLog

    for location in sys.argv[1:]:  # imports all that a driver needs, the database's driver too
        with TuningLog(location) as log:
            task = task_of(0)
            log.best(task.workload, task.target)
    for name in ("whet.autotune.session", "whet.measure.pool.local"):
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot fork drivers"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        driver = os.fork()
        if not driver:
            become_driver(order)
            sys.exit(drive(order))
        print(driver, flush=True)
        _, status = os.waitpid(driver, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    from kills_driver import main as run  # so that workers import its template by its name

    run()
