"""Records for the tests of logs, and the program of a process that writes a log."""

import sys

from whet.db import TuningLog
from whet.measure.values import MeasureResult
from whet.search_spaces.values import Config, Workload

MATMUL = Workload("matmul", (64, 64, 64, "float32"))
AVX2 = {"kind": "llvm", "mcpu": "x86-64-v3", "num_threads": 2}
AVX512 = {"kind": "llvm", "mcpu": "x86-64-v4", "num_threads": 2}
HERE = {"cpu": "CPU of the tests", "fingerprint": "cpu-here", "physical_cores": 2}
SPACE = "5face0" * 5


def config(i: int, space: str = SPACE) -> Config:
    return Config((("tile", (64 // 2**i, 2**i)), ("unroll", i % 2 == 0)), space, ("split", "knob"))


def ok(*costs: float, program: str = "", **more) -> MeasureResult:
    return MeasureResult("ok", costs, program_hash=program, **more)


def failed(status: str = "run_crash", error: str = "SIGSEGV", program: str = "") -> MeasureResult:
    return MeasureResult(status, error=error, stage="run", program_hash=program)


def start(log: TuningLog, workload=MATMUL, target=AVX2, device=HERE, space=SPACE) -> int:
    return log.start_run(workload, target, device, space, "random", 0)


def write_for_ever(location: str, most: int) -> None:
    """Add trials to a log, printing the run's and each trial's number once it is acknowledged."""
    log = TuningLog(location)
    run = start(log)
    for number in range(most):
        log.add_trial(run, number, config(number % 7), ok(1.0 + number, timestamp=float(number)))
        print(run, number, flush=True)


if __name__ == "__main__":
    write_for_ever(sys.argv[1], int(sys.argv[2]))
