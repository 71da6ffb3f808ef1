"""Spaces derived from the computation against hand-written templates, 200 trials each, interleaved.

python benchmarks/search/derived.py [--save] [--trials 200] [--only NAME ...] [--logs FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import os
import re
import tempfile
from statistics import geometric_mean
from typing import Any

import numpy as np
from operators import TEMPLATES, Operator, check

import whet
from whet import te, topi

ONE_CORE = "llvm -num_threads=1"


def tasks(operator: Operator) -> dict[str, Any]:
    """The task with the template, and the one without."""
    assert operator.template
    name, args = operator.template
    *inputs, output = operator.tensors(te, topi)
    return {
        "template": whet.create_task(name, args=args, target=ONE_CORE),
        "derived": whet.create_task(outputs=[output], args=[*inputs, output], target=ONE_CORE),
    }


def compare(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Tune both, then time both kernels in turns on one core."""
    operator = TEMPLATES[name]
    inputs = operator.arrays()
    right = operator.expected(inputs)
    output = np.empty(right.shape, np.float32)
    contestants, row = {}, {}
    for kind, task in tasks(operator).items():
        log = options.logs / f"{re.sub('[^a-z0-9]+', '-', name)}.db"
        result = whet.tune(
            task, trials=options.trials, log=log, seed=options.seed, progress=False, transfer=False
        )
        kernel = whet.build(task, log=log)
        output[:] = np.nan
        kernel(*inputs, output)
        check(f"{name}, {kind}", output, right)
        contestants[kind] = lambda f=kernel: f(*inputs, output)
        row[kind] = {
            "configs": task.config_space.size,
            "config": str(result.best.config),
            "failed": sum(not t.result.ok for t in result.trials),
        }
    cores = os.sched_getaffinity(0)
    harness.pin()
    for kind, sample in harness.interleaved(contestants, options.rounds).items():
        row[kind] |= {"best": sample.best, "median": sample.median}
    os.sched_setaffinity(0, cores)
    return {"name": name, "flop": 2 * _multiplications(operator, right), **row}


def _multiplications(operator: Operator, right: np.ndarray) -> int:
    """Of one call: each element of the output sums as many products as its filter has."""
    _, weights = operator.shapes
    return right.size * (weights[0] if len(weights) == 2 else int(np.prod(weights[1:])))


def main() -> None:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(TEMPLATES), choices=TEMPLATES)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, help="a folder for the logs, to go on later")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    options.logs = options.logs or Path(tempfile.mkdtemp(prefix="whet-derived-"))
    options.logs.mkdir(exist_ok=True, parents=True)
    rows, lines = [], []
    for name in options.only:
        row = compare(name, options)
        rows.append(row)
        hand, ours = row["template"], row["derived"]
        rates = [row["flop"] / side["best"] / 1e9 for side in (hand, ours)]
        lines.append(
            f"{name:32s} template {rates[0]:5.1f} GFLOP/s, derived {rates[1]:5.1f}: "
            f"{hand['best'] / ours['best']:.3f} x, {hand['median'] / ours['median']:.3f} by "
            f"medians; {ours['failed']} failed, {ours['configs']:.2g} configs"
        )
        print(lines[-1], flush=True)
    data = {
        "geomean": geometric_mean(r["template"]["best"] / r["derived"]["best"] for r in rows),
        "geomean_median": geometric_mean(
            r["template"]["median"] / r["derived"]["median"] for r in rows
        ),
    }
    lines.append(
        f"derived is {data['geomean']:.3f} x as fast as the templates, geomean "
        f"({data['geomean_median']:.3f} by medians), {options.trials} trials each"
    )
    harness.report("search_derived", lines, {"rows": rows, **data})


if __name__ == "__main__":
    main()
