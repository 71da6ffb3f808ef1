"""`whet log merge`: several logs put together."""

from __future__ import annotations

import click

from whet.commands.log.saying import Saying


@click.command("merge")
@click.argument("logs", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="The log to write; what it holds stays.")
def command(logs: tuple[str, ...], output: str) -> None:
    """Add the runs and trials of LOGS to the log OUTPUT.

    A run has one name in every log, so that nothing is there twice. The result is that of importing
    the export of each.
    """
    from contextlib import ExitStack

    from whet.db import TuningLog
    from whet.db.exchange import merge_logs

    with ExitStack() as stack:
        # All are opened first: a log that cannot be read must not leave half of a result.
        sources = [stack.enter_context(TuningLog(log, write=False)) for log in logs]
        into = stack.enter_context(TuningLog(output))
        say = stack.enter_context(Saying(f"reading {sources[0].location}"))
        taken = merge_logs(into, sources, say)
    click.echo(f"{taken} new in {into.location}")
