"""`whet log`: logs described, moved, put together, cut down and checked."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "stats": "whet.commands.log.stats",
    "list": "whet.commands.log.tasks",
    "best": "whet.commands.best",
    "export": "whet.commands.log.export",
    "import": "whet.commands.log.take",
    "merge": "whet.commands.log.merge",
    "prune": "whet.commands.log.prune",
    "upgrade": "whet.commands.upgrade",
    "verify": "whet.commands.log.verify",
    "distill": "whet.commands.log.distill",
}
"""Where each command lives; imported when it is asked for."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(COMMANDS[cmd_name]).command


@click.group("log", cls=_Commands)
def command() -> None:
    """Describe, move, merge, prune, check and distill tuning logs.

    A log is an SQLite file, or the URL of a PostgreSQL database.
    """
