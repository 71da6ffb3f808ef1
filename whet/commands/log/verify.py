"""`whet log verify`: the best records of a log, built, measured and checked again."""

from __future__ import annotations

import click

from whet.commands.words import Seconds, load_module


@click.command("verify")
@click.argument("log", default="whet.db")
@click.option("--op", help="Only tasks of this template.")
@click.option("--module", help="FILE_OR_MODULE that defines the templates, if not built in.")
@click.option("--device", help='Measures, and whose records: "cuda:1", "cuda-emulator".')
@click.option("--seconds", type=Seconds(), default="10", show_default=True, help="For each task.")
@click.option("--dry-run", is_flag=True, help="Say what does not hold, and withdraw nothing.")
def command(
    log: str, op: str | None, module: str | None, device: str | None, seconds: float, dry_run: bool
) -> None:
    """Build the best records of LOG (default: whet.db) again, and measure and check them.

    Each is measured in turns with the default config. What is not built, does not run, gives wrong
    numbers or is slower than the default beyond the noise is withdrawn: it stays in the log, and is
    the best no more. The exit code is 1 where something does not hold.
    """
    from whet.autotune.verify import WITHDRAWN, summary_line, verify_log
    from whet.db.quick.place import place_of

    if module:
        load_module(module)
    found = verify_log(
        log,
        op=op,
        device=device,
        seconds=seconds,
        withdraw=not dry_run,
        say=lambda line: click.echo(line, err=True),
    )
    for one in found:
        click.echo(str(one))
    written = " (nothing was written)" if dry_run else ""
    click.echo(f"{place_of(log).shown}: {summary_line(found)}{written}")
    if any(one.outcome == WITHDRAWN for one in found):
        raise click.exceptions.Exit(1)
