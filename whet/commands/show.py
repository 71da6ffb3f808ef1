"""`whet show`: the best program of a log as loops, code or assembly; a model as its groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from whet.autotune.results.trial import Trial
from whet.autotune.tasks.task import Task
from whet.commands.models.words import check_ending, ends_as_model
from whet.commands.words import ManyArgs, load_module, load_task, shapes_of, value

if TYPE_CHECKING:
    from whet.db import RunRecord, TuningLog
    from whet.search_spaces import Workload

DIFFERENT = 8.0
"""The doublings of a size that count like one word that differs, for the nearest workload."""
SHOWN = 12
"""Workloads that are named where none fits."""
WHAT = ("config", "loops", "ll", "asm", "cuda", "ptx", "sass")


@click.command("show", cls=ManyArgs)
@click.argument("log", default="whet.db", metavar="[LOG | MODEL.onnx]")
@click.option("--op", help="The template, where the log holds several workloads.")
@click.option("--args", multiple=True, metavar="VALUE...", help="Its arguments.")
@click.option("--module", help="FILE_OR_MODULE that defines the template, if it is not built in.")
@click.option("--task", "where", help="FILE_OR_MODULE:TASK, for a task without a template.")
@click.option("--device", help='Whose records: "cuda:1", "cuda-emulator"; default: this machine.')
@click.option("--target", help='Whose, where several were tuned: "cuda -arch=sm_90".')
@click.option("--what", type=click.Choice(WHAT), default="loops", show_default=True)
@click.option("--shape", multiple=True, metavar="NAME=SIZES", help="Of a model: batch=1.")
@click.option("--log", "tuned", metavar="LOG", help="Of a model: where its configs come from.")
@click.option("--measure", is_flag=True, help="Of a model: run it, and show each group's time.")
@click.option("-o", "--output", metavar="FILE.svg", help="Of a model: draw its graph.")
def command(
    log: str,
    op: str | None,
    args: tuple[str, ...],
    module: str | None,
    where: str | None,
    device: str | None,
    target: str | None,
    what: str,
    **of_model: Any,
) -> None:
    """The best program that LOG (default: whet.db) has for a task of this machine.

    A log holds configs, not programs: but for --what config, the template has to be here. A task of
    create_task(outputs=...) needs nothing: its compute graph is in the log.

    Of MODEL.onnx: its groups of operators, their work, and which trial of --log tuned them:

    whet show model.onnx --shape batch=1 --log whet.db --measure -o model.svg
    """
    if ends_as_model(log):
        from whet.commands.models.show import show_model

        said = click.get_current_context().get_parameter_source("what")
        if op or args or module or where or said is ParameterSource.COMMANDLINE:
            raise click.UsageError("--op, --args, --module, --task and --what are for a log")
        shapes = shapes_of(of_model.pop("shape"))
        show_model(log, shapes, target, device, **of_model)
        return
    if not Path(log).exists():
        check_ending(log)
    if any(of_model.values()):
        raise click.UsageError("--shape, --log, --measure and -o are for a model: model.onnx")
    from whet.autotune import best_from_log
    from whet.db import TuningLog

    if module:
        load_module(module)
    with TuningLog(log, write=False) as opened:
        config_only = what == "config"
        task = (
            load_task(where, (), target)
            if where
            else _task(opened, op, args, target, device, config_only)
        )
        if not isinstance(task, Task):
            click.echo(task)
            return
        best = best_from_log(task, opened, device)
    click.echo(best if what == "config" else _program(task, best, what))


def _task(
    log: TuningLog,
    op: str | None,
    args: tuple[str, ...],
    target: str | None,
    device: str | None,
    config_only: bool,
) -> Task | Trial:
    """The task that is meant; where a config is enough and its template is not here, its best."""
    from whet.autotune import create_task
    from whet.autotune.results.recorded import known_here

    run = _choose(log, op, tuple(map(value, args)), target)
    if known_here(run.workload, log.runs()):
        return create_task(run.workload.template, run.workload.args, target or run.target)
    wanted = target or run.target
    best = log.best(run.workload, wanted, device, run.fingerprint) if config_only else None
    if best is None:
        raise click.UsageError(_not_here(run.workload, config_only))
    return Trial.of(best)


def _not_here(workload: Workload, config_only: bool) -> str:
    """Why there is no program, and the way out."""
    from whet.search_spaces.graph.family import PREFIX

    if config_only:
        return f"nothing that was measured on this machine worked for {workload}"
    if workload.template.startswith(PREFIX):
        return (
            f"{workload.template!r} was derived from a compute graph, which this log does not "
            "hold; name the task in the code that makes it: --task FILE_OR_MODULE:TASK; "
            "its best config is in the log: --what config"
        )
    return (
        f"template {workload.template!r} is not built in; name the file or module "
        "that defines it: --module FILE_OR_MODULE"
    )


def _program(task: Task, best: Trial, what: str) -> str:
    from whet.autotune import kernel_name
    from whet.compiler import driver

    schedule, tensors = task.instantiate(best.config)
    with task.target:
        if what == "loops":
            return str(driver.lower(schedule, tensors, kernel_name(task), simple_mode=True))
        built = driver.build(schedule, tensors, task.target, name=kernel_name(task))
        return built.get_source(what)


def _choose(log: TuningLog, op: str | None, args: tuple, target: str | None) -> RunRecord:
    """The newest run of the workload that is meant, of the target where there is one."""
    from whet.measure.values import target_json
    from whet.search_spaces.values.shown import in_full, name_of, shown

    runs = log.runs()
    workloads = list(dict.fromkeys(run.workload for run in runs))
    # With its arguments, too, as `whet best` and the list below write it.
    of_op = [w for w in workloads if op in (None, w.template, name_of(w), shown(w), in_full(w))]
    fitting = [w for w in of_op if _fits(w, args)]
    if len(fitting) == 1:
        newest = [run for run in reversed(runs) if run.workload == fitting[0]]
        wanted = target_json(target) if target else newest[0].target
        return next((run for run in newest if run.target == wanted), newest[0])
    if not fitting and (op is not None or args):
        near = [w for w in of_op if _begins(w, args)] or of_op or workloads
        raise click.UsageError(_none_fits(log, op, args, near))
    if not fitting:
        raise click.UsageError(f"{log.location} holds nothing yet: whet tune --log {log.location}")
    held = "\n".join(f"  {in_full(w)}" for w in fitting)
    which = "several workloads fit; name one by --op and --args"
    raise click.UsageError(f"{which}. The log holds:\n{held}")


def _none_fits(log: TuningLog, op: str | None, args: tuple, workloads: list[Workload]) -> str:
    """The workload that was named is not there; those that are, the nearest first."""
    from whet.db.values.identity import distance
    from whet.search_spaces.values.shown import in_full

    def away(workload: Workload) -> float:
        return distance(workload.args[: len(args)], args, DIFFERENT)

    words = [*(["--op", op] if op else []), *(["--args", *map(str, args)] if args else [])]
    near = sorted(workloads, key=away) if args else workloads
    held = "\n".join(f"  {in_full(w)}" for w in near[:SHOWN]) or "  (nothing)"
    more = f"\n  ... and {len(near) - SHOWN} more" if len(near) > SHOWN else ""
    why = f"no workload fits {' '.join(words)}"
    return f"{why}; {log.location} holds, the nearest first:\n{held}{more}"


def _fits(workload: Workload, args: tuple) -> bool:
    """True if the arguments mean this workload, the template's defaults filled in as by tune."""
    from whet.compiler.errors import WhetError
    from whet.search_spaces import get_template

    if not args:
        return True
    try:
        return get_template(workload.template).workload(*args) == workload
    except WhetError:  # the template is not known here, or more arguments are needed
        return _begins(workload, args)


def _begins(workload: Workload, args: tuple) -> bool:
    from whet.search_spaces import Workload

    start = Workload(workload.template, workload.args[: len(args)])
    return start == Workload(workload.template, args)
