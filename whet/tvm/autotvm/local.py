"""What :class:`LocalBuilder` and :class:`LocalRunner` do beside a user's own half: in this process.

Candidates of a search without one are built and run in processes apart; see :mod:`whet.measure`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler import driver, runtime
from whet.tvm.autotvm.values import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult

if TYPE_CHECKING:
    from whet.tvm.autotvm.measure import LocalRunner

CALLS, REPEATS = 4, 3
"""Calls of a repeat and repeats where the runner names none, as in AutoTVM."""


def build(measure_inputs: list[MeasureInput]) -> list[Any]:
    """A library of each candidate, or the result of a failure; libraries go with the process."""
    return [_built(inp) for inp in measure_inputs]


def _built(inp: MeasureInput) -> BuildResult | MeasureResult:
    start, stage = time.time(), MeasureErrorNo.INSTANTIATION_ERROR
    try:
        schedule, args = inp.task.instantiate(inp.config)
        with inp.target:
            lowered = driver.lower(schedule, args)
        stage = MeasureErrorNo.COMPILE_HOST
        made = driver.build(lowered, target=inp.target)
        file = Path(tempfile.mkdtemp(dir=_folder(os.getpid()))) / "kernel.so"
        made.export_library(file)
    except Exception as error:  # a failed candidate is a result, whatever its template raises
        return _failed(error, stage, start)
    info = [(tuple(map(int, t.shape)), t.dtype) for t in args]
    return BuildResult(str(file), info, None, time.time() - start)


@cache
def _folder(process: int) -> str:
    """The folder of a process's libraries, which goes when that process ends."""
    folder = tempfile.mkdtemp(prefix="whet-autotvm-")
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: str, process: int) -> None:
    """A forked process does not take its parent's libraries away."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def run(
    measure_inputs: list[MeasureInput], build_results: list[Any], runner: LocalRunner
) -> list[MeasureResult]:
    """The time of each library with random inputs, or the result of a failure."""
    pairs = zip(measure_inputs, build_results, strict=True)
    return [_timed(inp, built, runner) for inp, built in pairs]


def _timed(inp: MeasureInput, built: Any, runner: LocalRunner) -> MeasureResult:
    start = time.time()
    if isinstance(built, MeasureResult):
        return built
    if built.error is not None:
        return _failed(built.error, MeasureErrorNo.COMPILE_HOST, start)
    try:
        made = runtime.load_module(built.filename)
        kind = inp.target.kind.name
        on = runtime.device(runner.device or ("cuda" if kind == "cuda" else "cpu"))
        rng = np.random.default_rng(0)
        arrays = [runtime.nd.array(_numbers(rng, *one), on) for one in built.arg_info]
        clock = made.time_evaluator(
            made.entry_name,
            on,
            number=runner.number or CALLS,
            repeat=runner.repeat or REPEATS,
            min_repeat_ms=int(runner.min_repeat_ms or 0),
        )
        costs = tuple(map(float, clock(*arrays).results))
    except Exception as error:  # a failed candidate is a result
        return _failed(error, MeasureErrorNo.RUNTIME_DEVICE, start)
    spent = built.time_cost + time.time() - start
    return MeasureResult(costs, MeasureErrorNo.NO_ERROR, spent, time.time())


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if "int" in dtype or dtype == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.uniform(-1, 1, shape).astype(dtype)


def _failed(error: Exception, number: MeasureErrorNo, start: float) -> MeasureResult:
    return MeasureResult((error,), number, time.time() - start, time.time())
