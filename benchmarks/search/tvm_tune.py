"""TVM's side of `live.py`, run by an interpreter that has tvm: tunes one operator, then serves it.

    PYTHON benchmarks/search/tvm_tune.py OPERATOR FOLDER [--trials 64] [--cores 2]

It tunes with MetaSchedule's defaults, prints one line of JSON, and then answers commands, a line
each, on standard input: `run` writes FOLDER/output.npy from FOLDER/input*.npy; `time N` prints the
seconds of a call, as the mean of N. `start_seconds` is the part of the search's seconds in which
TVM's builders, which it starts anew for each batch, import their intrinsics.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS"), "1")

import argparse
import importlib
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from operators import LIVE
from tvm import te, topi
from tvm.s_tir import meta_schedule as ms


def main() -> None:
    """Tune what the command line names, then answer until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operator", choices=LIVE)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64, help="trials an iteration, TVM's default")
    parser.add_argument("--cores", type=int, default=1, help="processes that build")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")  # what tvm prints must not come between
    os.dup2(2, 1)
    found, kernel = tune(options)
    say(answers, found)
    if kernel is None:
        return
    arrays = load(options.folder)
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "run":
            kernel["main"](*arrays)
            np.save(options.folder / "output.npy", arrays[-1].numpy())
            say(answers, {})
        elif command == "time":
            timer = kernel.time_evaluator("main", tvm.cpu(0), number=int(rest[0]), repeat=1)
            say(answers, {"seconds": timer(*arrays).mean})


def tune(options: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """The figures of the search, and the best kernel; None where no candidate worked."""
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)
    tensors = LIVE[options.operator].tensors(te, topi)
    module = tvm.IRModule({"main": te.create_prim_func(tensors)})
    target = this_processor()
    begin = time.perf_counter()
    importlib.import_module("tvm.s_tir.tensor_intrin")
    start = time.perf_counter() - begin
    # Its default of 30 s would end every build on a busy machine: a builder starts that slowly.
    builder = ms.builder.LocalBuilder(max_workers=options.cores, timeout_sec=240)
    begin = time.perf_counter()
    database = ms.tir_integration.tune_tir(
        module,
        target,
        work_dir=str(options.folder / "work"),
        max_trials_global=options.trials,
        num_trials_per_iter=options.batch,
        builder=builder,
        num_tuning_cores=options.cores,
        seed=options.seed + 1,  # 0 is none of its seeds
    )
    seconds = time.perf_counter() - begin
    records = database.get_all_tuning_records()
    runs = [[float(s) for s in r.run_secs] for r in records if r.run_secs is not None]
    found = {
        "version": tvm.__version__,
        "target": str(target),
        "trials": len(records),
        "failed": sum(not run or min(run) >= 1e9 for run in runs),
        "seconds": seconds,
        "start_seconds": start * -(-options.trials // options.batch),
        "best_of_search": min((min(run) for run in runs if run), default=None),
    }
    schedule = ms.tir_integration.compile_tir(database, module, target)
    if schedule is None:
        return found, None
    return found, ms.builder.local_builder.default_build(schedule.mod, target, None)


def this_processor() -> tvm.target.Target:
    """The target: this processor by LLVM's name, without the vectors that a machine hides."""
    codegen = tvm.target.codegen
    spec: dict[str, Any] = {"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": 1}
    named = [str(f) for f in codegen.llvm_get_cpu_features(tvm.target.Target(spec))]
    flags = Path("/proc/cpuinfo").read_text().partition("flags")[2].splitlines()[0]
    here = set(flags.replace("_", "").split())
    spec["mattr"] = sorted(f"-{f}" for f in named if f.startswith("avx") and f not in here)
    return tvm.target.Target(spec)


def load(folder: Path) -> list[Any]:
    """The inputs as tvm's arrays, and room for the output behind them."""
    names = sorted(folder.glob("input*.npy"))
    arrays = [np.load(name) for name in names]
    arrays.append(np.full(json.loads((folder / "output.json").read_text()), np.nan, np.float32))
    return [tvm.runtime.tensor(array) for array in arrays]


def say(answers: Any, what: dict[str, Any]) -> None:
    """One line of JSON to the process that asked."""
    print(json.dumps(what), file=answers, flush=True)


if __name__ == "__main__":
    main()
