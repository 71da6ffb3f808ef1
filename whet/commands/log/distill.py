"""`whet log distill`: the small log that a deployment needs."""

from __future__ import annotations

from pathlib import Path

import click

from whet.commands.log.saying import Saying


@click.command("distill")
@click.argument("log", default="whet.db")
@click.option("-o", "--output", required=True, help="The new log.")
def command(log: str, output: str) -> None:
    """Write the best records of LOG (default: whet.db) to a small log of its own.

    Each task keeps its best trial, the last measurement that decided, and the default config's
    trial: `build` and `apply_best` take the same configs from both logs.
    """
    from whet.db import TuningLog
    from whet.db.exchange import distill_log

    new = "://" not in output
    if new and Path(output).exists():
        raise click.UsageError(f"{output} is there already: give a new file")
    with TuningLog(log, write=False) as opened, Saying(f"reading {opened.location}") as say:
        try:
            with TuningLog(output) as into:
                taken = distill_log(opened, into, say)
                place = into.location
        except BaseException:
            if new:
                Path(output).unlink(missing_ok=True)
            raise
    size = f", {Path(output).stat().st_size / 1e3:,.0f} kB" if new else ""
    click.echo(f"{taken} written to {place}{size}")
