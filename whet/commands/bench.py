"""`whet bench`: an operator's default and tuned kernels beside its peers and the roofline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from whet.commands.words import value

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.compiler.runtime.module import Module


DEFAULT_LOG = "whet.db"


class _Negative(click.Command):
    """A command whose arguments may be negative numbers: ``-1`` is an axis, not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A word that begins with a space is no option, and a number all the same.
        return super().parse_args(ctx, [f" {w}" if re.match(r"-\d", w) else w for w in args])


@click.command("bench", cls=_Negative)
@click.argument("op")
@click.argument("args", nargs=-1, metavar="[VALUE]...")
@click.option("--trials", type=int, help="Tune first, until the log has so many trials.")
@click.option("--log", show_default=DEFAULT_LOG, help="Where tuned configs come from.")
@click.option("--threads", type=click.IntRange(1), help="For each; default: the target's.")
@click.option("--target", default="llvm", show_default=True, help="What to compile for.")
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True)
@click.option("--plot", metavar="FILE", help="Draw the roofline: FILE.svg, or FILE.png.")
@click.option("--compile/--no-compile", "compiled", default=True, help="torch.compile as a peer.")
def command(
    op: str,
    args: tuple[str, ...],
    trials: int | None,
    log: str | None,
    threads: int | None,
    target: str,
    rounds: int,
    plot: str | None,
    compiled: bool,
) -> None:
    """OP, a template, with its arguments: default, tuned, peers and the machine's limits.

    Everything is checked against numpy in float64 and timed in turns, in one process. The tuned
    config comes from --log; with --trials, it is searched for first.

    whet bench matmul 1024 1024 1024 --trials 100 --plot matmul.svg

    whet bench softmax "(1024, 1024)"
    """
    from whet.bench.turns import library_threads
    from whet.compiler.target import Target

    chosen = Target(f"{target} -num_threads={threads}" if threads else target).canonical()
    library_threads(chosen.num_threads)
    from whet.autotune import create_task
    from whet.bench.contest import check_work, compare
    from whet.bench.drawing import check_file
    from whet.bench.table import bound_of, notes_of, table_of
    from whet.commands.usage import check_arguments

    if plot is not None:
        check_file(plot)
    values = tuple(value(word.strip()) for word in args)
    check_arguments(op, values)
    task = create_task(op, values, chosen)
    check_work(task)
    kernels = _kernels(task, trials, log)
    found = compare(task, kernels, rounds, compiled)
    click.echo(bound_of(found))
    for line in table_of(found):
        click.echo(line)
    for note in notes_of(found):
        click.echo(f"note: {note}")
    for said in found.left_out:
        click.echo(f"not compared: {said}")
    if plot is not None:
        _draw(found, plot)


def _kernels(task: Task, trials: int | None, named: str | None) -> dict[str, Module]:
    """The default kernel, and the tuned one if the log has it.

    Raises:
        LogError: a log that was named cannot be opened; the default one need not be there.
    """
    from whet.autotune import tune
    from whet.autotune.deploy import build_from_log, kernel_name
    from whet.compiler import driver
    from whet.compiler.errors import LogError
    from whet.db import TuningLog

    log = DEFAULT_LOG if named is None else named
    if trials is not None:
        tune(task, trials=trials, log=log)
    elif named is not None:
        TuningLog(named, write=False).close()
    schedule, tensors = task.instantiate()
    kernels = {"default": driver.build(schedule, tensors, task.target, name=kernel_name(task))}
    try:
        kernels["tuned"] = build_from_log(task, log)
    except LogError as error:
        why = str(error).splitlines()[0]
        click.echo(f"not tuned: {why}; --trials 200 tunes it now", err=True)
    return kernels


def _draw(found: Any, path: str) -> None:
    from dataclasses import replace

    from whet.bench.drawing import draw
    from whet.bench.limits import levels
    from whet.bench.roofline import chart_of

    each = levels()
    if found.threads > 1:  # each core has these for itself; the others they share
        own = [level for level in each if level.name in ("L1", "L2")]
        each = tuple(replace(v, bandwidth=v.bandwidth * found.threads) for v in own)
    draw(chart_of(found, each), path)
    click.echo(path)
