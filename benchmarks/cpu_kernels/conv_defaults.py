"""How far the defaults of convolutions are from the best of some drawn configs.

    python benchmarks/cpu_kernels/conv_defaults.py [--save] [--draws 24] [--seed 0] [--only 3x3]
        [--target "llvm -mcpu=x86-64-v3"] [--threads 1]

Of each convolution the default and the drawn configs take turns; minima count. With ``--threads 2``
each default is timed on one thread as well. The works marked ``*`` took no part in the fit of the
estimate's constants.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import harness

import argparse
import math
from functools import partial
from typing import Any

import numpy as np

import whet
from whet.bench.arguments import arrays_of
from whet.bench.turns import HostClock
from whet.search_spaces.template import instantiate

FIRST, LAST = "conv2d_nchw", "conv2d_nhwc"
WORKS: dict[str, tuple[str, tuple]] = {
    "3x3/2 48-80 28": (FIRST, (1, 48, 28, 28, 80, 3, 3, 2, 1)),
    "3x3/2 64-128 56": (FIRST, (1, 64, 56, 56, 128, 3, 3, 2, 1)),
    "1x7 64-96 17": (FIRST, (1, 64, 17, 17, 96, 1, 7, 1, (0, 3))),
    "1x1 256-1024 14": (FIRST, (1, 256, 14, 14, 1024, 1, 1)),
    "1x1 160-320 7": (FIRST, (1, 160, 7, 7, 320, 1, 1)),
    "1x1/2 128-256 28": (FIRST, (1, 128, 28, 28, 256, 1, 1, 2)),
    "7x7/2 3-32 112": (FIRST, (1, 3, 112, 112, 32, 7, 7, 2, 3)),
    "5x5 24-40 33x47": (FIRST, (1, 24, 33, 47, 40, 5, 5, 1, 2)),
    "3x3 64-64 28": (FIRST, (1, 64, 28, 28, 64, 3, 3, 1, 1)),
    "3x3 256-256 7": (FIRST, (1, 256, 7, 7, 256, 3, 3, 1, 1)),
    "3x3 8-8 64": (FIRST, (1, 8, 64, 64, 8, 3, 3, 1, 1)),
    "3x3 dilated 32-64 28": (FIRST, (1, 32, 28, 28, 64, 3, 3, 1, 2, 2)),
    "3x3 4 groups 64-64 28": (FIRST, (1, 64, 28, 28, 64, 3, 3, 1, 1, 1, 4)),
    "3x3x3 16-32 8x28": ("conv3d_ncdhw", (1, 16, 8, 28, 28, 32, 3, 3, 3, 1, 1)),
    "9 64-64 1000": ("conv1d_ncw", (1, 64, 1000, 64, 9, 1, 4)),
    "last 3x3/2 64-128 56": (LAST, (1, 64, 56, 56, 128, 3, 3, 2, 1)),
    "last 1x1 256-512 14": (LAST, (1, 256, 14, 14, 512, 1, 1)),
    "last 3x3 128-128 14": (LAST, (1, 128, 14, 14, 128, 3, 3, 1, 1)),
    "last 7x7/2 3-32 112": (LAST, (1, 3, 112, 112, 32, 7, 7, 2, 3)),
    "* 3x3/2 40-96 40": (FIRST, (1, 40, 40, 40, 96, 3, 3, 2, 1)),
    "* 1x1 96-160 20": (FIRST, (1, 96, 20, 20, 160, 1, 1)),
    "* 3x3 96-96 17": (FIRST, (1, 96, 17, 17, 96, 3, 3, 1, 1)),
    "* 7x1 80-80 17": (FIRST, (1, 80, 17, 17, 80, 7, 1, 1, (3, 0))),
    "* 3x3 3 groups 96-96 14": (FIRST, (1, 96, 14, 14, 96, 3, 3, 1, 1, 1, 3)),
    "* 3x3 float64 32-64 20": (FIRST, (1, 32, 20, 20, 64, 3, 3, 1, 1, 1, 1, "float64")),
    "* last 5x5 48-56 23x31": (LAST, (1, 48, 23, 31, 56, 5, 5, 1, 2)),
    "* last 1x1 96-160 20": (LAST, (1, 96, 20, 20, 160, 1, 1)),
}
ROUNDS = 9


def runs_of(task: whet.Task, configs: dict[str, Any]) -> dict[str, Any]:
    """The kernel of each config, bound to arrays."""
    arrays = arrays_of(task).inputs
    found = {}
    for name, config in configs.items():
        with task.target:
            schedule, args = instantiate(task.workload, config)
        f = whet.build(schedule, args, task.target)
        out = np.empty([int(d) for d in args[-1].shape], args[-1].dtype)
        found[name] = partial(f, *arrays, out)
    return found


def row_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The times of one work."""
    operator, args = WORKS[name]
    target = f"{options.target} -num_threads={options.threads}"
    task = whet.create_task(operator, args=args, target=target)
    space = task.config_space
    points = space.valid_points.sample(np.random.default_rng(options.seed), options.draws)
    configs = {"default": space.default}
    configs |= {f"drawn {k}": space.decode(p) for k, p in enumerate(points)}
    runs = runs_of(task, configs)
    if options.threads > 1:
        alone = whet.create_task(operator, args=args, target=f"{options.target} -num_threads=1")
        runs |= runs_of(alone, {"one thread": alone.config_space.default})
    samples = harness.interleaved(runs, ROUNDS, HostClock(0.003))
    best = min(samples, key=lambda one: (one == "one thread", samples[one].best))
    return {
        "default": samples["default"].best,
        "best": samples[best].best,
        "one thread": samples["one thread"].best if "one thread" in samples else None,
        "config": str(configs[best]),
        "gflops": task.flop / samples["default"].best / 1e9,
    }


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--only", default="")
    options, _ = parser.parse_known_args()
    if options.threads == 1:
        harness.pin()
    rows, lines = {}, []
    for name in (n for n in WORKS if options.only in n):
        row = rows[name] = row_of(name, options)
        line = f"{name:26s} {row['default'] * 1e6:9.1f} us, {row['gflops']:6.1f} GFLOP/s, "
        line += f"{row['default'] / row['best']:.2f} of the best"
        if row["one thread"]:
            line += f", {row['one thread'] / row['default']:.2f} x one thread"
        lines.append(line)
        print(line, file=sys.stderr, flush=True)
    lines.append(f"mean {mean([r['default'] / r['best'] for r in rows.values()]):.3f} of the best")
    if options.threads > 1:
        gains = [r["one thread"] / r["default"] for r in rows.values()]
        lines.append(f"mean {mean(gains):.3f} x one thread, least {min(gains):.2f}")
    harness.report("conv_defaults", lines, {"rows": rows}, f"{options.threads} threads")


if __name__ == "__main__":
    main()
