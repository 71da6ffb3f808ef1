"""Long batches with shared candidates beside short ones with candidates of each model's own.

    python benchmarks/scale/batches.py [--save] [--seeds 6] [--trials 384] [--space NAME ...]

`xgb` plans up to 64 proposals at a time from trial 128 on. Here each search is cut at that trial
and goes on twice from the same history: as it is now, and with batches of 8 and 16 and an evolution
for each model. The two take turns. Compared is the area under log(best so far) from the cut on, in
trials: exp of its mean over the trials is how much slower the best config was meanwhile. The
interval is of 2,000 draws with replacement of (space, seed) pairs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "search")]

import harness

import argparse
import math
from typing import Any

import numpy as np
from proposals import WINDOW, Landscape, task_of
from recordings import SPACES, read, recorded

from whet.autotune.features import WatchedFeatures
from whet.autotune.samplers import make_sampler, xgb
from whet.autotune.samplers.contract import planned
from whet.autotune.search.study import Search
from whet.measure.values import MeasureResult

DERIVED = "derived"
"""The name of a space of 679,504 configs whose costs are a formula."""
NEVER = 1 << 62
SHARED = xgb.SHARED


class Costs:
    """The costs of the configs of a space.

    Args:
        name: of a recording, or :data:`DERIVED`.
    """

    def __init__(self, name: str) -> None:
        if name == DERIVED:
            self.task = task_of()
            self._landscape: Landscape | None = Landscape(self.task.config_space)
        else:
            recording = read(name)
            self.task, self._landscape = recording.task, None
            self._seconds = recording.seconds
        self.space = self.task.config_space
        self.features = WatchedFeatures(self.task)

    def of(self, config: Any) -> float:
        """Seconds; infinity for a failure."""
        if self._landscape is None:
            return float(self._seconds[self.space.index(config)])
        return float(self._landscape.costs(np.array([self.space.encode(config)]))[0])


def result(cost: float) -> MeasureResult:
    """A measurement's result."""
    if math.isinf(cost):
        return MeasureResult("run_error", error="it failed when it was recorded", stage="run")
    return MeasureResult("ok", (cost,) * 3)


def searched(costs: Costs, seed: int, trials: int, shared: bool, before: list[Any]) -> list[Any]:
    """The configs of a search; the first ones as given."""
    xgb.SHARED = SHARED if shared else NEVER
    sampler = make_sampler("xgb", costs.space, seed, costs.features)
    sampler.batches = xgb.BATCHES if shared else planned.BATCHES  # type: ignore[attr-defined]
    search, configs = Search(costs.space, sampler), []
    for number in range(trials):
        if number >= WINDOW:
            search.tell(result(costs.of(configs[number - WINDOW])))
        if number < len(before) or number == 0:
            configs.append(before[number] if before else costs.space.default)
            search.place(configs[-1])
        else:
            configs.append(search.ask())
    return configs


def compared(name: str, seeds: int, trials: int) -> list[dict[str, Any]]:
    """Both ways from the same beginnings, in turns."""
    costs, rows = Costs(name), []
    for seed in range(seeds):
        before = searched(costs, seed, SHARED, True, [])
        row: dict[str, Any] = {"space": name, "seed": seed}
        ways = (True, False) if seed % 2 else (False, True)
        for shared in ways:
            configs = searched(costs, seed, trials, shared, before)
            best = np.minimum.accumulate([costs.of(config) for config in configs])
            way = "shared" if shared else "apart"
            row[way] = {"area": float(np.log(best[SHARED:]).sum()), "best": float(best[-1])}
        rows.append(row | {"at_cut": float(best[SHARED - 1])})
        print(f"{name}, seed {seed}: {row}", file=sys.stderr, flush=True)
    return rows


def interval(logs: np.ndarray) -> tuple[float, float, float]:
    """The geometric mean of ratios whose logarithms are given, and its 95 % interval."""
    rng = np.random.default_rng(0)
    means = logs[rng.integers(len(logs), size=(2000, len(logs)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return math.exp(logs.mean()), math.exp(low), math.exp(high)


def main() -> None:
    """Compare on what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [name for name in recorded() if name in SPACES] + [DERIVED]
    parser.add_argument("--space", nargs="+", default=every, choices=every, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--trials", type=int, default=384)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    harness.pin()
    rows = [row for n in options.space for row in compared(n, options.seeds, options.trials)]
    count = options.trials - SHARED
    areas = np.array([(r["shared"]["area"] - r["apart"]["area"]) / count for r in rows])
    bests = np.log([r["shared"]["best"] / r["apart"]["best"] for r in rows])
    lines, data = [], {"searches": rows}
    for what, logs in (("best so far, mean from the cut on", areas), ("best in the end", bests)):
        mean, low, high = interval(logs)
        data[what] = [mean, low, high]
        lines.append(f"{what}, shared / apart: {mean:.4f} ({low:.4f} to {high:.4f}; 1: alike)")
    differ = sum(abs(r["shared"]["area"] - r["apart"]["area"]) > 1e-9 for r in rows)
    lines.append(f"{len(rows)} searches to trial {options.trials}; the two differ in {differ}")
    harness.report("scale_batches", lines, data)


if __name__ == "__main__":
    main()
