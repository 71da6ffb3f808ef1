"""`whet tune`: search for the fastest program of a task."""

from __future__ import annotations

import click

from whet.autotune.samplers import SAMPLERS
from whet.commands.words import ManyArgs, load_task, value


@click.command("tune", cls=ManyArgs)
@click.argument("task", required=False, metavar="[FILE_OR_MODULE:TASK]")
@click.option("--op", help="A template's name, instead of a task: matmul, conv2d_nchw, ...")
@click.option("--args", multiple=True, metavar="VALUE...", help="The template's arguments.")
@click.option("--target", help='What to compile for, e.g. "llvm"; default: this CPU.')
@click.option("--trials", type=int, default=500, show_default=True, help="The total in the log.")
@click.option("--log", default="whet.db", show_default=True, help="A file or a database's URL.")
@click.option("--sampler", type=click.Choice(list(SAMPLERS)), default="xgb", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--workers", help='Builders on this machine, "ray" or "ray://host:port".')
@click.option("--quiet", is_flag=True, help="No progress line.")
def command(
    task: str | None,
    op: str | None,
    args: tuple[str, ...],
    target: str | None,
    trials: int,
    log: str,
    sampler: str,
    seed: int,
    workers: str | None,
    quiet: bool,
) -> None:
    """Search for the fastest program of a task; every trial goes into the log.

    TASK is a task in a file or module (kernels.py:task), a function that makes one, or a template;
    or name a template by --op:

    whet tune --op matmul --args 1024 1024 1024 --trials 200
    """
    from whet.autotune import create_task, tune

    if (task is None) == (op is None):
        raise click.UsageError("give either FILE_OR_MODULE:TASK or --op NAME --args VALUES")
    values = tuple(map(value, args))
    chosen = create_task(op, values, target) if op else load_task(task or "", values, target)
    pool = int(workers) if workers and workers.isdigit() else workers
    click.echo(tune(chosen, trials, log, sampler, workers=pool, seed=seed, progress=not quiet))
