"""`whet log export`: a log as lines of JSON."""

from __future__ import annotations

from pathlib import Path

import click

from whet.commands.log.saying import Saying


@click.command("export")
@click.argument("log", default="whet.db")
@click.option("-o", "--output", help="The file; default: the log's name, with .jsonl.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def command(log: str, output: str | None, force: bool) -> None:
    """Write LOG (default: whet.db) as text: one JSON object a line, runs before their trials."""
    from whet.db import TuningLog
    from whet.db.exchange import export_log

    path = Path(output or _default(log))
    if output and "://" in output:
        raise click.UsageError("-o takes a file; `whet log merge` writes to a database")
    if path.exists() and not force:
        raise click.UsageError(f"{path} is there already: --force replaces it")
    with TuningLog(log, write=False) as opened, Saying(f"reading {opened.location}") as say:
        written = export_log(opened, path, say)
    click.echo(f"{written} written to {path}")


def _default(log: str) -> str:
    """The export's file in the current folder: ``whet.jsonl`` for ``runs/whet.db``."""
    name = log.rsplit("/", 1)[-1] if "://" in log else Path(log).name
    return f"{Path(name.split('?')[0]).stem or 'log'}.jsonl"
