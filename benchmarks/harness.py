"""What every benchmark stands on: one pinned core, peers interleaved in one run, the machine named.

Set up before numpy is imported: importing this module limits the peers' threads to one.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import json
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Sample:
    """Seconds per call of one contestant, a number for each round."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The quickest round."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median round."""
        return statistics.median(self.seconds)


def pin() -> int:
    """Keep this process on its last allowed core; returns that core."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def interleaved(
    contestants: dict[str, Callable[[], Any]], rounds: int = 25, seconds: float = 0.02
) -> dict[str, Sample]:
    """Time all contestants in turn, round after round, so that noise meets all of them alike.

    Args:
        contestants: name -> a function that does the work once.
        rounds: how often each is timed.
        seconds: the least time of one sample; quick work is repeated within it.
    """
    number = {}
    for name, run in contestants.items():
        run()
        start = time.perf_counter()
        run()
        number[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-9)))
    found: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for k in range(rounds):
        for name in order[k % len(order) :] + order[: k % len(order)]:
            run, n = contestants[name], number[name]
            start = time.perf_counter()
            for _ in range(n):
                run()
            found[name].append((time.perf_counter() - start) / n)
    return {name: Sample(tuple(values)) for name, values in found.items()}


def machine() -> dict[str, Any]:
    """The machine and the versions, for the head of a result."""
    from importlib.metadata import PackageNotFoundError, version

    from whet.compiler.target import Target, host

    facts = host.describe()
    versions = {"python": platform.python_version()}
    for package in ("whet", "numpy", "llvmlite", "torch"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "cpu": host.cpu_model(),
        "vector_bytes": Target("llvm").vector_bytes,
        "caches": facts.get("caches"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "versions": versions,
        "date": date.today().isoformat(),
    }


def report(name: str, lines: list[str], data: dict[str, Any], threads: str = "one thread") -> None:
    """Print a benchmark's lines under the machine's; with ``--save`` keep them in ``results/``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options, _ = parser.parse_known_args(sys.argv[1:])
    facts = machine()
    head = (
        f"{name}: {facts['cpu']}, {8 * facts['vector_bytes']}-bit vectors, {threads}, "
        f"load {facts['load']:.1f}, {facts['date']}; "
        + ", ".join(f"{k} {v}" for k, v in facts["versions"].items())
    )
    print("\n".join([head, *("  " + line for line in lines)]), flush=True)
    if options.save:
        slug = re.sub(r"[^a-z0-9]+", "-", f"{facts['cpu']} {8 * facts['vector_bytes']}bit".lower())
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{name}.{slug.strip('-')}.json"
        path.write_text(json.dumps({"machine": facts, "lines": lines, **data}, indent=1) + "\n")
