"""The cost of searching beside building and measuring: time a trial, memory, the cost model.

    python benchmarks/search/overhead.py [--save] [--trials 500] [--replayed 20000]

Live: the share of the wall time in which no candidate is being built or measured, the start of the
workers included. Replayed: measuring is a function call, so what is left is the search; memory and
time a trial along the way. Model: features and predictions a candidate, a fit at 1,000 trials, on
one core.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import os
import tempfile
import time
from typing import Any

import numpy as np
from operators import TEMPLATES

import whet
from whet import te, topi
from whet.autotune.samplers.model.cost_model import CostModel, labels
from whet.autotune.features import LoopFeatures
from whet.measure import MeasureInput
from whet.measure.pool.replay import ReplayPool

WORKERS = ("build", "measure")


def live(trials: int) -> tuple[list[str], dict[str, Any]]:
    """A search with real workers."""
    task = whet.create_task("matmul", args=(512, 512, 512), target="llvm")
    log = tempfile.mkdtemp() + "/overhead.db"
    result = whet.tune(task, trials=trials, log=log, progress=False)
    seconds = dict(result.seconds)
    wall = seconds["wall"]
    share = seconds["idle"] / wall
    lines = [
        f"live: {len(result.trials)} trials of {task.workload} in {wall:.1f} s; "
        f"in {share:.1%} of it nothing is being built or measured"
    ]
    for part, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        if part != "wall":
            whose = "the workers'" if part in WORKERS else "of the wall time"
            lines.append(f"  {part:10s} {spent:7.2f} s, {spent / wall:6.1%} {whose}")
    return lines, {"trials": len(result.trials), "share": share, "seconds": seconds}


class WatchedPool(ReplayPool):
    """A replay pool over a made-up landscape that notes memory and time every so many trials."""

    def __init__(self, space: Any, every: int) -> None:
        self._space, self._every = space, every
        self._best = np.random.default_rng(1).integers(space.dims)
        self._scale = np.maximum(np.array(space.dims) - 1, 1)
        self.seen: list[tuple[int, float, float]] = []
        super().__init__(self._cost)

    def _cost(self, inp: MeasureInput) -> float:
        away = (np.array(self._space.encode(inp.config)) - self._best) / self._scale
        return 1e-4 * float(np.exp(3 * np.abs(away).sum() + 0.3 * np.sin(20 * away).sum()))

    def submit(self, inp: MeasureInput) -> int:
        """Answer, and look at the process now and then."""
        ticket = super().submit(inp)
        if ticket % self._every == 0:
            self.seen.append((ticket, resident(), time.perf_counter()))
        return ticket


def resident() -> float:
    """MiB of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def replayed(trials: int) -> tuple[list[str], dict[str, Any]]:
    """A long search without measuring."""
    *inputs, output = TEMPLATES["matmul 512x512x512"].tensors(te, topi)
    task = whet.create_task(outputs=[output], args=[*inputs, output], target="llvm")
    space = task.config_space
    if space.size < trials:
        raise SystemExit(f"{task.workload} has only {space.size} configs, not {trials}")
    pool = WatchedPool(space, max(1, trials // 20))
    with tempfile.TemporaryDirectory() as folder:
        whet.tune(task, trials=trials, log=f"{folder}/long.db", workers=pool, progress=False)
    lines = [f"replayed: {trials} trials of {task.workload}, {space.size:.2g} configs"]
    for (n0, _, t0), (n1, memory, t1) in zip(pool.seen, pool.seen[1:]):
        lines.append(
            f"  trial {n1:6d}: {memory:6.1f} MiB, {(t1 - t0) / (n1 - n0) * 1e3:.2f} ms each"
        )
    grown = pool.seen[-1][1] - pool.seen[1][1]
    lines.append(f"  from trial {pool.seen[1][0]} on {grown:+.1f} MiB")
    rows = [{"trial": n, "mib": m, "seconds": t - pool.seen[0][2]} for n, m, t in pool.seen]
    return lines, {"along": rows, "grown_mib": grown}


def model(rows: int = 1000, batch: int = 500) -> tuple[list[str], dict[str, Any]]:
    """Features and predictions a candidate; a fit at 1,000 trials."""
    harness.pin()
    lines, data = [], {}
    for name, args in (
        ("matmul", (1024, 1024, 1024)),
        ("conv2d_nchw", (1, 64, 56, 56, 64, 3, 3, 1, 1)),
    ):
        task = whet.create_task(name, args=args, target="llvm")
        space, rng = task.config_space, np.random.default_rng(0)
        loops = LoopFeatures(task)
        points = space.sample_points(rng, rows)
        table = np.concatenate([space.features_of_points(points), loops.of_points(points)], axis=1)
        scores = labels(np.exp(rng.standard_normal(rows)))
        begin = time.perf_counter()
        fitted = CostModel.fit(table, scores)
        fit = time.perf_counter() - begin
        spent = {"mutate": 0.0, "features": 0.0, "predict": 0.0}
        rounds = 10
        for _ in range(rounds):
            for part in spent:
                begin = time.perf_counter()
                if part == "mutate":
                    points = space.mutate_points(space.sample_points(rng, batch), rng)
                elif part == "features":
                    found = loops.of_points(points)
                    table = np.concatenate([space.features_of_points(points), found], axis=1)
                else:
                    fitted.predict(table)
                spent[part] += time.perf_counter() - begin
        each = {part: s / rounds / batch * 1e6 for part, s in spent.items()}
        data[name] = {"fit_ms": fit * 1e3, "microseconds": each, "columns": table.shape[1]}
        parts = ", ".join(f"{part} {us:.0f} us" for part, us in each.items())
        lines.append(
            f"model, {name}: a candidate {sum(each.values()):.0f} us ({parts}); a fit of {rows} "
            f"trials, {table.shape[1]} columns, {fit * 1e3:.0f} ms"
        )
    return lines, data


def main() -> None:
    """Measure all three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--replayed", type=int, default=20000)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    lines, data = [], {}
    for name, run in (
        ("live", lambda: live(options.trials)),
        ("replayed", lambda: replayed(options.replayed)),
        ("model", model),
    ):
        said, data[name] = run()
        print("\n".join(said), flush=True)
        lines += said
    harness.report("search_overhead", lines, data)


if __name__ == "__main__":
    main()
