"""The result of a candidate, from the outcomes of its build and its run."""

from __future__ import annotations

import time
from dataclasses import replace

from whet.measure.stage.builder import Built
from whet.measure.stage.runner import RunReport
from whet.measure.values import OK, MeasureResult


def result_of(built: Built, report: RunReport | None, total: float) -> MeasureResult:
    """The result of a candidate.

    Args:
        built: the outcome of building it.
        report: the outcome of running it; None: it was not run.
        total: seconds since it was submitted.
    """
    timings = dict(built.timings) | {"total_s": total}
    status, error, facts, stage = built.status, built.error, built.facts, "build"
    if report is not None:
        timings["run_s"] = report.seconds
        status, error, facts = report.status, report.error, facts | report.environment
        stage = {OK: "", "wrong_answer": "check"}.get(status, "run")
    costs = () if report is None else report.costs
    now = time.time()
    return MeasureResult(status, costs, error, stage, built.program_hash, timings, facts, now)


def reused(earlier: MeasureResult, built: Built, begin: float) -> MeasureResult:
    """The result of the same program, measured before under another config.

    Args:
        earlier: that program's result.
        built: the outcome of building this candidate.
        begin: ``time.perf_counter()`` when it was submitted.
    """
    return replace(
        earlier,
        program_hash=built.program_hash,
        timings=dict(built.timings) | {"total_s": time.perf_counter() - begin},
        environment=earlier.environment | {"same_program": True},
        timestamp=time.time(),
    )
