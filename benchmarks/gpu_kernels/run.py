"""GPU kernels beside cuBLAS, cuDNN, Triton and the device's limits: every figure, in one command.

    python benchmarks/gpu_kernels/run.py [--only GROUP_OR_WORK ...] [--trials 200] [--log FILE]
        [--device cuda:0] [--defaults] [--warm] [--short] [--markdown] [--save]

Each work is tuned, built and checked; then our kernel, PyTorch in each of its ways (cuBLAS, cuDNN
and its own kernels, float32 in true float32), Triton with its autotuner, and probes of the FMA peak
and of the copy bandwidth take turns on the device, timed by its events, the L2 cache flushed before
each call. `--log` keeps the searches: a run that was stopped goes on. `--trials 0` measures the
default configs alone, `--defaults` both; `--short` takes the works that have goals.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import tempfile
import time
from typing import Any

from goals import judge
from gpu_works import GROUPS, SHORT
from layers import Work, chosen
from measured import Results

import whet
from whet.bench.comparison import Comparison
from whet.bench.gpu.contest import compare_on
from whet.compiler.runtime.gpu.driver import context_of, driver_of
from whet.compiler.runtime.device import Device


def tuned(work: Work, device: Device, asked: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The task of a work, and its kernels: the default config's, and the best of the log."""
    target = f"cuda -arch={context_of(device).properties.arch}"
    task = whet.create_task(work.template, args=work.args, target=target)
    kernels = {}
    if asked.defaults or not asked.trials:
        kernels["default"] = whet.build(task)
    if asked.trials:
        options = whet.MeasureOptions(flush_l2=not asked.warm)
        whet.tune(
            task, asked.trials, asked.log, device=device, options=options, seed=0, progress=False
        )
        kernels["tuned"] = whet.build(task, log=asked.log, device=device)
    return task, kernels


def measured(work: Work, device: Device, asked: argparse.Namespace) -> Comparison:
    """One work on the device."""
    task, kernels = tuned(work, device, asked)
    return compare_on(
        device, task, kernels, asked.rounds, compiled=asked.compile, flush=not asked.warm
    )


def facts_of(device: Device) -> dict[str, Any]:
    """What the device is, for the head of a result."""
    properties = context_of(device).properties
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
    parser.add_argument("--log", help="keeps the searches, to go on with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--minutes", type=float, help="start no further work after so long")
    parser.add_argument("--defaults", action="store_true", help="default configs, too")
    parser.add_argument("--warm", action="store_true", help="do not flush the L2 cache")
    parser.add_argument("--compile", action="store_true", help="torch.compile as a peer, too")
    parser.add_argument("--markdown", action="store_true", help="the verdicts as a table")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    asked = parser.parse_args(arguments)
    asked.log = asked.log or str(Path(tempfile.mkdtemp(prefix="whet-gpu-")) / "bench.db")
    return asked


def measure_all(results: Results, device: Device, asked: argparse.Namespace) -> None:
    """Measure what the command line names, as far as the minutes last."""
    names = list(asked.only or (SHORT if asked.short else ()))
    until = time.monotonic() + 60 * asked.minutes if asked.minutes else float("inf")
    for group, work in chosen(GROUPS, names):
        if time.monotonic() > until:
            results.skipped.append(f"{group}: {work.name}")
            continue
        results.measure(group, work, measured, device, asked)


def absent(results: Results) -> dict[str, dict[str, str]]:
    """Works without figures, by group, and why."""
    found: dict[str, dict[str, str]] = {}
    for why, names in (("it failed", results.failed), ("no time was left", results.skipped)):
        for text in names:
            group, _, name = text.partition(": ")
            found.setdefault(group, {})[name] = why
    return found


def main() -> None:
    """Measure what the command line names, then say what was reached."""
    asked = parsed()
    device = whet.device(asked.device)
    facts = facts_of(device)
    results = Results()
    measure_all(results, device, asked)
    results.averages()
    results.verdicts = judge(results.rows, absent(results))
    results.lines += ["", *(str(v) for v in results.verdicts)]
    results.lines += [f"FAILED      {name}" for name in results.failed]
    results.lines += [f"no time for {name}" for name in results.skipped]
    if asked.markdown:
        print("\n".join(["| what | measured | reach |", "| --- | --- | --- |"]))
        print("\n".join(verdict.markdown() for verdict in results.verdicts))
    how = "L2 warm" if asked.warm else "L2 flushed"
    harness.report("gpu_kernels", results.lines, results.to_json(), how, facts)


if __name__ == "__main__":
    main()
