"""Milliseconds to lower and to build matmul candidates drawn at random from the space."""

from __future__ import annotations

import harness

import statistics
import time

import numpy as np

import whet
from whet.compiler import driver


def candidates(size: int, count: int = 40) -> dict[str, float]:
    """Median milliseconds of each step for ``count`` random candidates of a square matmul."""
    task = whet.create_task("matmul", args=(size, size, size), target="llvm")
    space, rng = task.config_space, np.random.default_rng(0)
    steps: dict[str, list[float]] = {"template": [], "lower": [], "build": [], "lower + build": []}
    with task.target:
        whet.build(*task.instantiate(space.default))  # loads LLVM
        for _ in range(count):
            config = space.sample(rng)
            t0 = time.perf_counter()
            schedule, args = task.instantiate(config)
            t1 = time.perf_counter()
            module = driver.lower(schedule, args)
            t2 = time.perf_counter()
            whet.runtime.Module.from_artifact(driver.compile_module(module, task.target))
            t3 = time.perf_counter()
            for name, span in zip(steps, (t1 - t0, t2 - t1, t3 - t2, t3 - t1)):
                steps[name].append(span * 1e3)
    return {name: statistics.median(values) for name, values in steps.items()}


def main() -> None:
    """Print the table."""
    harness.pin()
    data = {str(n): candidates(n) for n in (1024, 1001)}
    lines = [
        f"{n}^3: " + ", ".join(f"{k} {v:.1f} ms" for k, v in row.items()) for n, row in data.items()
    ]
    harness.report("compile_time", [*lines, "(medians of 40 random candidates)"], {"ms": data})


if __name__ == "__main__":
    main()
