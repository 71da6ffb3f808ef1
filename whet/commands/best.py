"""`whet best`: what a log holds, and the best of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from whet.autotune.results.recorded import TaskTrials
    from whet.db import TaskSummary

DIGITS = 8
"""Digits of a space's fingerprint that are shown."""
COLUMNS = ("workload", "ok/trials", "time", "GFLOP/s", "speed-up", "machine", "config")


@click.command("best")
@click.argument("log", default="whet.db")
@click.option("--errors", is_flag=True, help="How trials failed, too: the first of each sort.")
def command(log: str, errors: bool) -> None:
    """The best config of each task in LOG (default: whet.db)."""
    from whet.autotune.results.recorded import read_recorded
    from whet.bench.table import aligned
    from whet.db import TuningLog
    from whet.db.values.quality import quality_words

    with TuningLog(log, write=False) as opened:
        found = [
            (t, read_recorded(opened, t.workload, t.target, t.fingerprint, t.device))
            for t in opened.summary()
        ]
    if not found:
        click.echo(f"{opened.location} holds no trials yet: whet tune --log {opened.location} ...")
        return
    spaces = _spaces([task for task, _ in found])
    head, *lines = aligned([COLUMNS, *(_row(task, recorded, spaces) for task, recorded in found)])
    click.echo(head)
    for line, (_, recorded) in zip(lines, found):
        click.echo(line)
        if recorded.best is not None:
            click.echo(f"  {quality_words(recorded.best.result, recorded.compared)}")
    for task, recorded in found:
        if errors:
            _show_failures(task, recorded)


def _show_failures(task: TaskSummary, recorded: TaskTrials) -> None:
    """How many trials of a task failed, and the first of each sort with its text."""
    from whet.autotune.results.failures import excerpt, failures
    from whet.search_spaces.values.counted import counted

    kinds = failures(recorded.searched)
    if not kinds:
        return
    failed = sum(kind.count for kind in kinds)
    which = "the only failure" if failed == 1 else f"{failed} failures"
    click.echo(f"\n{task.workload}: {which} among {counted(len(recorded.searched), 'trial')}")
    for kind in kinds:
        for sort in kind.sorts:
            like = f"{sort.count} like this, the first: " if sort.count > 1 else ""
            click.echo(f"\n{kind.status}: {like}trial {sort.example.number}, {sort.example.config}")
            click.echo(excerpt(sort.example.result.error).rstrip() or "(no text)")
        if kind.others:
            click.echo(f"\n{kind.status}: {kind.others} of other sorts")


def _spaces(tasks: list[TaskSummary]) -> dict[int, str]:
    """The words that tell rows of one workload, target and machine apart, by the ``id`` of each.

    That is the version of their space, and which of them is today's, the one that ``build`` takes,
    where the template can be looked up.
    """
    from whet.db import device_key
    from whet.db.values.identity import digest

    alike: dict[tuple[str, str, str], list[TaskSummary]] = {}
    for task in tasks:
        key = task.workload.key, digest(task.target), device_key(task.device)
        alike.setdefault(key, []).append(task)
    words = {}
    for group in alike.values():
        if len(group) > 1:
            today = _todays(group[0])
            for task in group:
                which = {"": "", task.fingerprint: ", which build takes"}.get(today, ", stale")
                words[id(task)] = f" [space {task.fingerprint[:DIGITS]}{which}]"
    return words


def _todays(task: TaskSummary) -> str:
    """The fingerprint of a task's space as it is today; "" where its template is not here."""
    from whet.autotune import create_task
    from whet.compiler.errors import WhetError
    from whet.search_spaces import list_templates

    if task.workload.template not in list_templates():
        return ""
    try:
        made = create_task(task.workload.template, task.workload.args, task.target)
    except WhetError:  # the template no longer takes these arguments
        return ""
    return made.config_space.fingerprint if made.workload == task.workload else ""


def _row(task: TaskSummary, recorded: TaskTrials, spaces: dict[int, str]) -> tuple[str, ...]:
    """The cells of one task; the config comes last, because it is the longest."""
    from whet.db.values.identity import device_key
    from whet.search_spaces.values.counted import duration

    best, base = recorded.best, recorded.default
    return (
        f"{task.workload}{spaces.get(id(task), '')}",
        f"{sum(t.result.ok for t in recorded.searched)}/{len(recorded.searched)}",
        f"{duration(best.cost)}{' predicted' * bool(best.result.predicted)}" if best else "-",
        f"{best.gflops:.1f}" if best and best.flop else "-",
        f"{base.cost / best.cost:.2f}x" if best and base and base.result.ok else "-",
        device_key(task.device),
        str(best.config) if best else "nothing worked",
    )
