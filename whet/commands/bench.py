"""`whet bench`: an operator's, or a model's, default and tuned kernels beside its peers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from whet.commands.words import is_model, load_module, shapes_of, sizes_at, value
from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.bench.comparison import Comparison
    from whet.bench.contest import Place
    from whet.compiler.runtime.arrays.device import Device
    from whet.compiler.runtime.module import Module
    from whet.compiler.target import Target


DEFAULT_LOG = "whet.db"


class _Negative(click.Command):
    """A command whose arguments may be negative numbers: ``-1`` is an axis, not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A word that begins with a space is no option, and a number all the same.
        return super().parse_args(ctx, [f" {w}" if re.match(r"-\d", w) else w for w in args])


@click.command("bench", cls=_Negative)
@click.argument("op", metavar="OP | MODEL.onnx")
@click.argument("args", nargs=-1, metavar="[VALUE]...")
@click.option("--module", metavar="FILE", help="Imported first: the module of a template of yours.")
@click.option("--trials", type=int, help="Tune first, until the log has so many trials.")
@click.option("--log", show_default=DEFAULT_LOG, help="Where tuned configs come from.")
@click.option("--threads", type=click.IntRange(1), help="For each; default: the target's.")
@click.option("--target", default="llvm", show_default=True, help="What to compile for.")
@click.option("--device", help="A GPU, e.g. cuda:0, whose kernels are compared.")
@click.option("--rounds", type=click.IntRange(1), help="Default: 60 of 5 ms, on a GPU 15.")
@click.option("--plot", metavar="FILE", help="Draw the roofline: FILE.svg, or FILE.png.")
@click.option("--shape", multiple=True, metavar="NAME=SIZES", help="Of a model: batch=1.")
@click.option(
    "--at", multiple=True, metavar="NAME=SIZE,...", help="A size of each range: batch=8,length=64."
)
@click.option("--compile/--no-compile", "compiled", default=True, help="torch.compile as a peer.")
def command(
    op: str,
    args: tuple[str, ...],
    module: str | None,
    trials: int | None,
    log: str | None,
    threads: int | None,
    target: str,
    device: str | None,
    rounds: int | None,
    plot: str | None,
    shape: tuple[str, ...],
    at: tuple[str, ...],
    compiled: bool,
) -> None:
    """OP, a template, with its arguments: default, tuned, peers and the machine's limits.

    Everything is checked against numpy in float64 and timed in turns, in one process. The tuned
    config comes from --log; with --trials, it is searched for first.

    whet bench matmul 1024 1024 1024 --trials 100 --plot matmul.svg

    whet bench softmax "(1024, 1024)"

    whet bench matmul 4096 4096 4096 --device cuda:0

    Of MODEL.onnx the peers are onnxruntime and OpenVINO, held to float32:

    whet bench model.onnx --shape batch=1 --log whet.db

    whet bench model.onnx --shape batch=1..64 --at batch=8
    """
    if is_model((op,)):
        said = click.get_current_context().get_parameter_source("compiled")
        if module is not None or said is ParameterSource.COMMANDLINE:
            raise click.UsageError("--module and --compile are for an operator, not for a model")
        _model(op, args, shape, at, target, threads, device, log, rounds, trials, plot)
        return
    if shape or at:
        word = "--shape" if shape else "--at"
        raise click.UsageError(f"{word} is for a model: whet bench model.onnx --shape batch=1")
    gpu = device is not None or target.split()[:1] == ["cuda"]
    chosen = _on_gpu(target, device or "cuda:0") if gpu else _on_cores(target, threads)
    from whet.autotune import create_task
    from whet.bench.arguments import check_work
    from whet.bench.contest import compare
    from whet.bench.drawing import check_file
    from whet.commands.usage import check_arguments

    if plot is not None:
        check_file(plot)
    if module is not None:
        load_module(module)
    values = tuple(value(word.strip()) for word in args)
    check_arguments(op, values)
    task = create_task(op, values, chosen.target)
    check_work(task)
    kernels = _kernels(task, trials, log, chosen.device)
    found = compare(chosen.place, task, kernels, rounds or (15 if gpu else 60), compiled)
    _show(found, plot)


def _model(
    file: str,
    args: tuple[str, ...],
    shape: tuple[str, ...],
    at: tuple[str, ...],
    target: str,
    threads: int | None,
    device: str | None,
    log: str | None,
    rounds: int | None,
    trials: int | None,
    plot: str | None,
) -> None:
    """Compare a model."""
    from whet.commands.models.bench import bench_model

    if device is not None or target.split()[:1] == ["cuda"]:
        raise click.UsageError(
            "a model is compared on a CPU; on a GPU: whet show model.onnx --device cuda:0 --measure"
        )
    if args or plot is not None:
        raise click.UsageError("VALUE and --plot are for an operator; a model takes --shape")
    if trials is not None:
        raise click.UsageError("whet tune model.onnx --trials ... tunes a model")
    shapes, named = shapes_of(shape), target
    if threads is not None:
        named = f"{target} -num_threads={threads}"
    sizes = [sizes_at(one) for one in at]
    bench_model(file, shapes, sizes, _on_cores(target, threads).target, named, log, rounds)


@dataclass(frozen=True)
class _Choice:
    """The target of kernels, the device that runs them (None: cores), and it as a place."""

    target: Target
    device: Device | None
    place: Place


def _on_cores(target: str, threads: int | None) -> _Choice:
    """Cores of the CPU; sets the threads of libraries, which they read when they are loaded."""
    from whet.bench.turns import library_threads
    from whet.compiler.target import Target
    from whet.compiler.target.machine.host import affinity

    allowed = len(affinity())
    if threads is not None and threads > allowed:
        raise ArgumentError(
            f"whet bench --threads {threads}",
            f"this process may run on {allowed} cores, and the limits of more would be made up",
            f"--threads {allowed} takes all of them",
        )
    chosen = Target(f"{target} -num_threads={threads}" if threads else target).canonical()
    library_threads(chosen.num_threads)
    from whet.bench.cpu.place import cores

    return _Choice(chosen, None, cores(chosen.num_threads))


def _on_gpu(target: str, device: str) -> _Choice:
    """A GPU, for whose architecture kernels are built unless the target names one."""
    from whet.bench.gpu.place import gpu
    from whet.compiler.runtime.arrays.device import context_of
    from whet.compiler.runtime.arrays.device import device as device_of
    from whet.compiler.target import Target

    where = device_of(device)
    if where.type != "cuda":
        raise ArgumentError(
            f"whet bench --device {device}",
            f"times of {where.type} say nothing about a GPU",
            "--device cuda:0 is the first one; without --device the CPU is measured",
        )
    named = target if target.split()[:1] == ["cuda"] else "cuda"
    if "-arch" not in named:
        named += f" -arch={context_of(where).properties.arch}"
    return _Choice(Target(named).canonical(), where, gpu(where))


def _show(found: Comparison, plot: str | None) -> None:
    """The table, and the drawing if there is to be one."""
    from whet.bench.table import bound_of, notes_of, table_of

    click.echo(bound_of(found))
    for line in table_of(found):
        click.echo(line)
    for note in notes_of(found):
        click.echo(f"note: {note}")
    for said in found.left_out:
        click.echo(f"not compared: {said}")
    if plot is not None:
        _draw(found, plot)


def _kernels(
    task: Task, trials: int | None, named: str | None, device: Device | None = None
) -> dict[str, Module]:
    """The default kernel, and the tuned one if the log has it; on the CPU or on a GPU.

    Raises:
        LogError: a log that was named cannot be opened; the default one need not be there.
    """
    from whet.autotune import tune
    from whet.autotune.deploy import build_from_log, kernel_name
    from whet.compiler import driver
    from whet.compiler.errors import LogError
    from whet.db import TuningLog
    from whet.measure import MeasureOptions
    from whet.measure.device.identity import text_of

    log = DEFAULT_LOG if named is None else named
    if trials is not None:
        options = MeasureOptions(flush_l2=device is not None)  # as they are compared
        tune(task, trials=trials, log=log, device=device, options=options)
    elif named is not None:
        TuningLog(named, write=False).close()
    schedule, tensors = task.instantiate()
    kernels = {"default": driver.build(schedule, tensors, task.target, name=kernel_name(task))}
    try:
        kernels["tuned"] = build_from_log(task, log, None if device is None else text_of(device))
    except LogError as error:
        why = str(error).splitlines()[0]
        click.echo(f"not tuned: {why}; --trials 200 tunes it now", err=True)
    return kernels


def _draw(found: Comparison, path: str) -> None:
    from dataclasses import replace

    from whet.bench.cpu.limits import levels
    from whet.bench.drawing import draw
    from whet.bench.roofline import chart_of

    each = () if found.place else levels()
    if found.threads > 1:  # each core has these for itself; the others they share
        own = [level for level in each if level.name in ("L1", "L2")]
        each = tuple(replace(v, bandwidth=v.bandwidth * found.threads) for v in own)
    draw(chart_of(found, each), path)
    click.echo(path)
