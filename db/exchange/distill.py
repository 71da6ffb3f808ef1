"""The small log that a deployment needs: each task's best, its last measurement, its default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.errors import LogError
from whet.db.exchange.lines import Say
from whet.db.exchange.rows import rows_of
from whet.db.exchange.transfer import write_rows
from whet.db.exchange.write import Taken
from whet.db.values.decision import deciding
from whet.db.values.identity import device_key, digest
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.db.log import TuningLog
    from whet.db.values.records import RunRecord, TaskSummary

Task = tuple[str, str, str, str]


def distill_log(log: TuningLog, into: TuningLog, say: Say | None = None) -> Taken:
    """Write to an empty log what ``build`` and ``apply_best`` take from another.

    Of each task: its best trial, the last measurement that decided, and the default config's trial.
    Both logs give the same config for each task that has one.

    Args:
        log: the log to read.
        into: an empty log.
        say: is told of the progress.

    Raises:
        LogError: ``into`` holds trials; ``log`` holds no best of anything; one of them cannot be
            read or written; they would not give the same configs.
    """
    request = f"distill log {log.location} into {into.location}"
    if len(into):
        raise LogError(request, f"{into.location} holds trials already", "give a new file")
    tasks = [task for task in log.summary() if task.best is not None]
    if not tasks:
        raise LogError(request, "nothing in it worked", "tune something first: whet tune ...")
    runs: dict[Task, list[RunRecord]] = {}
    for run in log.runs():
        runs.setdefault(_key(run), []).append(run)
    wanted: dict[int, set[int] | None] = {}
    for number, task in enumerate(tasks, 1):
        if say is not None:
            say(f"reading {number} of {counted(len(tasks), 'task')}")
        _choose(log, task, runs.get(_key(task), []), wanted)
    chosen = [run for run in log.runs() if run.id in wanted]
    taken = write_rows(into, request, chosen, lambda run: rows_of(log, run, wanted[run.id]), say)
    _check(request, tasks, into)
    return taken


def _key(of: RunRecord | TaskSummary) -> Task:
    return of.workload.key, digest(of.target), device_key(of.device), of.fingerprint


def _choose(
    log: TuningLog,
    task: TaskSummary,
    runs: list[RunRecord],
    wanted: dict[int, set[int] | None],
) -> None:
    """Add the runs of a task that decide, each with the numbers of its trials; None: all."""
    best = task.best
    assert best is not None
    finals = deciding(runs).finals
    if finals is not None:
        wanted[finals] = None
    if best.run_id != finals:
        numbers = wanted.setdefault(best.run_id, set())
        if numbers is not None:
            numbers.add(best.number)
    if finals is not None:
        return
    # Its search began with the default config; one that went on with another's has it there.
    for run_id in (best.run_id, *(run.id for run in runs)):
        run = next(run for run in runs if run.id == run_id)
        if any(True for _ in rows_of(log, run, [0])):
            numbers = wanted.setdefault(run_id, set())
            if numbers is not None:
                numbers.add(0)
            return


def _check(request: str, tasks: list[TaskSummary], into: TuningLog) -> None:
    """Compare what both logs give."""
    for task in tasks:
        best = into.best(task.workload, task.target, task.device, task.fingerprint)
        if best is None or task.best is None or best.config != task.best.config:
            why = f"for {task.workload} it would give {best and best.config}, not {task.best}"
            raise LogError(request, why, "check the log: whet log stats")
