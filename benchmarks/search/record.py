"""Record spaces: measure every config of what `recordings.EVERY` names and keep its cost.

    python benchmarks/search/record.py [NAME ...] [--again]

A recording is one JSON file: the machine, the knobs with their choices, and for each index of the
space seconds per call, or the failure's status. `--again` measures the fastest tenth, a sample of
the rest and what a lost worker left out once more, and keeps the smaller figure: noise only ever
slows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness
import numpy as np
from recordings import EVERY, RECORDED, SPACES

import whet
from whet.measure import MeasureInput, MeasureOptions, open_pool

OPTIONS = MeasureOptions(
    min_repeat_ms=2.0, repeat=8, min_repeats=4, max_measure_s=0.03, spread=0.02, run_timeout=5.0
)


def main() -> None:
    """Record what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(SPACES), help=", ".join(EVERY))
    parser.add_argument("--again", action="store_true", help="measure the best once more")
    options = parser.parse_args()
    for name in options.names:
        record(name, options.again)


def record(name: str, again: bool) -> None:
    """Measure one space, or the interesting part of it again, and write its file."""
    template, args = EVERY[name]
    task = whet.create_task(template, args=args, target="llvm")
    space, path = task.config_space, RECORDED / f"{name}.json"
    size = space.size
    costs: list[Any] = [None] * size
    wanted = range(size)
    if again:
        costs = json.loads(path.read_text())["costs"]
        known = np.array([c if isinstance(c, float) else np.inf for c in costs])
        rng = np.random.default_rng(0)
        lost = [i for i, cost in enumerate(costs) if cost == "infra_error"]
        best = np.argsort(known)[: size // 10].tolist()
        wanted = sorted({*best, *rng.integers(size, size=100).tolist(), *lost})
    ref = task.template.ref()
    target = task.target.to_json()

    def make(index: Any) -> MeasureInput:
        return MeasureInput(task.workload, target, space.at(int(index)), ref)

    begin = said = time.monotonic()
    done = 0
    with open_pool(options=OPTIONS, reference=make(space.index(space.default))) as pool:
        queue, flying = iter(wanted), {}
        while True:
            while len(flying) < pool.capacity and (i := next(queue, None)) is not None:
                flying[pool.submit(make(i))] = int(i)
            if not flying:
                break
            for ticket, result in pool.collect(1.0):
                i = flying.pop(ticket)
                # the quickest repeat: a recording is of the kernel, not of the machine's noise
                cost = float(f"{result.min_cost:.4g}") if result.ok else result.status
                old = costs[i]
                if isinstance(old, float):
                    cost = min(cost, old) if result.ok else old
                costs[i] = cost
                done += 1
            if time.monotonic() - said > 10:
                said = time.monotonic()
                rate = done / (said - begin)
                print(f"{name}: {done}/{len(wanted)}, {rate:.0f} a second", flush=True)
    knobs = {k.name: list(k.choices) for k in space.knobs.values()}
    facts = {
        "template": template, "args": args, "machine": harness.machine(),
        "seconds": round(time.monotonic() - begin), "knobs": knobs, "costs": costs,
    }  # fmt: skip
    path.write_text(json.dumps(facts, separators=(",", ":")) + "\n")
    ok = np.array([c for c in costs if isinstance(c, float)])
    near = np.count_nonzero(ok <= 1.05 * ok.min())
    failed = size - len(ok)
    print(
        f"{name}: {size} configs, {failed} failed, best {ok.min() * 1e6:.1f} us, spread "
        f"{ok.max() / ok.min():.0f}x, 1 in {size / near:.0f} within 5 %",
        flush=True,
    )


if __name__ == "__main__":
    main()
