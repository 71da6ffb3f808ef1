"""The cost of a proposal, the memory of a long search, and how soon one of 100,000 trials goes on.

    python benchmarks/scale/proposals.py [--save] [--only pace resume ...] [--trials 2000]

One pinned core for everything, the worker that makes loop features included; measuring is a
function call. Pace: wall and CPU time a proposal of `xgb`, by hundreds of trials. CPU time counts
that worker's, too: on a machine with other work it is the figure to compare. Memory: resident
memory along a search of 100,000 trials, of `random`, and of `xgb` that is made to plan once in
2,048 trials: the memory is the same, the time is not. Resume: a log of 100,000 trials is written,
and a new process reads it and proposes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "search")]

import harness

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from typing import Any

import numpy as np
from operators import TEMPLATES

import whet
from whet import te, topi
from whet.autotune.features import WatchedFeatures
from whet.autotune.samplers import make_sampler
from whet.autotune.search.recall import recall
from whet.autotune.search.study import Search
from whet.db import TuningLog
from whet.db.values.claims import TaskKey
from whet.measure.values import MeasureResult
import itertools

WINDOW = 4
FROM = 100
"""The first trial whose proposal counts: before it each one is planned with more care."""
MATMUL = "matmul 512x512x512"
DEVICE = "proposals benchmark"
MEMORY_AT = (10_000, 50_000, 100_000)


def task_of(name: str = MATMUL) -> Any:
    """A task whose space is derived from its operators: 679,504 configs."""
    *inputs, output = TEMPLATES[name].tensors(te, topi)
    return whet.create_task(outputs=[output], args=[*inputs, output], target="llvm")


class Landscape:
    """Made-up costs of a space: the further from a point in it, the slower, with ripples.

    Args:
        space: the space.
    """

    def __init__(self, space: Any) -> None:
        self._best = np.random.default_rng(1).integers(space.dims)
        self._scale = np.maximum(np.array(space.dims) - 1, 1)

    def costs(self, points: np.ndarray) -> np.ndarray:
        """Seconds of points, shape ``(n,)``."""
        away = (points - self._best) / self._scale
        ripples = 0.3 * np.sin(20 * away).sum(axis=1)
        return 1e-4 * np.exp(3 * np.abs(away).sum(axis=1) + ripples)

    def result(self, space: Any, config: Any) -> MeasureResult:
        """What a measurement of a config would say."""
        cost = float(self.costs(np.array([space.encode(config)]))[0])
        return MeasureResult("ok", (cost,) * 3)


def cpu_seconds() -> float:
    """CPU time of this process and of its living children, their children included."""
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        ticks = sum(map(int, fields[11:15]))  # its own, and of its children that have ended
        seconds[pid] = ticks / os.sysconf("SC_CLK_TCK")

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    children = sum(seconds[pid] for pid in parents if pid != os.getpid() and ours(pid))
    return time.process_time() + children


def resident() -> float:
    """MiB of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def searched(search: Search, landscape: Landscape, trials: int, after: Any) -> None:
    """Ask and tell with a window, and call ``after(n)`` after every proposal."""
    space, waiting = search.space, []
    for number in range(trials):
        if len(waiting) == WINDOW:
            search.tell(waiting.pop(0))
        if number == 0:
            search.place(space.default)
            config = space.default
        else:
            config = search.ask()
        waiting.append(landscape.result(space, config))
        after(number + 1)


def pace(trials: int) -> tuple[list[str], dict[str, Any]]:
    """Milliseconds a proposal of `xgb` with loop features, by hundreds of trials."""
    task = task_of()
    space = task.config_space
    search = Search(space, make_sampler("xgb", space, 0, WatchedFeatures(task)))
    marks: list[tuple[int, float, float, float]] = []

    def after(number: int) -> None:
        if number % 100 == 0:
            marks.append((number, time.perf_counter(), cpu_seconds(), resident()))

    searched(search, Landscape(space), trials, after)
    lines = [f"xgb, {task.workload}, {space.size:.2g} configs, {WINDOW} in flight:"]
    rows = []
    for (n0, w0, c0, _), (n1, w1, c1, memory) in itertools.pairwise(marks):
        wall, cpu = ((b - a) / (n1 - n0) * 1e3 for a, b in ((w0, w1), (c0, c1)))
        rows.append({"to": n1, "wall_ms": wall, "cpu_ms": cpu, "mib": memory})
        lines.append(f"  to {n1:5d}: {wall:6.2f} ms, {cpu:6.2f} ms of CPU; {memory:6.1f} MiB")
    (n0, w0, c0, _), (n1, w1, c1, _) = marks[FROM // 100 - 1], marks[-1]
    wall, cpu = ((b - a) / (n1 - n0) * 1e3 for a, b in ((w0, w1), (c0, c1)))
    lines.append(f"  from {n0} to {n1}: {wall:.2f} ms a proposal, {cpu:.2f} ms of CPU (goal: 5)")
    return lines, {"along": rows, "wall_ms": wall, "cpu_ms": cpu}


def memory(name: str) -> tuple[list[str], dict[str, Any]]:
    """Resident memory of a search of 100,000 trials."""
    task = task_of()
    space = task.config_space
    sampler = make_sampler(name, space, 0)
    if name == "xgb":
        sampler.batches = ((8, 8), (1 << 62, 2048))  # type: ignore[attr-defined]
    at: dict[int, float] = {}
    begin = time.perf_counter()

    def after(number: int) -> None:
        if number in MEMORY_AT:
            at[number] = resident()

    searched(Search(space, sampler), Landscape(space), MEMORY_AT[-1], after)
    spent = (time.perf_counter() - begin) / MEMORY_AT[-1] * 1e3
    grown = at[MEMORY_AT[-1]] - at[MEMORY_AT[0]]
    said = ", ".join(f"{n}: {mib:.1f} MiB" for n, mib in at.items())
    line = f"{name}: {said}; {grown:+.1f} MiB after the first {MEMORY_AT[0]} (goal: 20); "
    return [line + f"{spent:.2f} ms a trial"], {"mib": at, "grown_mib": grown, "ms": spent}


def written(path: Path, task: Any, trials: int) -> None:
    """A log with one search of so many trials."""
    space = task.config_space
    rng = np.random.default_rng(0)
    drawn = space.sample_points(rng, 2 * trials)
    points = drawn[np.sort(np.unique(drawn, axis=0, return_index=True)[1])]
    default = np.array(space.encode(space.default))
    others = points[(points != default).any(axis=1)]
    points = np.concatenate([default[None], others])[:trials]
    costs = Landscape(space).costs(points)
    with TuningLog(path) as log:
        target = task.target.to_json()
        run = log.start_run(task.workload, target, DEVICE, space.fingerprint, "xgb", 0, {}, {})
        for begin in range(0, trials, 5000):
            log.add_trials([
                (run, n, space.decode(points[n]), MeasureResult("ok", (float(costs[n]),) * 3))
                for n in range(begin, min(begin + 5000, trials))
            ])  # fmt: skip


def proposed_after(path: Path) -> dict[str, float]:
    """Seconds from a log to the next proposal, in this process; of the parts, CPU time."""
    task = task_of()
    space = task.config_space
    features = WatchedFeatures(task)
    parts: dict[str, float] = {}
    begin, cpu = time.perf_counter(), cpu_seconds()

    def mark(name: str) -> None:
        parts[name] = cpu_seconds() - cpu - sum(parts.values())

    with TuningLog(path) as log:
        key = TaskKey(task.workload, task.target.to_json(), DEVICE, space.fingerprint)
        found = recall(log.points(key), space, WINDOW)
    mark("read")
    search = Search(space, make_sampler("xgb", space, 0, features))
    search.load(found.past)
    for _, cost in sorted(found.waiting.items()):
        search.tell(MeasureResult("ok", (cost,) * 3))
    mark("load")
    search.ask()
    mark("propose")
    parts["all"], parts["cpu"] = time.perf_counter() - begin, cpu_seconds() - cpu
    parts["trials"] = float(search.proposed - 1)
    parts["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return parts


def resume(trials: int = MEMORY_AT[-1]) -> tuple[list[str], dict[str, Any]]:
    """The first proposal of a search that goes on, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.db"
        written(path, task_of(), trials)
        command = [sys.executable, __file__, "--read", str(path)]
        parts = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    line = (
        f"the next proposal of {parts['trials']:.0f} trials in a log: {parts['all']:.2f} s "
        f"({parts['cpu']:.2f} s of CPU; goal: 3): reading {parts['read']:.2f} s of CPU, loading "
        f"{parts['load']:.2f}, proposing {parts['propose']:.2f}; at most {parts['mib']:.0f} MiB "
        "(goal: 500)"
    )
    return [line], parts


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parts = ("pace", "memory_random", "memory_xgb", "resume")
    parser.add_argument("--only", nargs="+", choices=parts)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    harness.pin()
    if options.read:
        print(json.dumps(proposed_after(options.read)))
        return
    for name, run in (
        ("pace", lambda: pace(options.trials)),
        ("memory_random", lambda: memory("random")),
        ("memory_xgb", lambda: memory("xgb")),
        ("resume", resume),
    ):
        if not options.only or name in options.only:
            harness.report(f"scale_{name}", *run())


if __name__ == "__main__":
    main()
