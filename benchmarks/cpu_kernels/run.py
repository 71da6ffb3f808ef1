"""CPU kernels beside their peers and the machine's limits: every figure, in one command.

    python benchmarks/cpu_kernels/run.py [--only KIND_OR_WORK ...] [--resume FILE] [--trials N]
        [--threads 1 2] [--width 512 256] [--tvm PYTHON] [--no-compile] [--markdown] [--save]

Each work is tuned, built and checked against numpy in float64; then our kernels, default and tuned,
every peer in each of its ways, and probes of the machine's limits take turns on pinned cores.
`--resume` keeps what was measured, a line a work: a run that was stopped goes on; others with other
threads and widths may share the file. The searches are kept beside it. `--trials 0` measures the
default configs alone.
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

from processes import as_narrow, asked_threads, widths
from whet.bench.turns import library_threads, numpy_threads

library_threads(asked_threads(sys.argv[1:]))

import argparse
import subprocess
import tempfile
import time
from typing import Any

import reach
from layers import Work, chosen
from measured import Results
from resume import Records
from works import KINDS, TRIALS

import whet
from whet.bench.arguments import arrays_of
from whet.bench.comparison import Comparison, of_record
from whet.bench.contest import compare
from whet.compiler.target.machine import host

TVM_TRIALS = 64
TVM_KIND = "TVM MetaSchedule"


def tuned(work: Work, kind: str, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """The configs of a work that are compared: the default one, and the best of a search.

    Returns:
        Name -> the task, and the config or None for the default.
    """
    task = work.task(f"llvm -num_threads={threads}")
    configs: dict[str, Any] = {"default": None}
    trials = options.trials if options.trials is not None else TRIALS[kind]
    if trials:
        result = whet.tune(task, trials=trials, log=options.log, seed=0, progress=False)
        configs["tuned"] = result.best.config if result.best else None
    return {name: (task, config) for name, config in configs.items()}


def built(task: Any, config: Any) -> Any:
    """The kernel of a task with a config; None: the default one."""
    schedule, tensors = task.instantiate(config)
    return whet.build(schedule, tensors, task.target)


def in_cache(work: Work, configs: dict[str, Any]) -> list[Any]:
    """Kernels of the work at its small size, each with its arrays: nothing if it has none."""
    if not work.small:
        return []
    small = work.few.task("llvm -num_threads=1")
    arrays = arrays_of(small)
    space = small.config_space
    near = [space.nearest(config) for _, config in configs.values() if config is not None]
    unique = {config.key: config for config in (space.default, *near)}
    return [(built(small, config), arrays) for config in unique.values()]


def measured(work: Work, kind: str, options: argparse.Namespace) -> Comparison:
    """One work, with all threads that the run has; ours with one thread beside those with more."""
    from whet.bench.cpu.place import cores

    configs = tuned(work, kind, options.threads[0], options)
    kernels = {name: built(*config) for name, config in configs.items()}
    few = in_cache(work, configs) if options.threads == [1] else []
    if options.threads != [1]:
        alone = list(tuned(work, kind, 1, options).values())[-1]
        kernels = {"one thread": built(*alone), **kernels}
    place = cores(options.threads[0], work.operator, few)
    task = configs["default"][0]
    return compare(
        place, task, kernels, options.rounds, not options.no_compile, seconds=options.seconds
    )


class Run:
    """Works that are measured or known, with a line of progress.

    Args:
        records: what is known.
        options: of the command line.
        count: how many works there will be.
    """

    def __init__(self, records: Records, options: argparse.Namespace, count: int) -> None:
        self._records, self._options, self._count = records, options, count
        self._settings = settings(options)
        self._place = self._new = 0
        self._spent = 0.0

    def __call__(self, work: Work, kind: str) -> Comparison:
        """The comparison of a work, from the file if it stands there."""
        self._place += 1
        key = key_of(work, kind, self._settings, self._options)
        known = self._records.find(key)
        if known is not None:
            return of_record(known)
        mean = self._spent / self._new if self._new else 0.0
        left = f", {mean * (self._count - self._place + 1) / 60:.0f} minutes left" if mean else ""
        print(f"[{self._place}/{self._count}{left}] {kind}: {work.name}", flush=True)
        start = time.monotonic()
        found = measured(work, kind, self._options)
        self._records.add(key, found.record())
        self._spent += time.monotonic() - start
        self._new += 1
        return found


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of a run that its results depend on."""
    facts = harness.machine()
    return {
        "cpu": facts["cpu"],
        "width": 8 * facts["vector_bytes"],
        "threads": options.threads[0],
        "rounds": options.rounds,
        "seconds": options.seconds,
        "compiled": not options.no_compile,
        "versions": facts["versions"],
    }


def key_of(
    work: Work, kind: str, settings: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """The key of a work's record."""
    trials = options.trials if options.trials is not None else TRIALS[kind]
    workload = str(work.task("llvm").workload)
    one = {"kind": kind, "work": work.name, "workload": workload, "small": work.small}
    return {**one, "trials": trials, **settings}


def beside_tvm(results: Results, records: Records, options: argparse.Namespace) -> None:
    """The works that TVM tunes, too, with as many trials."""
    import live

    results.say(TVM_KIND)
    options.trials = TVM_TRIALS if options.trials is None else options.trials
    rows = results.more.setdefault("tvm", {"rows": []})["rows"]
    for i, name in enumerate(live.LIVE):
        key = {"kind": TVM_KIND, "work": name, "trials": options.trials, **settings(options)}
        row = records.find(key)
        try:
            row = row or live.compare(name, options, ours_first=bool(i % 2))
        except (whet.WhetError, SystemExit) as error:  # the others are still compared
            results.failed.append(f"TVM: {name}")
            results.say(f"  {name:30s} FAILED: {str(error).splitlines()[0]}")
            continue
        if records.find(key) is None:
            records.add(key, row)
        rows.append(row)
        ours, tvm = row["ours"], row["tvm"]
        beside = f"{tvm['best'] / ours['best']:.2f} x TVM" if "best" in tvm else "TVM found none"
        results.say(f"  {name:30s} {ours['best'] * 1e6:9.1f} us; {beside}")
    if any("best" in row["tvm"] for row in rows):
        for line in live.summary(rows)[0]:
            results.say("  " + line)
    results.verdicts += reach.beside_tvm(rows)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME", help=f"{', '.join(KINDS)}, works")
    parser.add_argument("--trials", type=int, help=f"0: default configs alone; {TRIALS}")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keeps what was measured")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], metavar="N")
    parser.add_argument("--width", type=int, nargs="+", choices=(512, 256), help="bits")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0, help="of all rounds of a work")
    parser.add_argument("--tvm", metavar="PYTHON", help="an interpreter that has tvm")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--markdown", action="store_true", help="the verdicts as a table")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    options.seed = 0
    if options.resume is None:
        options.resume = Path(tempfile.mkdtemp(prefix="whet-kernels-")) / "results.jsonl"
    options.log = str(options.resume.with_suffix(".db"))
    return options


def one(options: argparse.Namespace) -> None:
    """Measure with so many threads at one width, then say what was reached."""
    results, records = Results(), Records(options.resume)
    works = [] if options.only == [] else chosen(KINDS, options.only or [])
    run = Run(records, options, len(works))
    threads, stopped = options.threads[0], False
    words = "one thread" if threads == 1 else f"{threads} threads"
    name = "cpu_kernels" if threads == 1 else f"cpu_kernels_{threads}_threads"
    print(harness.headline(name, words), f"--resume {options.resume}", sep="\n", flush=True)
    try:
        for kind, work in works:
            results.measure(kind, work, run, kind)
        if options.tvm and threads == 1:
            beside_tvm(results, records, options)
    except KeyboardInterrupt:
        stopped = True
        results.say(f"stopped; --resume {options.resume} goes on with the next work")
    results.averages()
    judge = reach.judge if threads == 1 else reach.judge_threads
    results.verdicts = [*judge(results.rows), *results.verdicts]
    results.lines += ["", *(str(v) for v in results.verdicts)]
    results.lines += [f"FAILED      {name}" for name in results.failed]
    if options.markdown:
        print("\n".join(["| what | measured | reach |", "| --- | --- | --- |"]))
        print("\n".join(verdict.markdown() for verdict in results.verdicts))
    harness.report(name, results.lines, results.to_json(), words)
    if stopped:
        raise SystemExit(130)


def main() -> None:
    """Measure what the command line names: each width and number of threads in its own process.

    Libraries read both when they are loaded.
    """
    options = parsed()
    here = 8 * host.vector_bytes()
    asked = options.width or [here]
    if asked == [here] and options.threads == [numpy_threads()]:
        one(options)
        return
    missing = [width for width in asked if width not in (here, *widths())]
    if missing:
        raise SystemExit(f"--width {missing[0]}: this processor has vectors of {here} bits")
    for width in asked:
        for threads in options.threads:
            print(f"{width} bits, {threads} threads", flush=True)
            more = ["--width", str(width), "--threads", str(threads)]
            command = [sys.executable, __file__, *sys.argv[1:], "--resume", str(options.resume)]
            environment = as_narrow() if width < here else None
            child = subprocess.Popen([*command, *more], env=environment)
            try:
                failed = child.wait()
            except KeyboardInterrupt:
                failed = child.wait() or 130
            if failed:
                raise SystemExit(failed)


if __name__ == "__main__":
    main()
