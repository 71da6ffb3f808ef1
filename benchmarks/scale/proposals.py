"""The cost of a proposal, the memory of a long search, and how soon one of 100,000 trials goes on.

    python benchmarks/scale/proposals.py [--save] [--only pace resume ...] [--trials 2000]
        [--long 100000] [--memory 100000] [--log FILE]

One pinned core for everything but Resume, the worker that makes loop features included; measuring
is a function call. Pace: wall and CPU time a proposal of `xgb`, by hundreds of trials. CPU time
counts that worker's, too: on a machine with other work it is the figure to compare. Memory:
resident memory along a search of 100,000 trials, of `random`, and of `xgb` that is made to plan
once in 2,048 trials: the memory is the same, the time is not. Run: the same of a whole `tune()`,
with its log, by `random`: every 10,000 trials a line says how much memory there is. Resume: a log
of 100,000 trials is written; a new process on all cores goes on from it, and another one asks for
no more than there is. With `--log` it is one search of a longer log, as `log.py --keep` leaves one:
its trials are added to that. `--long` takes other numbers of trials than 100,000; `--memory N` is
`--only run --long N`.
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
from whet.autotune.search.study import Search
from whet.db import TaskKey, TuningLog
from whet.measure import ReplayPool
from whet.measure.device.identity import device_of
from whet.measure.values import MeasureResult
import itertools

WINDOW = 4
FROM = 100
"""The first trial whose proposal counts: before it each one is planned with more care."""
MATMUL = "matmul 512x512x512"
LONG = 100_000
"""Trials of a long search."""
CORES = os.sched_getaffinity(0)
EACH = 10_000
"""Trials of a whole `tune()` after which its memory is looked at."""


def task_of(name: str = MATMUL) -> Any:
    """A task whose space is derived from its operators: 679,504 configs."""
    *inputs, output = TEMPLATES[name].tensors(te, topi)
    # As on one core, whoever asks.
    target = "llvm -num_threads=1"
    return whet.create_task(outputs=[output], args=[*inputs, output], target=target)


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
        """The result of a config, as if it had been measured three times."""
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


def grown(name: str, at: dict[int, float], seconds: float) -> tuple[list[str], dict[str, Any]]:
    """A line on resident memory after some numbers of trials."""
    (first, before), (last, after) = min(at.items()), max(at.items())
    said = ", ".join(f"{n}: {mib:.1f} MiB" for n, mib in at.items())
    line = f"{name}: {said}; {after - before:+.1f} MiB after the first {first} (goal: 20); "
    spent = seconds / last * 1e3
    row = {"mib": at, "grown_mib": after - before, "ms": spent}
    return [line + f"{spent:.2f} ms of CPU a trial"], row


def memory(name: str, trials: int) -> tuple[list[str], dict[str, Any]]:
    """Resident memory of the proposals of a long search."""
    task = task_of()
    space = task.config_space
    sampler = make_sampler(name, space, 0)
    if name == "xgb":
        sampler.batches = ((8, 8), (1 << 62, 2048))  # type: ignore[attr-defined]
    at: dict[int, float] = {}
    begin = time.process_time()

    def after(number: int) -> None:
        if number in (trials // 10, trials // 2, trials):
            at[number] = resident()

    searched(Search(space, sampler), Landscape(space), trials, after)
    return grown(name, at, time.process_time() - begin)


def run(trials: int) -> tuple[list[str], dict[str, Any]]:
    """Resident memory of a long `tune()` with its log."""
    task = task_of()
    at: dict[int, float] = {}
    begin, done = time.process_time(), itertools.count(1)
    first = min(EACH, trials // 10)  # what is kept of any search is there by then

    def after(_: Any, trial: Any) -> None:
        if (number := next(done)) == first or number == trials or number % EACH == 0:
            at[number] = resident()
            print(f"  {number} trials: {at[number]:.1f} MiB", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.db"
        pool = replayed(task, 64)
        whet.tune(
            task, trials, log, "random", pool, progress=False, transfer=False, callbacks=[after]
        )
    return grown("tune", at, time.process_time() - begin)


def replayed(task: Any, capacity: int) -> ReplayPool:
    """A pool that measures a landscape."""
    space = task.config_space
    landscape = Landscape(space)
    return ReplayPool(lambda inp: landscape.result(space, inp.config), capacity)


def key_of(task: Any) -> TaskKey:
    """The name of a task in a log of this machine."""
    target = task.target.to_json()
    device = device_of(target, None)
    return TaskKey(task.workload, target, device, task.config_space.fingerprint)


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
        if log.counts(key_of(task)).trials:
            return  # by an earlier run
        key = key_of(task)
        names = key.workload, key.target, key.device, key.fingerprint
        run = log.start_run(*names, "xgb", 0, {}, {})
        for begin in range(0, trials, 5000):
            log.add_trials([
                (run, n, space.decode(points[n]), MeasureResult("ok", (float(costs[n]),) * 3))
                for n in range(begin, min(begin + 5000, trials))
            ])  # fmt: skip


def tuned_again(path: Path, trials: int) -> dict[str, float]:
    """A call of `tune()` on a log, in this process: seconds to the first candidate and in all."""
    task = task_of()
    pool = replayed(task, WINDOW)
    begin, cpu = time.perf_counter(), cpu_seconds()
    first: list[tuple[float, float]] = []
    submit = pool.submit

    def submitted(candidate: Any) -> Any:
        first.append((time.perf_counter() - begin, cpu_seconds() - cpu))
        return submit(candidate)

    pool.submit = submitted  # type: ignore[method-assign]
    found = whet.tune(task, trials, path, "xgb", pool, progress=False)
    wall, spent = time.perf_counter() - begin, cpu_seconds() - cpu
    wall_first, cpu_first = first[0] if first else (wall, spent)
    return {
        "first": wall_first, "first_cpu": cpu_first, "all": wall, "cpu": spent,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "trials": len(found.trials),
    }  # fmt: skip


def resume(trials: int, log: Path | None) -> tuple[list[str], dict[str, Any]]:
    """A search that goes on, and one that is finished, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = log or Path(folder) / "long.db"
        written(path, task_of(), trials)
        with TuningLog(path) as opened:
            every = sum(task.trials for task in opened.summary())
            trials = max(trials, opened.counts(key_of(task_of())).trials)
        os.sched_setaffinity(0, CORES)  # as a user's process, which waits for its workers

        def again(total: int) -> dict[str, float]:
            command = [sys.executable, __file__, "--read", str(path), "--long", str(total)]
            # As after an installation: the modules are compiled, by the first process.
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            done = subprocess.run(command, capture_output=True, check=True, env=environment)
            return json.loads(done.stdout)

        again(trials + WINDOW // 2)  # measures the finalists, too
        # And so does this one.
        goes_on, finished = again(trials + WINDOW), again(trials + WINDOW)
    harness.pin()
    lines = [
        f"{trials:,} trials of {every:,} in a log: next proposal after {goes_on['first']:.2f} s "
        f"({goes_on['first_cpu']:.2f} s of CPU; goal: 3), at most {goes_on['mib']:.0f} MiB "
        "(goal: 500)",
        f"finished: it returns after {finished['all']:.2f} s ({finished['cpu']:.2f} s of CPU; "
        f"goal: 1), at most {finished['mib']:.0f} MiB (goal: 500)",
    ]
    return lines, {"goes_on": goes_on, "finished": finished, "log": every}


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--long", type=int, default=LONG)
    parts = ("pace", "memory_random", "memory_xgb", "run", "resume")
    parser.add_argument("--only", nargs="+", choices=parts)
    parser.add_argument("--memory", type=int, metavar="TRIALS", help="of a whole tune()")
    parser.add_argument("--log", type=Path, help="a log that is there; Resume is added to it")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    if options.read:
        print(json.dumps(tuned_again(options.read, options.long)))
        return
    harness.pin()
    if options.memory:
        options.only, options.long = ["run"], options.memory
    for name, measure in (
        ("pace", lambda: pace(options.trials)),
        ("memory_random", lambda: memory("random", options.long)),
        ("memory_xgb", lambda: memory("xgb", options.long)),
        ("run", lambda: run(options.long)),
        ("resume", lambda: resume(options.long, options.log)),
    ):
        if not options.only or name in options.only:
            harness.report(f"scale_{name}", *measure())


if __name__ == "__main__":
    main()
