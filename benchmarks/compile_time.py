"""Processor milliseconds to lower and to build: random candidates, the default, a large graph.

Each candidate is taken three times and its quickest time counts, since these machines are shared;
the figures are medians over candidates. ``lower + codegen`` is a candidate from the template to
LLVM's text; LLVM's own passes and machine code stand beside it. The report tells how long each pass
took. ``--target 'llvm -mcpu=x86-64-v4'`` compiles for another processor than this one.
"""

from __future__ import annotations

import harness

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import whet
from programs import Program, chain, graph
from whet.compiler import driver
from whet.compiler.codegen.llvm.kernel import module_text
from whet.compiler.jit.compile import compile_text
from whet.compiler.target.llvm_machine import machine_of

STEPS = ("template", "lower", "codegen", "lower + codegen", "LLVM", "all")
TIMES = 3
CANDIDATES = {
    "matmul 1024^3": ("matmul", (1024, 1024, 1024)),
    "matmul 1001^3": ("matmul", (1001, 1001, 1001)),
    "conv2d 64x56x56, 3x3": ("conv2d_nchw", (1, 64, 56, 56, 64, 3, 3, 1, 1)),
    "conv2d 56x56x64, 3x3": ("conv2d_nhwc", (1, 56, 56, 64, 64, 3, 3, 1, 1)),
    "softmax 1000x1001": ("softmax", ((1000, 1001),)),
    "layer_norm 1000x1001": ("layer_norm", ((1000, 1001),)),
}


def timed(make: Callable[[], Program], target: whet.Target) -> tuple[dict[str, float], dict]:
    """The quickest milliseconds of each step of one program, and of each pass."""
    best = dict.fromkeys(STEPS, float("inf"))
    passes: dict[str, float] = {}
    for _ in range(TIMES):
        t0 = time.process_time()
        schedule, args = make()
        t1 = time.process_time()
        module = driver.lower(schedule, args)
        t2 = time.process_time()
        text = module_text(module, target)
        t3 = time.process_time()
        compile_text(text, machine_of(target))
        t4 = time.process_time()
        for name, span in zip(STEPS, (t1 - t0, t2 - t1, t3 - t2, t3 - t0, t4 - t3, t4 - t0)):
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


def candidates(
    template: str, args: tuple, target: whet.Target, count: int
) -> dict[str, tuple[dict, dict]]:
    """Of a task's default, and medians over ``count`` random candidates."""
    task = whet.create_task(template, args=args, target=target)
    space, rng = task.config_space, np.random.default_rng(0)
    with task.target:
        compile_text(
            module_text(driver.lower(*task.instantiate(space.default)), target), machine_of(target)
        )  # loads LLVM
        rows = [
            timed(lambda config=config: task.instantiate(config), target)
            for config in (space.default, *(space.sample(rng) for _ in range(count)))
        ]
    steps, passes = zip(*rows[1:])
    return {"": (medians(steps), medians(passes)), ", default": rows[0]}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--candidates", type=int, default=40)
    options, _ = parser.parse_known_args()
    harness.pin()
    target = whet.Target(options.target).canonical()
    programs: dict[str, tuple[dict, dict]] = {}
    for name, (template, args) in CANDIDATES.items():
        for which, row in candidates(template, args, target, options.candidates).items():
            programs[name + which] = row
    with target:
        for n in (128, 131):
            programs[f"graph of 40 stages, {n}x{n}"] = timed(lambda n=n: graph(n), target)
        for stages in (320, 1280):
            programs[f"{stages} inlined stages"] = timed(lambda n=stages: chain(n), target)
    lines = [f"milliseconds for {target}, medians of random candidates"]
    data: dict[str, Any] = {}
    for name, (steps, passes) in programs.items():
        data[name] = {"steps": steps, "passes": passes}
        lines.append(f"{name}: " + ", ".join(f"{k} {v:.1f}" for k, v in steps.items()))
        slow = sorted(passes.items(), key=lambda p: -p[1])
        lines.append("    passes: " + ", ".join(f"{k} {v:.2f}" for k, v in slow if v >= 0.005))
    harness.report("compile_time", lines, {"ms": data})


if __name__ == "__main__":
    main()
