"""`whet best`: what a log holds, and the best of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from whet.autotune.recorded import Recorded
    from whet.db import TaskSummary

COLUMNS = ("workload", "ok/trials", "time", "GFLOP/s", "speed-up", "machine", "config")


@click.command("best")
@click.argument("log", default="whet.db")
@click.option("--errors", is_flag=True, help="The commonest failure of each task, too.")
def command(log: str, errors: bool) -> None:
    """The best config of each task in LOG (default: whet.db)."""
    from whet.autotune.recorded import read_recorded
    from whet.db import TuningLog

    with TuningLog(log, write=False) as opened:
        found = [
            (t, read_recorded(opened, t.workload, t.target, t.fingerprint, t.device))
            for t in opened.summary()
        ]
    if not found:
        click.echo(f"{log} holds no trials yet: whet tune --log {log} ...")
        return
    rows = [COLUMNS, *(_row(task, recorded) for task, recorded in found)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        click.echo("  ".join(cell.ljust(n) for cell, n in zip(row, widths)).rstrip())
    for task, recorded in found:
        failed = [t.result for t in recorded.searched if not t.result.ok]
        if errors and failed:
            from whet.autotune.loop import nothing_works

            click.echo(f"\n{task.workload}: {len(failed)} trials failed\n{nothing_works(failed)}")


def _row(task: TaskSummary, recorded: Recorded) -> tuple[str, ...]:
    """The cells of one task; the config comes last, because it is the longest."""
    from whet.autotune.result import duration
    from whet.db.identity import device_key

    best, base = recorded.best, recorded.default
    return (
        str(task.workload),
        f"{task.succeeded}/{task.trials}",
        duration(best.cost) if best else "-",
        f"{best.gflops:.1f}" if best and best.flop else "-",
        f"{base.cost / best.cost:.2f}x" if best and base and base.result.ok else "-",
        device_key(task.device),
        str(best.config) if best else "nothing worked",
    )
