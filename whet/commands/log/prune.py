"""`whet log prune`: old trials taken out of a log."""

from __future__ import annotations

import click

from whet.commands.log.saying import Saying


@click.command("prune")
@click.argument("log", default="whet.db")
@click.option(
    "--newest",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Trials of each task that stay, beside the best and the last measurements.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--no-backup", is_flag=True, help="Do not copy the file first.")
def command(log: str, newest: int, yes: bool, no_backup: bool) -> None:
    """Delete old trials of LOG (default: whet.db), and give their room back to the disk.

    Each task's best, its last measurements, the default config's trials and the newest others stay.
    The file is copied first; a log on which a search is running is refused.
    """
    from whet.db import TuningLog
    from whet.db.exchange import prune_log

    TuningLog(log, write=False).close()  # a log that is not there is not made
    with TuningLog(log) as opened:
        place = opened.location
        with Saying(f"reading {place}"):
            planned = prune_log(opened, newest, only_count=True)
        if not planned.trials:
            click.echo(f"{place}: nothing to delete; {planned.kept:,} trials stay")
            return
        if not yes:
            click.confirm(f"{place}: delete {planned}?", abort=True)
        with Saying(f"pruning {place}") as say:
            pruned = prune_log(opened, newest, backup=not no_backup, say=say)
    click.echo(f"{place}: deleted {pruned}")
    if pruned.before:
        click.echo(f"  {pruned.before / 1e6:,.2f} MB before, {pruned.after / 1e6:,.2f} MB now")
    if pruned.backup is not None:
        click.echo(f"  a copy of what was: {pruned.backup}")
