"""Milliseconds to lower and to build: matmul and conv2d candidates drawn at random, a large graph.

Each candidate is taken three times and its quickest time counts, since these machines are shared;
the figures are medians over candidates. The report tells how long each pass took.
"""

from __future__ import annotations

import harness

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import whet
from programs import Program, chain, graph
from whet.compiler import driver
from whet.compiler.codegen.llvm.generate import generate

STEPS = ("template", "lower", "codegen", "lower + codegen", "load")
TIMES = 3


def timed(make: Callable[[], Program], target: whet.Target) -> tuple[dict[str, float], dict]:
    """The quickest milliseconds of each step of one program, and of each pass."""
    best = dict.fromkeys(STEPS, float("inf"))
    passes: dict[str, float] = {}
    for _ in range(TIMES):
        t0 = time.perf_counter()
        schedule, args = make()
        t1 = time.perf_counter()
        module = driver.lower(schedule, args)
        t2 = time.perf_counter()
        artifact = generate(module, target)
        t3 = time.perf_counter()
        whet.runtime.Module.from_artifact(artifact)
        t4 = time.perf_counter()
        for name, span in zip(STEPS, (t1 - t0, t2 - t1, t3 - t2, t3 - t1, t4 - t3)):
            best[name] = min(best[name], span * 1e3)
        timing = whet.instrument.PassTimingInstrument()
        schedule, args = make()
        with whet.transform.PassContext(instruments=[timing]):
            driver.lower(schedule, args)
        for name, seconds in timing.seconds().items():
            passes[name] = min(passes.get(name, float("inf")), seconds * 1e3)
    return best, passes


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """The median of each column."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: statistics.median(row.get(name, 0.0) for row in rows) for name in names}


def candidates(template: str, args: tuple, count: int = 40) -> tuple[dict, dict]:
    """Medians over ``count`` random candidates of a task."""
    task = whet.create_task(template, args=args, target="llvm")
    space, rng = task.config_space, np.random.default_rng(0)
    steps, passes = [], []
    with task.target:
        whet.build(*task.instantiate(space.default))  # loads LLVM
        for _ in range(count):
            config = space.sample(rng)
            step, each = timed(lambda config=config: task.instantiate(config), task.target)
            steps.append(step)
            passes.append(each)
    return medians(steps), medians(passes)


def main() -> None:
    """Print the tables."""
    harness.pin()
    target = whet.Target("llvm").canonical()
    programs: dict[str, tuple[dict, dict]] = {
        f"matmul {n}^3": candidates("matmul", (n, n, n)) for n in (1024, 1001)
    }
    programs["conv2d 64x56x56, 3x3"] = candidates(
        "conv2d_nchw", (1, 64, 56, 56, 64, 3, 3, 1, 1), 20
    )
    with target:
        for n in (128, 131):
            programs[f"graph of 40 stages, {n}x{n}"] = timed(lambda n=n: graph(n), target)
        for stages in (320, 1280):
            programs[f"{stages} inlined stages"] = timed(lambda n=stages: chain(n), target)
    lines = ["milliseconds, medians of random candidates"]
    data: dict[str, Any] = {}
    for name, (steps, passes) in programs.items():
        data[name] = {"steps": steps, "passes": passes}
        lines.append(f"{name}: " + ", ".join(f"{k} {v:.1f}" for k, v in steps.items()))
        slow = sorted(passes.items(), key=lambda p: -p[1])
        lines.append("    passes: " + ", ".join(f"{k} {v:.2f}" for k, v in slow if v >= 0.005))
    harness.report("compile_time", lines, {"ms": data})


if __name__ == "__main__":
    main()
