"""Trials until 95 % of the best known, replayed over spaces that were measured whole.

    python benchmarks/search/replay.py [--space NAME ...] [--sampler NAME ...] [--seeds 10]
                                       [--jobs 2] [--cap 400] [--keep FILE] [--save]

Every search is a call of `whet.tune` on a log of its own; only the measuring is a look-up. The
default config is the first trial. A search that does not get there within the cap counts as more
than any number; a median that it decides is shown as "400+". `random` and `grid` are not simulated:
the first is a draw without replacement, the second an order, and both have exact answers.

`xgb+transfer` starts from a log that holds a search of each *other* shape of the template.
`--keep FILE` writes each finished search to a file at once, and takes from it what is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import json
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from recordings import SPACES, Recording, read, recorded

import whet
from whet.autotune import samplers

TRANSFER = "xgb+transfer"
EXACT = ("random", "grid")
SAMPLERS = (*samplers.SAMPLERS, TRANSFER)
FILL = 128
"""Trials of each other shape that a log holds before a search with transfer begins."""
NEVER = math.inf


@dataclass(frozen=True)
class Job:
    """One search."""

    space: str
    sampler: str
    seed: int
    cap: int


def search(job: Job) -> float:
    """The number of trials until the goal; infinity where the cap came first."""
    recording = read(job.space)
    sampler = "xgb" if job.sampler == TRANSFER else job.sampler
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "replay.db"
        if job.sampler == TRANSFER:
            for other in recording.others():
                _tune(read(other), log, FILL, "xgb", job.seed)
        goal = recording.goal
        result = _tune(recording, log, job.cap, sampler, job.seed, target_cost=goal)
    hits = (t.number + 1 for t in result.trials if t.result.ok and t.cost <= goal)
    return min(hits, default=NEVER)


def _tune(
    recording: Recording, log: Path, trials: int, sampler: str, seed: int, **more: Any
) -> Any:
    return whet.tune(
        recording.task, trials=trials, log=log, sampler=sampler, workers=recording.pool(),
        seed=seed, progress=False, **more,
    )  # fmt: skip


def random_quantile(recording: Recording, share: float) -> float:
    """Within how many trials a draw without replacement is there, with this probability."""
    good = recording.seconds <= recording.goal
    if good[recording.default]:
        return 1.0
    left, hits = len(good) - 1, int(good.sum())
    missed, trials = 1.0, 1  # the default config is the first trial
    while missed > 1 - share:
        missed *= max(left - hits, 0) / left
        left, trials = left - 1, trials + 1
    return float(trials)


def grid_trials(recording: Recording) -> float:
    """How many trials it takes to count through the space from its beginning."""
    good = np.flatnonzero(recording.seconds <= recording.goal)
    if recording.default in good:
        return 1.0
    return float(1 + good[0] + 1 - (recording.default < good[0]))


def quantile(trials: Iterable[float], share: float) -> float:
    """Between the two nearest of the sorted values; infinity where either of them is."""
    ordered = sorted(trials)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low if low == high else low + (place % 1) * (high - low)


def exact(recording: Recording, sampler: str) -> dict[str, float]:
    """Median and quartiles of a sampler that needs no simulation."""
    if sampler == "grid":
        return dict.fromkeys(("q25", "median", "q75"), grid_trials(recording))
    shares = {"q25": 0.25, "median": 0.5, "q75": 0.75}
    return {name: random_quantile(recording, share) for name, share in shares.items()}


def simulated(trials: Sequence[float]) -> dict[str, Any]:
    """Median and quartiles of searches with different seeds."""
    found = {f"q{round(100 * s)}": quantile(trials, s) for s in (0.25, 0.75)}
    return found | {"median": quantile(trials, 0.5), "trials": sorted(trials)}


def run(jobs: list[Job], workers: int, keep: Path | None) -> dict[Job, float]:
    """All searches, several side by side; what ``keep`` holds already is not run again."""
    done = _kept(keep)
    waiting = [job for job in jobs if job not in done]
    begin = time.monotonic()
    for count, (job, trials) in enumerate(_finished(waiting, workers), 1):
        done[job] = trials
        if keep:
            with keep.open("a") as file:
                file.write(json.dumps([asdict(job), _number(trials)]) + "\n")
        print(
            f"{count}/{len(waiting)} {time.monotonic() - begin:.0f} s: {job.space}, "
            f"{job.sampler}, seed {job.seed}: {shown(trials, job.cap)}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    return {job: done[job] for job in jobs}


def _finished(jobs: list[Job], workers: int) -> Iterator[tuple[Job, float]]:
    """Each search with its outcome, as it ends; in this process where one is to work."""
    if workers == 1:
        for job in jobs:
            yield job, search(job)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(search, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _kept(keep: Path | None) -> dict[Job, float]:
    if keep is None or not keep.exists():
        return {}
    lines = [json.loads(line) for line in keep.read_text().splitlines()]
    return {Job(**job): NEVER if trials is None else trials for job, trials in lines}


def _number(trials: float) -> float | None:
    return None if trials == NEVER else trials


def shown(trials: float, cap: int) -> str:
    """A number of trials for people."""
    return f"{cap}+" if trials == NEVER else f"{trials:.0f}"


def replay(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """All that is asked for: lines for people, and data."""
    jobs = [
        Job(space, sampler, seed, options.cap)
        for sampler in options.sampler
        for space in options.space
        for seed in range(options.seeds)
        if sampler not in EXACT and (sampler != TRANSFER or read(space).others())
    ]
    done = run(jobs, options.jobs, options.keep)
    lines, spaces = [], {}
    for name in options.space:
        recording = read(name)
        spaces[name] = {"facts": recording.facts(), "samplers": {}}
        lines.append(facts_line(name, recording.facts()))
        for sampler in options.sampler:
            found = [n for job, n in done.items() if (job.space, job.sampler) == (name, sampler)]
            if sampler in EXACT:
                row: dict[str, Any] = exact(recording, sampler)
            elif found:
                row = simulated(found)
            else:
                continue
            spaces[name]["samplers"][sampler] = row
            parts = [shown(row[q], options.cap) for q in ("q25", "median", "q75")]
            lines.append(f"  {sampler:12s} {parts[1]:>6s}  ({parts[0]} to {parts[2]})")
    medians = over_spaces(spaces, options.sampler)
    lines.append("median over the spaces: " + ", ".join(
        f"{s} {shown(m, options.cap)}" for s, m in medians.items()
    ))  # fmt: skip
    ratios = {
        f"xgb / {peer}": medians["xgb"] / medians[peer]
        for peer in ("tpe", "random")
        if {"xgb", peer} <= medians.keys()
    }
    lines += [f"{name}: {ratio:.3f}" for name, ratio in ratios.items()]
    return lines, _plain({"spaces": spaces, "medians": medians, "ratios": ratios})


def over_spaces(spaces: dict[str, Any], samplers: Sequence[str]) -> dict[str, float]:
    """The median of a sampler's medians over the spaces that it was run on."""
    found = {}
    for sampler in samplers:
        rows = [s["samplers"][sampler] for s in spaces.values() if sampler in s["samplers"]]
        if rows:
            found[sampler] = quantile([row["median"] for row in rows], 0.5)
    return found


def facts_line(name: str, facts: dict[str, Any]) -> str:
    """How hard a space is, in a line."""
    failed = ", ".join(f"{n} {status}" for status, n in facts["failed"].items()) or "none"
    return (
        f"{name}: {facts['configs']} configs, failed: {failed}; best {facts['best_us']:.1f} us, "
        f"default {facts['default']:.0f} x, worst {facts['spread']:.0f} x; "
        f"1 in {facts['one_in']:.0f} within 5 %"
    )


def _plain(data: Any) -> Any:
    """Without infinities, which JSON has no word for: None is "more than the cap"."""
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def main() -> None:
    """Replay what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = [name for name in recorded() if name in SPACES]
    parser.add_argument("--space", nargs="+", default=here, choices=here, metavar="NAME")
    parser.add_argument("--sampler", nargs="+", default=list(SAMPLERS), choices=SAMPLERS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="searches side by side")
    parser.add_argument("--cap", type=int, default=400, help="trials after which a search gives up")
    parser.add_argument("--keep", type=Path, help="a file of finished searches, to go on from")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    begin = time.monotonic()
    lines, data = replay(options)
    machines = {read(name).machine["cpu"] for name in options.space}
    lines.append(
        f"recorded on {', '.join(machines)}; {options.seeds} seeds, at most {options.cap} trials, "
        f"{time.monotonic() - begin:.0f} s with {options.jobs} jobs; random and grid exactly"
    )
    harness.report("search_replay", lines, data)


if __name__ == "__main__":
    main()
