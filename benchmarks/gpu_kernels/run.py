"""GPU kernels beside cuBLAS, cuDNN, Triton and the device's limits: every figure, in one command.

    python benchmarks/gpu_kernels/run.py [--only GROUP_OR_WORK ...] [--trials 200] [--log FILE]
        [--device cuda:0] [--tuning MINUTES] [--defaults] [--warm] [--short] [--markdown] [--save]

Each work is tuned, built and checked; then our kernel, PyTorch in each of its ways (cuBLAS, cuDNN
and its own kernels, float32 in true float32), Triton with its autotuner, and probes of the FMA peak
and of the copy bandwidth take turns on the device, timed by its events, the L2 cache flushed before
each call. `--log` keeps the searches: a run that was stopped goes on. `--trials 0` measures the
default configs alone, `--defaults` both; `--short` takes the works that have goals. `--tuning 30`
searches for so long first, all works together, each as long as it promises to gain.

A work that crashes or hangs is a line, and the next one is measured. `--save` and `--out FILE`
write what there is after each work.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from goals import judge
from gpu_contest import Contests, How, OutOfTime, target_of
from gpu_works import GROUPS, SHORT
from layers import Work, chosen
from measured import Results

import whet
from whet.bench.comparison import Comparison
from whet.compiler.runtime.gpu.driver.interface import driver_of
from whet.compiler.runtime.arrays.device import Device


PATIENCE = 60.0
"""Seconds for a candidate: half a gigabyte is drawn, copied and compared on the host."""


def task_of(work: Work, device: Device) -> Any:
    """A work's task for a device."""
    return whet.create_task(work.template, args=work.args, target=target_of(device))


def searched(
    works: list[Work], device: Device, options: argparse.Namespace, seconds: float | None
) -> None:
    """Search works together, into the log.

    Args:
        works: which; those that promise more get more of the trials.
        device: where.
        options: the command line.
        seconds: that it may take; None: as long as the trials last.
    """
    tasks = [task_of(work, device) for work in works]
    whet.tune(
        tasks,
        options.trials * len(tasks),
        options.log,
        device=device,
        options=whet.MeasureOptions(run_timeout=PATIENCE, flush_l2=not options.warm),
        seed=0,
        progress=False,
        timeout=seconds,
    )


def facts_of(device: Device) -> dict[str, Any]:
    """The device's description, for the head of a result."""
    properties = driver_of(device.type).properties(device.index)
    return {
        "name": properties.name,
        "arch": properties.arch,
        "multiprocessors": properties.multiprocessors,
        "clock_mhz": properties.clock_khz / 1e3,
        "memory_gib": properties.memory_bytes / 2**30,
        "l2_mib": properties.l2_bytes / 2**20,
        "cuda": properties.driver_version,
        "driver": driver_of(device.type).name,
    }


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"{', '.join(GROUPS)}, works")
    parser.add_argument("--short", action="store_true", help="the works that have goals")
    parser.add_argument("--device", default="cuda:0", help="which GPU")
    parser.add_argument("--trials", type=int, default=200, help="0: default configs alone")
    parser.add_argument("--tuning", type=float, metavar="MINUTES", help="all works together first")
    parser.add_argument("--log", help="keeps the searches, to go on with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--minutes", type=float, help="start no further work after so long")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for one comparison")
    parser.add_argument("--defaults", action="store_true", help="default configs, too")
    parser.add_argument("--warm", action="store_true", help="do not flush the L2 cache")
    parser.add_argument("--compile", action="store_true", help="torch.compile as a peer, too")
    parser.add_argument("--markdown", action="store_true", help="the verdicts as a table")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    parser.add_argument("--out", type=Path, help="write the figures into this file")
    options = parser.parse_args(arguments)
    if options.tuning and not options.trials:
        parser.error("--tuning searches, and --trials 0 measures default configs: give one of them")
    options.log = options.log or str(Path(tempfile.mkdtemp(prefix="whet-gpu-")) / "bench.db")
    return options


def how_of(options: argparse.Namespace) -> How:
    """How the works are compared."""
    return How(
        options.device,
        options.log if options.trials else "",
        options.defaults,
        options.rounds,
        options.compile,
        not options.warm,
    )


def measure_all(
    results: Results,
    works: list[tuple[str, Work]],
    measured: Callable[[Work], Comparison],
    until: float = float("inf"),
    keep: Callable[[], object] = lambda: None,
) -> None:
    """Measure works as far as the time lasts.

    Args:
        results: what is added to.
        works: each with its group.
        measured: measures one.
        until: ``time.monotonic()`` after which none is begun.
        keep: is called after each.
    """
    for group, work in works:
        if time.monotonic() > until:
            results.skipped.append(f"{group}: {work.name}")
            continue
        try:
            results.measure(group, work, measured)
        except OutOfTime:
            results.skipped.append(f"{group}: {work.name}")
        keep()


def absent(results: Results) -> dict[str, dict[str, str]]:
    """Works without figures, by group, and why."""
    found: dict[str, dict[str, str]] = {}
    for why, names in (("it failed", results.failed), ("no time was left", results.skipped)):
        for text in names:
            group, _, name = text.partition(": ")
            found.setdefault(group, {})[name] = why
    return found


def measure(results: Results, options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Search and measure what the command line names; what there is is kept after each work."""
    device = whet.device(options.device)
    until = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    names = list(options.only or (SHORT if options.short else ()))
    works = chosen(GROUPS, names)
    paths = [options.out] if options.out else []
    paths += [harness.path_of("gpu_kernels", facts)] if options.save else []

    def keep() -> None:
        for path in paths:
            try:
                harness.keep(path, results.lines, results.to_json(), facts)
            except OSError as error:
                print(f"{path} cannot be written: {error}", flush=True)

    if options.tuning and options.trials:
        try:
            seconds = min(60 * options.tuning, until - time.monotonic())
            searched([work for _, work in works], device, options, seconds)
        except whet.WhetError as error:
            results.failed.append("search: all works")
            results.say(f"search of all works FAILED: {error}")
    with closing(Contests(how_of(options), options.patience, until)) as contests:

        def measured(work: Work) -> Comparison:
            if options.trials and not options.tuning:
                left = max(until - time.monotonic(), 1.0)
                searched([work], device, options, left if options.minutes else None)
            return contests.measured(work)

        measure_all(results, works, measured, until, keep)
    results.averages()
    results.verdicts = judge(results.rows, absent(results))
    results.lines += ["", *(str(v) for v in results.verdicts)]
    results.lines += [f"FAILED      {name}" for name in results.failed]
    results.lines += [f"no time for {name}" for name in results.skipped]
    keep()


def main() -> None:
    """Measure what the command line names, then say what was reached."""
    options = parsed()
    facts = facts_of(whet.device(options.device))
    results = Results()
    measure(results, options, facts)
    if options.markdown:
        print("\n".join(["| what | measured | reach |", "| --- | --- | --- |"]))
        print("\n".join(verdict.markdown() for verdict in results.verdicts))
    how = "L2 warm" if options.warm else "L2 flushed"
    harness.report("gpu_kernels", results.lines, results.to_json(), how, facts)


if __name__ == "__main__":
    main()
