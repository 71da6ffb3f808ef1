"""`whet tune`: search for the fastest program of a task, or of several under one budget."""

from __future__ import annotations

from typing import Any

import click

from whet.autotune.samplers import SAMPLERS
from whet.commands.words import ManyArgs, Seconds, is_model, load_task, shapes_of, value

LEVELS = ("full", "quick")


@click.command("tune", cls=ManyArgs)
@click.argument("tasks", nargs=-1, metavar="[FILE_OR_MODULE:TASK]...|MODEL.onnx")
@click.option("--op", help="A template's name, instead of a task: matmul, conv2d_nchw, ...")
@click.option("--args", multiple=True, metavar="VALUE...", help="The template's arguments.")
@click.option(
    "--target", help='What to compile for, "llvm", "cuda"; default: by --device, else this CPU.'
)
@click.option("--space", type=click.Choice(LEVELS), help="A template's space; default: full.")
@click.option(
    "--shape", multiple=True, metavar="NAME=SIZES", help="Of a model: batch=1, or x=1,3,224,224."
)
@click.option("--trials", type=int, default=500, show_default=True, help="The total in the log.")
@click.option("--log", default="whet.db", show_default=True, help="A file or a database's URL.")
@click.option("--sampler", type=click.Choice(list(SAMPLERS)), default="xgb", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--timeout", type=Seconds(), help="End after this time: 90, 90s, 10min, 2h.")
@click.option("--target-cost", type=Seconds(), help="End when a call takes no longer: 0.5ms, 20us.")
@click.option(
    "--early-stop",
    is_flag=False,
    flag_value="gain",
    metavar="[TRIALS]",
    help="End when the gain that is expected is below the noise, or after TRIALS in vain.",
)
@click.option("--no-transfer", is_flag=True, help="Learn nothing from the log's other tasks.")
@click.option("--weight", type=float, multiple=True, help="Of each of several tasks, in order.")
@click.option("--workers", help='Builders on this machine, "ray" or "ray://host:port".')
@click.option(
    "--device",
    help='What measures: "cuda:1", "cuda:0,cuda:1", "cuda:*" for all GPUs, "cuda-emulator"; '
    'several kinds, each with its winner: "cpu,cuda"; '
    "default: by the target.",
)
@click.option("--quiet", is_flag=True, help="No progress line.")
def command(
    tasks: tuple[str, ...],
    op: str | None,
    args: tuple[str, ...],
    target: str | None,
    space: str | None,
    shape: tuple[str, ...],
    early_stop: str | None,
    no_transfer: bool,
    weight: tuple[float, ...],
    workers: str | None,
    quiet: bool,
    **passed: Any,
) -> None:
    """Search for the fastest program of a task; every trial goes into the log.

    TASK is a task in a file or module (kernels.py:task), a function that makes one, or a template;
    several share the trials by what each still promises to gain. Or name a template by --op:

    whet tune --op matmul --args 1024 1024 1024 --trials 200

    Of a model each group of operators is a task, which counts as often as the model runs it.
    """
    from whet.autotune import create_task, tune

    if bool(tasks) == (op is not None):
        raise click.UsageError("give either FILE_OR_MODULE:TASK or --op NAME --args VALUES")
    if shape and not is_model(tasks):
        raise click.UsageError("--shape is for a model: whet tune model.onnx --shape batch=1")
    values = tuple(map(value, args))
    implied = "cuda" if (passed["device"] or "").startswith("cuda") else None
    if op:
        chosen = [create_task(op, values, target or implied, space=space or "full")]
    elif is_model(tasks):
        chosen, weight = _of_model(tasks[0], shape, target or implied, weight)
    else:
        chosen = [load_task(where, values, target, space, implied) for where in tasks]
    of_one = len(chosen) == 1 and is_model(tasks)  # whatever its weight, it gets all trials
    one_or_many: Any = chosen if len(chosen) > 1 else chosen[0]
    found = tune(
        one_or_many,
        workers=int(workers) if workers and workers.isdigit() else workers,
        progress=not quiet,
        early_stop=_early_stop(early_stop),
        transfer=not no_transfer,
        weights=None if of_one else list(weight) or None,
        **passed,
    )
    click.echo(found)


def _of_model(
    file: str, shape: tuple[str, ...], target: str | None, weight: tuple[float, ...]
) -> tuple[list[Any], tuple[float, ...]]:
    """The tasks of a model, and how often it runs each."""
    from whet.commands.models.words import has_range, in_shell_words, tune_words
    from whet.frontends.compile import model_tasks

    if weight:
        raise click.UsageError("--weight: the tasks of a model count as often as it runs them")
    shapes = shapes_of(shape)
    with in_shell_words(tune_words(file, shapes, target, None)):
        found = model_tasks(file, shapes, target)
    if not found:
        why = (
            "no group has a task of all sizes"
            if has_range(shapes)
            else "nothing is computed when it runs"
        )
        raise click.UsageError(f"{file}: {why}")
    return [task for task, _ in found], tuple(float(count) for _, count in found)


def _early_stop(said: str | None) -> bool | int:
    if said is None or said == "gain":
        return said is not None
    if not said.isdigit():
        raise click.UsageError(
            f"--early-stop {said!r}: it takes a number of trials or nothing; a task stands before "
            "it, or after --"
        )
    return int(said)
