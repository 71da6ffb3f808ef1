"""The GPU estimate of loops alone beside that of lowered kernels: ranks, and time a point.

    python benchmarks/search/gpu_estimates.py [--points 64] [--arch sm_80]

Both end in the same formulas (`measure/gpu/cost/model.py`). Features count a batch's work from its
loops, without lowering; the static model walks lowered kernels with sampled warps. No GPU is
needed. Times are those of the process. The first batch of features traces most of the template's
structures; the next one, of 1024 points, is what a round of a search costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import whet
from whet.autotune.features import NAMES, LoopFeatures
from whet.autotune.samplers.model.cost_model import spearman
from whet.autotune import Task
from whet.compiler import driver
from whet.compiler.passes import run_build_passes
from whet.measure.device.specs import spec_of
from whet.measure.gpu.cost.counts import work_of
from whet.measure.gpu.cost.model import predict

TASKS = (
    ("matmul", (1024, 1024, 1024)),
    ("conv2d_nchw", (8, 64, 28, 28, 64, 3, 3, 1, 1)),
    ("softmax", ((4096, 1000),)),
    ("sum", ((4096, 4096), (1,))),
    ("transpose", ((2048, 2048),)),
)
NEXT = 1024
ESTIMATE = NAMES.index("estimate")


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the seconds of this process that it took."""
    begin = time.process_time()
    result = run()
    return result, time.process_time() - begin


def lowered(task: Task, point: np.ndarray) -> float:
    """The log2 seconds that the static model says of a point's lowered kernels."""
    with task.target:
        schedule, args = task.instantiate(task.config_space.decode(point))
        module = run_build_passes(driver.lower(schedule, args), task.target)
    spec = spec_of(task.target)
    kernels = [
        f for f in module.functions.values() if f.attrs.get("calling_conv") == "kernel_launch"
    ]
    return float(np.log2(sum(float(predict(spec, work_of(f, spec)).seconds) for f in kernels)))


def compared(name: str, args: tuple[Any, ...], points: int, arch: str) -> str:
    """A line for a task: both estimates of random points."""
    task = whet.create_task(name, args=args, target=f"cuda -arch={arch}")
    space, rng = task.config_space, np.random.default_rng(0)
    drawn = rng.permutation(np.unique(space.sample_points(rng, 4 * points), axis=0))[:points]
    loops, more = LoopFeatures(task), space.sample_points(rng, NEXT)
    rows, first = timed(lambda: loops.of_points(drawn))
    _, then = timed(lambda: loops.of_points(more))
    seconds, slow = timed(lambda: np.array([lowered(task, point) for point in drawn]))
    fits = np.isfinite(seconds)  # the others cannot be launched
    ours, model = rows[fits, ESTIMATE].astype(float), seconds[fits]
    spread, choice = 2 ** np.ptp(model), 2 ** (model[np.argmin(ours)] - model.min())
    each = [1e3 * s / n for s, n in ((first, len(drawn)), (then, NEXT), (slow, len(drawn)))]
    return (
        f"{name:12} {len(model):5} {spearman(ours, model):9.2f} {spread:8.1f} {choice:8.2f}"
        f" {each[0]:10.1f} {each[1]:9.2f} {each[2]:9.0f}"
    )


def main() -> None:
    """Compare both for each task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--arch", default="sm_80")
    options = parser.parse_args()
    print(
        "spread: slowest / fastest lowered; choice: lowered cost of the features' first / the best"
    )
    print("task        points  Spearman   spread   choice   first, ms  next, ms  lowered, ms")
    for name, args in TASKS:
        print(compared(name, args, options.points, options.arch), flush=True)


if __name__ == "__main__":
    main()
