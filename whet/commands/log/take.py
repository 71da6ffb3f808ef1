"""`whet log import`: exports and AutoTVM's logs brought into a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from whet.commands.log.saying import Saying
from whet.commands.words import load_module


@click.command("import")
@click.argument("files", nargs=-1, required=True)
@click.option("--log", default="whet.db", show_default=True, help="The log to add to.")
@click.option("--skip-broken", is_flag=True, help="Pass over and count lines that are no records.")
@click.option("--device", help="AutoTVM's logs: the machine that measured; 'cpu': this one.")
@click.option("--module", help="AutoTVM's logs: FILE_OR_MODULE that defines the templates.")
def command(
    files: tuple[str, ...], log: str, skip_broken: bool, device: str | None, module: str | None
) -> None:
    """Add FILES, exports of logs or AutoTVM's logs (version 0.2), to a log.

    A file is taken wholly or not at all; what the log has already is left as it is. AutoTVM's
    trials are of a template's space where one of that name with the same knobs is registered, and
    history elsewhere.
    """
    from whet.compiler.errors import LogError
    from whet.db import TuningLog
    from whet.db.exchange import import_log
    from whet.search_spaces.values.counted import counted

    for file in files:
        if not Path(file).is_file():
            there = "it is a device or a pipe" if Path(file).exists() else "there is no such file"
            what = "it is a directory" if Path(file).is_dir() else there
            out = "give a file that `whet log export` wrote, or a log of AutoTVM"
            raise LogError(f"import {file}", what, out)
    if module:
        load_module(module)
    with (
        _not_left_empty(log),
        TuningLog(log) as opened,
        Saying(f"reading {files[0]}") as say,
    ):
        for file in files:
            taken = import_log(opened, file, skip_broken=skip_broken, device=device, say=say)
            click.echo(f"{file}: {taken} new in {opened.location}")
            if taken.applied or taken.history:
                click.echo(
                    f"  of AutoTVM: {counted(taken.applied, 'trial')} of a template's space, "
                    f"{taken.history:,} kept as history: whet log list {opened.location}"
                )
            if taken.skipped:
                click.echo(f"  {taken.skipped}", err=True)


@contextmanager
def _not_left_empty(log: str) -> Iterator[None]:
    """Remove a log's file that was made for what could then not be taken."""
    from whet.compiler.errors import LogError
    from whet.db import TuningLog

    path = Path(log)
    is_new = "://" not in log and not path.exists()
    try:
        yield
    except BaseException:
        if is_new and path.is_file():
            with suppress(LogError), TuningLog(log, write=False) as made:
                if not made.runs():  # another process may have found it, and written to it
                    path.unlink()
        raise
