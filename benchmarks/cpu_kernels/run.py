"""CPU kernels beside PyTorch, numpy, TVM and the machine's limits: every figure, in one command.

    python benchmarks/cpu_kernels/run.py [--only GROUP_OR_WORK ...] [--trials 200] [--log FILE]
        [--defaults] [--two-threads] [--tvm PYTHON] [--markdown] [--save]

Each work is tuned, built and checked against numpy in float64; then our kernel, every peer in each
of its ways, and probes of the FMA peak and of the bandwidth for the working set take turns on one
pinned core. `--log` keeps the searches: a run that was stopped goes on. `--trials 0` measures the
default configs alone, `--defaults` both; `--two-threads` compares on two cores; `--tvm` adds TVM
MetaSchedule (`../search/live.py`), with as many trials.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).parent),
    str(Path(__file__).parents[1] / "search"),
    str(Path(__file__).parents[1]),
]

import harness

import argparse
import tempfile
from statistics import geometric_mean
from typing import Any

from layers import Work, chosen
from measured import Results
from reach import Verdict, against, geomean, judge
from works import GROUPS, THREADED

import whet
from whet.bench.comparison import Comparison
from whet.bench.contest import compare
from whet.bench.cpu.place import cores

ONE_CORE = "llvm -num_threads=1"
TWO_CORES = "llvm -num_threads=2"


def tuned(work: Work, target: str, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The task of a work, and its kernels: the default config's, and the best of the log."""
    task = whet.create_task(work.template, args=work.args, target=target)
    kernels = {}
    if options.defaults or not options.trials:
        kernels["default"] = whet.build(task)
    if options.trials:
        whet.tune(task, trials=options.trials, log=options.log, seed=0, progress=False)
        kernels["tuned"] = whet.build(task, log=options.log)
    return task, kernels


def measured(work: Work, options: argparse.Namespace) -> Comparison:
    """One work on one core."""
    task, kernels = tuned(work, ONE_CORE, options)
    return compare(cores(1), task, kernels, options.rounds, compiled=not options.no_compile)


def on_two_cores(work: Work, options: argparse.Namespace) -> Comparison:
    """One work on two cores, our kernel for one core among the contestants."""
    _, single = tuned(work, ONE_CORE, options)
    task, double = tuned(work, TWO_CORES, options)
    kernels = {"one thread": list(single.values())[-1], **double}
    return compare(cores(2), task, kernels, options.rounds, compiled=not options.no_compile)


def two_threads(results: Results, options: argparse.Namespace) -> list[Verdict]:
    """Works that arithmetic bounds, on two cores."""
    for work in THREADED:
        results.measure("two threads", work, on_two_cores, options)
    rows = results.rows["two threads"].values()
    if not rows:
        return []
    gains = [row.ratio("one thread").best for row in rows]
    found = [Verdict("two threads against our one: geomean", geometric_mean(gains), 1.8)]
    mean = geomean(against(row) for row in rows)
    if mean is not None:
        found.append(Verdict("two threads: geomean against PyTorch's two", mean, 1.0))
    return found


def beside_tvm(results: Results, options: argparse.Namespace) -> list[Verdict]:
    """The operators of `live.py`, tuned by both with as many trials."""
    import live

    results.say("TVM MetaSchedule")
    rows = []
    for i, name in enumerate(live.LIVE):
        try:
            row = live.compare(name, options, ours_first=bool(i % 2))
        except (whet.WhetError, SystemExit) as error:  # the others are still compared
            results.failed.append(f"TVM: {name}")
            results.say(f"  {name:30s} FAILED: {str(error).splitlines()[0]}")
            continue
        rows.append(row)
        ours, tvm = row["ours"], row["tvm"]
        beside = f"{tvm['best'] / ours['best']:.2f} x TVM" if "best" in tvm else "TVM found none"
        results.say(f"  {name:30s} {ours['best'] * 1e6:9.1f} us; {beside}")
    results.more["tvm"] = {"rows": rows}
    if not any("best" in row["tvm"] for row in rows):
        return []
    lines, data = live.summary(rows)
    for line in lines:
        results.say("  " + line)
    return [Verdict("TVM MetaSchedule: geomean against its kernels", data["geomean"], 1.4)]


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME", help=f"{', '.join(GROUPS)}, works")
    parser.add_argument("--trials", type=int, default=200, help="0: default configs alone")
    parser.add_argument("--log", help="keeps the searches, to go on with")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--defaults", action="store_true", help="default configs, too")
    parser.add_argument("--two-threads", action="store_true")
    parser.add_argument("--tvm", metavar="PYTHON", help="an interpreter that has tvm")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--markdown", action="store_true", help="the verdicts as a table")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    options.seed = 0
    options.log = options.log or str(Path(tempfile.mkdtemp(prefix="whet-kernels-")) / "bench.db")
    return options


def main() -> None:
    """Measure what the command line names, then say what was reached."""
    options = parsed()
    results = Results()
    if options.only != []:  # "--only" without a name: two threads or TVM alone
        for group, work in chosen(GROUPS, options.only or []):
            results.measure(group, work, measured, options)
    results.averages()
    results.verdicts = judge(results.rows, options.defaults)
    if options.two_threads:
        results.verdicts += two_threads(results, options)
    if options.tvm:
        results.verdicts += beside_tvm(results, options)
    results.lines += ["", *(str(v) for v in results.verdicts)]
    results.lines += [f"FAILED      {name}" for name in results.failed]
    if options.markdown:
        print("\n".join(["| what | measured | reach |", "| --- | --- | --- |"]))
        print("\n".join(verdict.markdown() for verdict in results.verdicts))
    threads = "one thread unless said" if options.two_threads else "one thread"
    harness.report("cpu_kernels", results.lines, results.to_json(), threads)


if __name__ == "__main__":
    main()
