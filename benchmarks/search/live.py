"""64 live trials of sixteen operators against TVM MetaSchedule's 64, in one run, interleaved.

    python -m venv tvm && tvm/bin/pip install apache-tvm apache-tvm-ffi==0.1.14.post0 \\
        xgboost-cpu cloudpickle psutil
    python benchmarks/search/live.py --tvm tvm/bin/python [--save] [--only NAME ...]

Both tune with their own defaults, one after the other, on all cores of the machine and for a
kernel on one core; ours takes a hand-written template where Whet has one, else the computation
alone. Then both kernels are timed in turns on one pinned core, on the same inputs, after their
numbers have been compared with numpy's in float64. TVM runs in a process of its own
(`tvm_tune.py`), and times its kernel when told to.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from operators import LIVE, Operator, check

import whet
from whet import te, topi

ONE_CORE = "llvm -num_threads=1"
START = ("tvm", "start_seconds")
Timer = Callable[[int], float]
"""Seconds per call, the mean of so many calls."""


@dataclass
class Side:
    """The outcome of one of the two: its search's figures, and its kernel's samples."""

    trials: int
    failed: int
    seconds: float
    samples: harness.Sample | None = None

    @property
    def rate(self) -> float:
        """Trials a second."""
        return self.trials / self.seconds

    def to_json(self) -> dict[str, Any]:
        """The figures for `results/`."""
        timed = self.samples and {"best": self.samples.best, "median": self.samples.median}
        return {"trials": self.trials, "failed": self.failed, "seconds": self.seconds} | (
            timed or {}
        )


class TVM:
    """The process that tunes and times TVM's kernel of one operator."""

    def __init__(self, python: str, name: str, folder: Path, options: argparse.Namespace) -> None:
        script = str(Path(__file__).with_name("tvm_tune.py"))
        command = [python, script, name, str(folder), "--trials", str(options.trials)]
        command += ["--cores", str(os.cpu_count()), "--seed", str(options.seed)]
        self._errors = (folder / "tvm.txt").open("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self.found = self._answer()
        self.has_kernel = self.found["best_of_search"] is not None
        self.side = Side(self.found["trials"], self.found["failed"], self.found["seconds"])

    def run(self) -> None:
        """Run the kernel once; the output is in the folder."""
        self._ask("run")

    def time(self, number: int) -> float:
        """Seconds per call."""
        return float(self._ask(f"time {number}")["seconds"])

    def pin(self, core: int) -> None:
        """Keep the process on one core."""
        os.sched_setaffinity(self._process.pid, {core})

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._errors.close()

    def _ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin
        print(command, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise SystemExit(f"TVM ended ({self._process.returncode}):\n{self._errors.read()}")
        return dict(json.loads(line))


def tune_ours(operator: Operator, log: str, options: argparse.Namespace) -> tuple[Side, Any]:
    """Our search, and its kernel."""
    if operator.template is not None:
        name, args = operator.template
        task = whet.create_task(name, args=args, target=ONE_CORE)
    else:
        *inputs, output = operator.tensors(te, topi)
        task = whet.create_task(outputs=[output], args=[*inputs, output], target=ONE_CORE)
    begin = time.perf_counter()
    result = whet.tune(task, trials=options.trials, log=log, seed=options.seed, progress=False)
    seconds = time.perf_counter() - begin
    failed = sum(not trial.result.ok for trial in result.trials)
    return Side(len(result.trials), failed, seconds), whet.build(task, log=log)


def in_turns(timers: dict[str, Timer], rounds: int, seconds: float = 0.02) -> dict[str, Any]:
    """Samples of at least ``seconds`` each, round after round, each first as often as the other."""
    number = {}
    for name, timer in timers.items():
        timer(1)
        number[name] = max(1, int(seconds / max(timer(3), 1e-9)))
    found: dict[str, list[float]] = {name: [] for name in timers}
    for k in range(rounds):
        for name in list(timers)[:: -1 if k % 2 else 1]:
            found[name].append(timers[name](number[name]))
    return {name: harness.Sample(tuple(values)) for name, values in found.items()}


def compare(name: str, options: argparse.Namespace, ours_first: bool) -> dict[str, Any]:
    """Both searches of one operator, and both kernels in turns."""
    operator, folder = LIVE[name], Path(tempfile.mkdtemp(prefix="whet-live-"))
    inputs = operator.arrays()
    right = operator.expected(inputs)
    for i, array in enumerate(inputs):
        np.save(folder / f"input{i}.npy", array)
    (folder / "output.json").write_text(json.dumps(right.shape))
    cores = os.sched_getaffinity(0)
    tvm = None if ours_first else TVM(options.tvm, name, folder, options)
    ours, kernel = tune_ours(operator, str(folder / "whet.db"), options)
    tvm = tvm or TVM(options.tvm, name, folder, options)
    output = np.full(right.shape, np.nan, np.float32)
    kernel(*inputs, output)
    check(f"{name}, ours", output, right)
    core = harness.pin()
    tvm.pin(core)
    timers: dict[str, Timer] = {"ours": lambda n: _time(kernel, n, [*inputs, output])}
    if tvm.has_kernel:
        tvm.run()
        check(f"{name}, TVM", np.load(folder / "output.npy"), right)
        timers["tvm"] = tvm.time
    samples = in_turns(timers, options.rounds)
    tvm.close()
    os.sched_setaffinity(0, cores)
    ours.samples, tvm.side.samples = samples["ours"], samples.get("tvm")
    return {
        "name": name,
        "template": operator.template is not None,
        "ours": ours.to_json(),
        "tvm": tvm.side.to_json() | {"start_seconds": tvm.found["start_seconds"]},
        "target": tvm.found["target"],
        "version": tvm.found["version"],
    }


def _time(kernel: Any, number: int, arrays: list[np.ndarray]) -> float:
    timer = kernel.time_evaluator(kernel.entry_name, whet.cpu(0), number=number, repeat=1)
    return float(timer(*arrays).mean)


def summary(rows: list[dict[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """A summary of the rows."""
    timed = [row for row in rows if "best" in row["tvm"]]
    faster = [row["tvm"]["best"] / row["ours"]["best"] for row in timed]
    faster_median = [row["tvm"]["median"] / row["ours"]["median"] for row in timed]
    wins = sum(ratio > 1 for ratio in faster) + len(rows) - len(timed)
    sums = {
        (side, what): sum(row[side][what] for row in rows)
        for side, what in (*product(("ours", "tvm"), ("trials", "seconds")), START)
    }
    ours = sums["ours", "trials"] / sums["ours", "seconds"]
    tvm = sums["tvm", "trials"] / sums["tvm", "seconds"]
    begun = sums["tvm", "trials"] / (sums["tvm", "seconds"] - sums[START])
    data = {
        "wins": wins,
        "geomean": geometric_mean(faster),
        "geomean_median": geometric_mean(faster_median),
        "trials_per_second": {"ours": ours, "tvm": tvm, "tvm_without_its_start": begun},
    }
    lines = [
        f"faster on {wins} of {len(rows)}; geomean {data['geomean']:.2f} x "
        f"({data['geomean_median']:.2f} x by medians), median {median(faster):.2f} x",
        f"trials a second: ours {ours:.2f}, TVM {tvm:.2f}: {ours / tvm:.1f} x; without the start "
        f"of TVM's builders about {begun:.2f}: {ours / begun:.1f} x",
    ]
    return lines, data


def main() -> None:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tvm", required=True, help="a Python interpreter that has tvm")
    parser.add_argument("--only", nargs="*", default=list(LIVE), choices=LIVE, metavar="NAME")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    rows, lines = [], []
    for i, name in enumerate(options.only):
        row = compare(name, options, ours_first=bool(i % 2))
        rows.append(row)
        ours, tvm = row["ours"], row["tvm"]
        shown = f"{ours['best'] * 1e6:8.1f} us, {ours['median'] * 1e6:8.1f} median"
        if "best" in tvm:
            shown += f"; TVM {tvm['best'] * 1e6:8.1f}, {tvm['median'] * 1e6:8.1f}: "
            shown += f"{tvm['best'] / ours['best']:.2f} x, {tvm['median'] / ours['median']:.2f} x"
        rate, peer = ours["trials"] / ours["seconds"], tvm["trials"] / tvm["seconds"]
        kind = "template" if row["template"] else "derived"
        lines.append(
            f"{name:28s} {kind:8s} {shown}; trials a second {rate:.1f}, TVM {peer:.2f}; "
            f"failed {ours['failed']}, {tvm['failed']} of {ours['trials']}, {tvm['trials']}"
        )
        print(lines[-1], flush=True)
    last, data = summary(rows)
    lines += last
    head = f"TVM {rows[0]['version']}, target {rows[0]['target']}, {options.trials} trials each"
    harness.report("search_live", [head, *lines], {"rows": rows, **data})


if __name__ == "__main__":
    main()
