"""`whet doctor`: what this machine has, and what each missing thing would give."""

from __future__ import annotations

import click


@click.command("doctor")
def command() -> None:
    """Say what this machine has, and what each missing thing would give."""
    from whet.commands.checkup import checkup

    findings = checkup()
    width = max(len(f.name) for f in findings)
    for f in findings:
        mark = click.style("ok", fg="green") if f.found else click.style("--", fg="yellow")
        click.echo(f"{mark}  {f.name:<{width}}  {f.text}")
        if not f.found and f.gives:
            click.echo(f"    {'':<{width}}  {f.gives}")
