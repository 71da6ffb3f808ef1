"""`whet report`: a log as one HTML file with plots, which opens without a network."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from whet.commands.words import ManyArgs, load_module, value

QUIET = 2.0
"""Seconds after which the command begins to say what it is doing."""


@click.command("report", cls=ManyArgs)
@click.argument("log", default="whet.db")
@click.option("-o", "--output", help="The file; default: the log's name, with .html.")
@click.option("--op", help="Only tasks of this template.")
@click.option("--args", multiple=True, metavar="VALUE...", help="Only tasks with these arguments.")
@click.option("--module", help="FILE_OR_MODULE that defines the templates: shows the best's loops.")
@click.option("--open", "open_it", is_flag=True, help="Show it in the browser.")
def command(
    log: str,
    output: str | None,
    op: str | None,
    args: tuple[str, ...],
    module: str | None,
    open_it: bool,
) -> None:
    """Show LOG (default: whet.db) as one HTML file.

    The search as it went, cost against each knob, which knobs matter, the failures with their
    texts, predicted against measured cost, where the time went, and the best programs' loops.
    """
    from whet.autotune.report import write_report

    if module:
        load_module(module)
    begin = time.monotonic()

    def say(text: str) -> None:
        if time.monotonic() - begin > QUIET:
            click.echo(text, err=True)

    chosen: dict[str, Any] = {"op": op, "args": tuple(map(value, args)) or None, "say": say}
    path = write_report(log, output or default_output(log), **chosen)
    click.echo(f"{path}  ({path.stat().st_size / 1e3:,.0f} kB)")
    if open_it:
        click.launch(path.resolve().as_uri())


def default_output(log: str) -> str:
    """The report's file in the current folder: ``whet.html`` for ``runs/whet.db``."""
    name = log.rsplit("/", 1)[-1] if "://" in log else Path(log).name
    return f"{Path(name.split('?')[0]).stem or 'report'}.html"
