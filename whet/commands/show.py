"""`whet show`: the best program of a log as loops, LLVM IR or assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whet.commands.words import ManyArgs, load_module, value

if TYPE_CHECKING:
    from whet.db import RunRecord, TuningLog

WHAT = ("config", "loops", "ll", "asm")


@click.command("show", cls=ManyArgs)
@click.argument("log", default="whet.db")
@click.option("--op", help="The template, where the log holds several workloads.")
@click.option("--args", multiple=True, metavar="VALUE...", help="Its arguments.")
@click.option("--module", help="FILE_OR_MODULE that defines the template, if it is not built in.")
@click.option("--what", type=click.Choice(WHAT), default="loops", show_default=True)
def command(log: str, op: str | None, args: tuple[str, ...], module: str | None, what: str) -> None:
    """The best program that LOG (default: whet.db) has for a task of this machine."""
    from whet.autotune import best_from_log, create_task, kernel_name
    from whet.db import TuningLog

    if module:
        load_module(module)
    with TuningLog(log, write=False) as opened:
        run = _choose(opened, op, tuple(map(value, args)))
        task = create_task(run.workload.template, run.workload.args, run.target)
        best = best_from_log(task, opened)
        if what == "config":
            click.echo(best)
            return
        from whet.compiler import driver

        schedule, tensors = task.instantiate(best.config)
        with task.target:
            if what == "loops":
                click.echo(driver.lower(schedule, tensors, kernel_name(task), simple_mode=True))
            else:
                built = driver.build(schedule, tensors, task.target, name=kernel_name(task))
                click.echo(built.get_source(what))


def _choose(log: TuningLog, op: str | None, args: tuple) -> RunRecord:
    """The newest run of the workload that is meant."""
    from whet.search_spaces import Workload

    def meant(workload: Workload) -> bool:
        # Defaults of the signature need not be given.
        start = Workload(workload.template, workload.args[: len(args)])
        return op in (None, workload.template) and start == Workload(workload.template, args)

    runs = log.runs()
    workloads = list(dict.fromkeys(run.workload for run in runs))
    fitting = [w for w in workloads if meant(w)]
    if len(fitting) == 1:
        return next(run for run in reversed(runs) if run.workload == fitting[0])
    held = "\n".join(f"  {w}" for w in workloads) or "  (nothing)"
    which = "several workloads fit" if fitting else "no workload fits"
    raise click.UsageError(f"{which}; name one by --op and --args. The log holds:\n{held}")
