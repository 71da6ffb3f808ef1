"""Logs of very many trials, written as searches write them."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import random
import time
from collections.abc import Iterable, Iterator

from log_figures import Figure, Stopwatch

import whet
from whet.compiler.target.machine import host
from whet.db import TaskKey, TuningLog
from whet.db.values.records import TrialEntry
from whet.measure.values import MeasureResult
from whet.search_spaces import Workload, space_of
from whet.search_spaces.values import Config

TASKS = 100
"""Tasks beside the one of a real template."""
SHARE = 10
"""That one has a tenth of the trials."""
FAILING = 10
"""Every tenth trial fails."""
PROGRESS_S = 2.0
MACHINE = host.describe()
FEATURES = "1:184:" + "eJzNUTFOA0EM" * 40
"""As long as a trial's features are."""


@functools.cache
def SEARCHED() -> TaskKey:
    """The task of a real template, as a deployment asks for it."""
    workload = Workload("matmul", (1024, 1024, 1024))
    with whet.Target("llvm"):
        target = whet.Target.current().canonical()
        return TaskKey(workload, target.to_json(), MACHINE, space_of(workload).fingerprint)


def made_up(i: int) -> TaskKey:
    """A task of no template."""
    key = Workload("made_up", (16 * i, 64, 64, "float32"))
    return TaskKey(key, SEARCHED().target, MACHINE, f"{i:032x}")


def configs_of(task: TaskKey) -> Iterator[Config]:
    """Configs of a task, without end."""
    if task.workload.template == "matmul":
        with whet.Target("llvm"):
            space = space_of(task.workload)
        yield from itertools.cycle(space)
    for i in itertools.count():
        tile = (1 + i % 64, 1 + i // 64 % 64, 1 + i // 4096)
        choices = (("tile", tile), ("order", "panels"), ("block", i % 7), ("unroll", i % 5))
        yield Config((*choices, ("pack", i % 2 == 0)), task.fingerprint, ("split",) + ("knob",) * 4)


def result_of(number: int, draw: random.Random) -> MeasureResult:
    """A result as long as measurements give them."""
    timings = {"lower_s": draw.random(), "build_s": draw.random(), "run_s": draw.random()}
    more = {
        "program_hash": f"{draw.getrandbits(128):032x}",
        "timings": {**timings, "total_s": sum(timings.values())},
        "environment": {
            "cpu": MACHINE["cpu"],
            "cpus": 8,
            "host": "machine",
            "governor": "performance",
            "versions": {"python": "3.11.7", "whet": "0.1.0", "llvmlite": "0.50.0"},
            "load": draw.random(),
            "cores": [7],
            "number": number,
            "repeats": 5,
            "spread": draw.random(),
        },
        "timestamp": 1.7e9 + number,
    }
    if number % FAILING == FAILING - 1:
        return MeasureResult("run_crash", error="SIGSEGV: " + "x" * 150, stage="run", **more)
    return MeasureResult("ok", tuple(1e-3 * (1 + draw.random()) for _ in range(5)), **more)


def batches(log: TuningLog, task: TaskKey, count: int, size: int) -> Iterator[list[TrialEntry]]:
    """The trials of one finished search, with its last measurement, by the batch."""
    names = (task.workload, task.target, task.device, task.fingerprint)
    configs, draw = configs_of(task), random.Random(count)
    run = log.start_run(*names, "xgb", 0)
    for start in range(0, count, size):
        yield [
            TrialEntry(run, number, next(configs), result_of(number, draw), 1e9, FEATURES)
            for number in range(start, min(start + size, count))
        ]
    log.finish_run(run)
    finals = log.start_run(*names, "finalists")
    again, configs = random.Random(count), configs_of(task)
    yield [TrialEntry(finals, n, next(configs), result_of(n, again), 1e9) for n in range(6)]
    log.finish_run(finals)


def tasks_of(trials: int) -> list[tuple[TaskKey, int]]:
    """The tasks of a log, each with the number of its trials."""
    first = trials // SHARE
    each = max((trials - first) // TASKS, 1)
    return [(SEARCHED(), first), *((made_up(i), each) for i in range(TASKS))]


def write(
    log: TuningLog, tasks: Iterable[tuple[TaskKey, int]], size: int
) -> Iterator[tuple[int, float, float]]:
    """Write searches, one after the other; gives of each batch its trials, and its seconds by the
    clock and by the processor.
    """
    for task, trials in tasks:
        for batch in batches(log, task, trials, size):
            watch = Stopwatch()
            log.add_trials(batch)
            yield len(batch), *watch.read()


def fill(location: str, trials: int, size: int) -> Figure:
    """Write a whole log from one process; trials a second of each full batch."""
    rates, of_cpu, done, said = [], [], 0, time.perf_counter()
    tasks = tasks_of(trials)
    full = min(size, max(count for _, count in tasks))  # a short log has no batch of that size
    with TuningLog(location) as log:
        for count, spent, cpu in write(log, tasks, size):
            done += count
            if count == full:
                rates.append(count / spent)
                of_cpu.append(count / cpu)
            if time.perf_counter() - said > PROGRESS_S:
                said = time.perf_counter()
                line = f"writing {done:,} of {trials:,} trials, {count / spent:,.0f}/s"
                print(f"\r  {line}  ", end="", flush=True)
    print(flush=True)
    return Figure(f"rows written in batches of {full:,}, SQLite", "1/s", rates, of_cpu)


def _work(location: str, share: list[tuple[TaskKey, int]], size: int, begin: object) -> None:
    with TuningLog(location) as log:
        begin.wait()
        for _ in write(log, share, size):
            pass


def write_with_processes(location: str, trials: int, size: int, writers: int) -> float:
    """Write a log from several processes at once; return their trials a second together.

    The seconds in which they make up their trials are in it.
    """
    every = tasks_of(trials)
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(writers + 1)
    with TuningLog(location) as log:
        if len(log):
            raise SystemExit(f"{log.location} is not empty: give a database of its own")
        processes = [
            context.Process(target=_work, args=(location, every[i::writers], size, begin))
            for i in range(writers)
        ]
        for process in processes:
            process.start()
        begin.wait()
        start = time.perf_counter()
        while any(process.is_alive() for process in processes):
            processes[0].join(PROGRESS_S)
            next((p for p in processes if p.is_alive()), processes[0]).join(PROGRESS_S)
            if any(p.exitcode for p in processes):
                raise SystemExit("a writer failed")
            done = sum(task.trials for task in log.summary())
            spent = time.perf_counter() - start
            print(f"\r  {done:,} of {trials:,} trials, {done / spent:,.0f}/s", end="", flush=True)
        print(flush=True)
        return len(log) / (time.perf_counter() - start)
