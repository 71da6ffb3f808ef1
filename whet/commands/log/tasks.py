"""`whet log list`: the tasks of a log, or its runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from whet.commands.log.saying import Saying

if TYPE_CHECKING:
    from whet.db import RunRecord, TaskSummary

TASKS = ("workload", "ok/trials", "best", "runs", "newest", "target", "machine", "notes")
RUNS = ("run", "workload", "sampler", "seed", "state", "begun", "machine", "space")
DIGITS = 8
"""Digits of a space's fingerprint that are shown."""


@click.command("list")
@click.argument("log", default="whet.db")
@click.option("--runs", "of_runs", is_flag=True, help="Each search and last measurement.")
def command(log: str, of_runs: bool) -> None:
    """List the tasks of LOG (default: whet.db), those that cannot be built here included."""
    from whet.bench.table import aligned
    from whet.db import TuningLog

    with TuningLog(log, write=False) as opened, Saying(f"reading {opened.location}"):
        runs = opened.runs()
        tasks = [] if of_runs else opened.summary()
    if not runs:
        click.echo(f"{opened.location} holds nothing yet: whet tune --log {opened.location} ...")
        return
    rows = [_run(r) for r in runs] if of_runs else [_task(t, runs) for t in tasks]
    for line in aligned([RUNS if of_runs else TASKS, *rows]):
        click.echo(line.rstrip())


def _run(run: RunRecord) -> tuple[str, ...]:
    from whet.db.values.identity import device_key

    return (
        str(run.id),
        str(run.workload),
        run.sampler,
        "-" if run.seed is None else str(run.seed),
        run.state,
        _day(run.started_at),
        device_key(run.device),
        run.fingerprint[:DIGITS],
    )


def _task(task: TaskSummary, runs: list[RunRecord]) -> tuple[str, ...]:
    from whet.db.values.decision import FINALISTS_RUN
    from whet.db.values.identity import device_key
    from whet.search_spaces.values.counted import duration

    own = [
        run
        for run in runs
        if (run.workload, run.target, run.fingerprint)
        == (task.workload, task.target, task.fingerprint)
        and device_key(run.device) == device_key(task.device)
    ]
    searches = [run for run in own if run.sampler != FINALISTS_RUN]
    return (
        str(task.workload),
        f"{task.succeeded}/{task.trials}",
        duration(task.best.cost) if task.best is not None else "-",
        str(len(searches)),
        _day(max((run.started_at for run in own), default=0.0)),
        str(task.target.get("mcpu") or task.target.get("arch") or task.target.get("kind")),
        device_key(task.device),
        _notes(searches),
    )


def _notes(searches: list[RunRecord]) -> str:
    """Remarks on a task: its records are AutoTVM's, and why they cannot be built."""
    from whet.db.exchange.autotvm import SAMPLER

    for run in reversed(searches):
        if run.sampler == SAMPLER:
            about = run.options.get(SAMPLER)
            why = about.get("why") if isinstance(about, dict) else ""
            return f"AutoTVM's, history alone: {why}" if why else "AutoTVM's"
    return ""


def _day(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # a log may hold any number
        return f"{seconds:g} s"
