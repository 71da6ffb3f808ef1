"""The cost of the local pool: milliseconds a trial beside build and run, and how idle a device is.

    python benchmarks/scale/pool.py [--trials 300] [--save]

A real pool on this machine, without a search: candidates of one matmul, as many in flight as it
asks for. Overhead: one builder and one measurer that take turns, so that a trial takes its build,
its run, and the pool's own. Idle: the share of the time, from the first result to the last, in
which the only device measures nothing; what happens within a measurement (loading, checking) is
not idle. Once as this machine's builders keep up: where a run is shorter than a build they do
not, and kernels on all cores exclude builds. And once with builders enough: the same candidates
again, whose builds were kept. Both for kernels on all cores, and for kernels on one, the device's
own, beside which builds go on: the goal is of a device with cores of its own and builders enough.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness
import kept_builds

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import whet
from whet.measure import LocalPool, MeasureInput, MeasureOptions, MeasureResult
from whet.measure.stage import machine
from whet.search_spaces.values.counted import counted

OVERHEAD_MS, IDLE = 10.0, 0.05
FIRST = 10
"""Trials that do not count: workers start before them."""


def candidates(space: Any, task: Any) -> Iterator[MeasureInput]:
    """Configs in a random order, none of them twice."""
    seen: set[str] = set()
    rng = np.random.default_rng(0)
    for _ in itertools.count():
        for point in space.sample_points(rng, 64):
            config = space.decode(point)
            if config.key not in seen:
                seen.add(config.key)
                workload, target = task.workload, task.target.to_json()
                yield MeasureInput(workload, target, config, task.template.ref())


def results_of(pool: LocalPool, wanted: Iterator[MeasureInput], count: int, ahead: int) -> Any:
    """Each result, in the order of coming, with when it was asked for and when it came."""
    begun: dict[int, float] = {}
    found: list[tuple[float, float, MeasureResult]] = []
    while len(found) < count:
        while len(begun) - len(found) < ahead:
            candidate = next(wanted)
            now = time.perf_counter()
            begun[pool.submit(candidate)] = now
        for ticket, result in pool.collect(60):
            now = time.perf_counter()
            found.append((begun[ticket], now, result))
    return found


def within(result: MeasureResult) -> float:
    """Seconds of its build and its run, as the workers' supervisors measure them."""
    return sum(result.timings.get(part) or 0.0 for part in ("lower_s", "build_s", "run_s"))


def overhead(task: Any, trials: int) -> tuple[list[str], dict[str, Any]]:
    """One candidate at a time: all time that is neither build nor run."""
    wanted = candidates(task.config_space, task)
    with LocalPool(1, options=MeasureOptions()) as pool:
        cpu = time.process_time()
        found = results_of(pool, wanted, trials + FIRST, 1)[FIRST:]
        cpu = (time.process_time() - cpu) / (trials + FIRST) * 1e3
    beside = sorted(1e3 * (end - begin - within(one)) for begin, end, one in found if one.ok)
    mean, median = sum(beside) / len(beside), beside[len(beside) // 2]
    line = (
        f"overhead over build and run, one candidate at a time: {median:.1f} ms a trial in the "
        f"median, {mean:.1f} in the mean (goal: {OVERHEAD_MS:g}); {cpu:.2f} ms of "
        "processor time of this process"
    )
    return [line], {"median_ms": median, "mean_ms": mean, "cpu_ms": cpu}


def idle(task: Any, trials: int) -> tuple[list[str], dict[str, Any]]:
    """As many in flight as the pool asks for: the device's waits, as built here and as kept."""
    lines, data = [], {}
    on = counted(task.target.num_threads, "core")
    with tempfile.TemporaryDirectory() as folder:
        os.environ[kept_builds.FOLDER] = folder
        for name, words in (("built", "built here"), ("kept", "builders enough (builds kept)")):
            with LocalPool(options=MeasureOptions(), build_function="kept_builds:build") as pool:
                wanted = candidates(task.config_space, task)
                found = results_of(pool, wanted, trials + FIRST, pool.capacity)[FIRST:]
                builders = len(machine.builder_cores())
            data[name] = waits([one for _, _, one in found])
            beside = f" (goal: {IDLE:.0%})" if task.target.num_threads == 1 else ""
            if name == "built":
                built_ms = data[name]["build_ms"]
                beside = f", {counted(builders, 'builder')}, a build takes {built_ms:.1f} ms"
            lines.append(
                "idle, kernels on {}, {}: {share:.1%} of the time{}; a run {run_ms:.1f} ms; "
                "between two runs {median_ms:.1f} ms in the median, {most_ms:.0f} at most".format(
                    on, words, beside, **data[name]
                )
            )
    return lines, data


def waits(results: list[MeasureResult]) -> dict[str, float]:
    """The waits of a device between measurements, from the times at which they ended."""
    ran = sorted((one for one in results if "run_s" in one.timings), key=lambda one: one.timestamp)
    gaps = sorted(
        1e3 * (after.timestamp - after.timings["run_s"] - before.timestamp)
        for before, after in itertools.pairwise(ran)
    )
    run_s = sum(one.timings["run_s"] for one in ran[1:])
    build_s = sum(within(one) - one.timings["run_s"] for one in ran[1:])
    return {
        "share": 1 - run_s / (ran[-1].timestamp - ran[0].timestamp),
        "run_ms": run_s / len(gaps) * 1e3,
        "build_ms": build_s / len(gaps) * 1e3,
        "median_ms": gaps[len(gaps) // 2],
        "most_ms": gaps[-1],
    }


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    size = (512, 512, 512)
    task = whet.create_task("matmul", args=size, target="llvm")
    one = whet.create_task("matmul", args=size, target="llvm -num_threads=1")
    lines, data = [], {}
    for name, run, of in (
        ("overhead", overhead, task),
        ("idle", idle, task),
        ("idle_one_core", idle, one),
    ):
        said, data[name] = run(of, options.trials)
        lines += said
    harness.report("scale_pool", lines, data, threads=f"{os.cpu_count()} cores")


if __name__ == "__main__":
    main()
