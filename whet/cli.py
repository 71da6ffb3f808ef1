"""The command line: `whet tune`, `best`, `show`, `report`, ... and their exit codes."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

import click

import whet
from whet.compiler.errors import WhetError

COMMANDS = {
    "tune": "whet.commands.tune",
    "best": "whet.commands.best",
    "show": "whet.commands.show",
    "report": "whet.commands.report",
    "bench": "whet.commands.bench",
    "package": "whet.commands.package",
    "check-kernel": "whet.commands.check_kernel",
    "log": "whet.commands.log",
    "worker": "whet.commands.worker",
    "top": "whet.commands.top",
    "upgrade": "whet.commands.upgrade",
    "doctor": "whet.commands.doctor",
}
"""Where each command lives; imported when it is asked for."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(COMMANDS[cmd_name]).command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(whet.__version__, prog_name="whet")
def cli() -> None:
    """Whet: write a tensor kernel, tune it on this machine, build it from the log."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: without the program's name; None: the process's.

    Returns:
        0; 1 for an error that Whet explains; 2 for wrong usage; 130 after Ctrl-C. A search that
        SIGTERM ends raises ``SystemExit(143)``.
    """
    return run(cli, arguments, "whet")


def run(command: click.Command, arguments: Sequence[str] | None, name: str) -> int:
    """Run a command; returns the exit code as :func:`main` does."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            ended = command.main(
                None if arguments is None else list(arguments), name, standalone_mode=False
            )
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except WhetError as error:
        # Notes say which config was at work when a template raised.
        notes = [f"  {note}" for note in getattr(error, "__notes__", ())]
        click.echo("\n".join([f"{type(error).__name__}: {error}", *notes]), err=True)
        return 1
    # A command that ends itself gives its exit code.
    return ended if type(ended) is int else 0


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as a line: the place in the code is of no use to who typed a command."""
    click.echo(f"{category.__name__}: {message}", err=True)


if __name__ == "__main__":
    sys.exit(main())
