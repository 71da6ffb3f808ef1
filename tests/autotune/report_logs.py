"""Logs for tests of reports: written trial by trial, with times and machines that never change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from autotune_synthetic import gemm_cost, gemm_template

from whet.autotune import Task, create_task
from whet.db import TuningLog
from whet.db.values.decision import FINALISTS_RUN
from whet.measure import MeasureResult
from whet.search_spaces import Config

MACHINE = {"fingerprint": "cpu-0123456789ab", "cpu": "Testing CPU"}
FINAL_ROUNDS = (0, 1, 2, -1, -2, 0, 1, 2)
BEGAN = 1_790_000_000.0


def gemm_task(n: int = 768) -> Task:
    """The synthetic matmul; other sizes are other tasks."""
    return create_task(gemm_template, args=(n, 1152, 512), target="llvm -mcpu=x86-64-v3")


def configs(task: Task, count: int, seed: int = 0) -> list[Config]:
    """The default config and random ones, each once."""
    rng = np.random.default_rng(seed)
    space = task.config_space
    points = space.sample_points(rng, 4 * count)
    found = dict.fromkeys([space.default, *map(space.decode, points)])
    return list(found)[:count]


def ok(cost: float, i: int = 0) -> MeasureResult:
    """A success of five repeats that spread by 1 %, ended half a second after the last one."""
    costs = tuple(cost * (1 + 0.005 * k) for k in range(5))
    timings = {"lower_s": 0.01, "build_s": 0.04, "run_s": 0.3, "total_s": 0.45}
    return MeasureResult("ok", costs, timings=timings, timestamp=BEGAN + 0.5 * (i + 1))


def failed(status: str, error: str, i: int = 0) -> MeasureResult:
    """A failure, ended half a second after the last trial."""
    return MeasureResult(
        status, error=error, stage="build", timings={"build_s": 0.1, "total_s": 0.1},
        timestamp=BEGAN + 0.5 * (i + 1),
    )  # fmt: skip


def gemm_result(config: Config, i: int) -> MeasureResult:
    """The cost of the synthetic matmul; the widest vectors fail."""
    if config.choice("vector") == 16:
        return failed("build_error", f"Traceback: ...\nno registers left: {40 + i} > 32", i)
    return ok(gemm_cost(config), i)


def write_search(
    path: object,
    task: Task,
    trials: Iterable[Config],
    result: Callable[[Config, int], MeasureResult] = gemm_result,
    device: object = MACHINE,
    finals: bool = True,
    features: Callable[[int], str] = lambda i: "",
) -> None:
    """A finished search in a log, with the last measurement of its best and its default."""
    with TuningLog(path) as log:  # type: ignore[arg-type]
        run = _start(log, task, device, "xgb")
        found = []
        for i, config in enumerate(trials):
            found.append((i, config, result(config, i)))
            log.add_trial(run, *found[-1], flop=task.flop, features=features(i))
        log.finish_run(run)
        worked = sorted((t for t in found if t[2].ok), key=lambda t: t[2].cost)
        if finals and worked:
            run = _start(log, task, device, FINALISTS_RUN)
            for number, config, measured in {t[0]: t for t in (found[0], *worked[:3])}.values():
                costs = tuple(measured.cost * (1 + k / 500) for k in FINAL_ROUNDS)
                when = BEGAN - 90 + 100 * run  # within the run, as settle() has it
                again = replace(measured, costs=costs if measured.ok else (), timestamp=when)
                log.add_trial(run, number, config, again, flop=task.flop)
            log.finish_run(run)
    settle(path)


def settle(path: object) -> None:
    """Give the runs of a log fixed times, so that two logs of the same trials are equal."""
    import sqlite3

    with sqlite3.connect(str(path)) as raw:
        raw.execute("UPDATE run SET started_at = ? + 100 * id", (BEGAN - 100,))
        raw.execute("UPDATE run SET finished_at = started_at + 50")
    raw.close()


def _start(log: TuningLog, task: Task, device: object, sampler: str) -> int:
    return log.start_run(
        task.workload, task.target, device, task.config_space.fingerprint, sampler, 7,
        {"repeat": 5, "search": {"peak": 100e9}}, {"whet": "0.1.0"},
    )  # fmt: skip
