"""`whet check-kernel`: a sanitizer for GPU kernels on a machine without a GPU."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.commands.time_limit import within
from whet.commands.words import ManyArgs, Seconds, load_module, value

if TYPE_CHECKING:
    from whet.compiler.emulator.sanitizer.expectations import Expectations
    from whet.compiler.emulator.sanitizer.sanitize import Checked

CLEAN = "no race, no barrier that threads miss, nothing out of bounds or read before it was written"


@click.command("check-kernel", cls=ManyArgs)
@click.argument("where", metavar="FILE.cu|FILE.py:NAME")
@click.option("--launch", "launches", multiple=True, metavar="LAUNCH", help="Of a .cu file.")
@click.option(
    "-D",
    "--define",
    "defines",
    multiple=True,
    metavar="NAME=VALUE",
    help="A macro of a .cu file, as nvcc -D.",
)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME=WHAT",
    help="What an array of a .cu file's kernel holds afterwards: y=2*x+y, y=@file.npy.",
)
@click.option("--rtol", type=click.FloatRange(0), help="Of --expect; by the type if left out.")
@click.option("--atol", type=click.FloatRange(0), help="Of --expect; by the type if left out.")
@click.option("--args", multiple=True, metavar="VALUE...", help="Of the function or template.")
@click.option("--size", "sizes", multiple=True, metavar="NAME=N", help="Of a symbolic size.")
@click.option("--target", default="cuda", show_default=True, help="Of a schedule.")
@click.option("--orders", type=click.IntRange(1), default=4, show_default=True)
@click.option(
    "--timeout", type=Seconds(), default="60", show_default=True, help="Of each launch, in seconds."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the arrays' values.")
def command(
    where: str,
    launches: tuple[str, ...],
    defines: tuple[str, ...],
    expected: tuple[str, ...],
    rtol: float | None,
    atol: float | None,
    args: tuple[str, ...],
    sizes: tuple[str, ...],
    target: str,
    orders: int,
    timeout: float,
    seed: int,
) -> None:
    """Run a kernel in the emulator, in several orders of its threads, and look at every access.

    Found are races, barriers that some threads miss, accesses out of bounds, reads of memory that
    nothing has written, misaligned vectors, and wrong numbers of a schedule.

    NAME is a template, a task, or a function that returns a schedule and its arguments:

    whet check-kernel schedules.py:matmul --args 64 64 64

    A .cu file needs launches, from --launch or from comments in it; an array is its type and shape,
    with "out" if the kernel fills it:

    whet check-kernel saxpy.cu --launch "saxpy<<<4, 256>>>(999, 2.0f, float32[999], float32[999])"

    // whet: saxpy<<<4, 256>>>(999, 2.0f, float32[999], float32[999])

    That is y = a * x + y, which reads y; an array with "out" holds nothing that may be read. Others
    hold drawn numbers, or what is said: int32[8]=zeros, =ones, =iota, =7, =@file.npy. Names in
    --expect are the kernel's parameters before the launch, np is numpy:

    whet check-kernel saxpy.cu --launch "..." --expect "y=a*x+y" --rtol 1e-5

    A template's arguments stand behind its name, and macros in -D:

    whet check-kernel gemm.cu -D TILE=32 --launch "gemm<float><<<4, 256>>>(out float32[64, 64], 64)"
    """
    if where.endswith((".cu", ".cuh")):
        if args or sizes:
            raise click.UsageError("--args and --size are for schedules; a .cu file has --launch")
        expectations = _expectations(expected, rtol, atol)
        checked = _check_file(
            Path(where), launches, _macros(defines), orders, seed, timeout, expectations
        )
    elif launches or defines or expected:
        raise click.UsageError(
            "--launch and -D are for a .cu file, and --expect; a schedule's launches are its own, "
            "and its numbers are compared with those of its plain loops"
        )
    else:
        checked = [_check_schedule(where, args, sizes, target, orders, seed, timeout)]
    for one in checked:
        click.echo(_said(one))


def _check_file(
    path: Path,
    launches: tuple[str, ...],
    macros: dict[str, str],
    orders: int,
    seed: int,
    timeout: float,
    expected: Expectations | None,
) -> list[Checked]:
    from whet.compiler.emulator.sanitizer.launch_text import HOW, launches_in
    from whet.compiler.emulator.sanitizer.sanitize import check_launch

    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    source = path.read_text()
    found = list(launches) or launches_in(source)
    if not found:
        raise click.UsageError(f"no launch is given, and none stands in {path}: --launch '{HOW}'")
    return [
        within(
            timeout,
            f"checking {launch}",
            partial(check_launch, source, launch, orders, seed, macros, expected),
        )
        for launch in found
    ]


def _check_schedule(
    where: str,
    args: tuple[str, ...],
    sizes: tuple[str, ...],
    target: str,
    orders: int,
    seed: int,
    timeout: float,
) -> Checked:
    from whet.compiler.emulator.sanitizer.sanitize import check_schedule
    from whet.compiler.target import Target

    chosen = Target(target)
    if str(chosen.kind) != "cuda":
        raise click.UsageError(f"--target {target}: the emulator runs kernels of kind cuda")
    with chosen:
        schedule, arguments, name = _schedule(where, tuple(map(value, args)), chosen)
    work = partial(check_schedule, schedule, arguments, chosen, orders, seed, _sizes(sizes), name)
    return within(timeout, f"checking {name}", work)


def _schedule(where: str, args: tuple[Any, ...], target: Any) -> tuple[Any, list[Any], str]:
    """The schedule that ``FILE.py:NAME`` names, its arguments and its name."""
    from whet.autotune import Task, create_task
    from whet.search_spaces import Template

    place, colon, name = where.rpartition(":")
    if not colon or not place or not name:
        raise click.UsageError(f"{where!r} is neither FILE.cu nor FILE.py:NAME")
    found: Any = getattr(load_module(place), name, None)
    if isinstance(found, Template):
        found = create_task(found, args, target)
    if isinstance(found, Task):
        return *found.instantiate(), name
    if not callable(found):
        raise click.UsageError(f"{place} has no template, task or function {name!r}")
    _check_arguments(found, name, args)
    made = found(*args)
    if isinstance(made, Task):
        return *made.instantiate(), name
    if not isinstance(made, tuple) or len(made) != 2:
        raise click.UsageError(
            f"{name} returns {type(made).__name__}: not a schedule and arguments"
        )
    return made[0], list(made[1]), name


def _check_arguments(function: Any, name: str, args: tuple[Any, ...]) -> None:
    from whet.compiler.errors import ArgumentError

    signature = inspect.signature(function)
    try:
        signature.bind(*args)
    except TypeError as error:
        raise ArgumentError(
            f"{name} with {len(args)} arguments", str(error), f"it is {name}{signature}"
        ) from None


def _macros(given: tuple[str, ...]) -> dict[str, str]:
    """Macros by their names; one without a value is 1, as of a compiler."""
    macros = {}
    for text in given:
        name, equals, content = text.partition("=")
        if not name.isidentifier():
            raise click.UsageError(f"-D {text}: write NAME=VALUE, e.g. -D block_size_x=128")
        macros[name] = content if equals else "1"
    return macros


def _expectations(
    given: tuple[str, ...], rtol: float | None, atol: float | None
) -> Expectations | None:
    from whet.compiler.emulator.sanitizer.expectations import HOW_EXPECTED, Expectations

    texts = {}
    for text in given:
        name, equals, what = text.partition("=")
        if not equals or not name.strip().isidentifier() or not what.strip():
            raise click.UsageError(f"--expect {text}: write NAME=WHAT, e.g. {HOW_EXPECTED}")
        texts[name.strip()] = what.strip()
    if not texts and (rtol is not None or atol is not None):
        raise click.UsageError("--rtol and --atol say how near to what is given by --expect")
    return Expectations(texts, rtol, atol) if texts else None


def _sizes(given: tuple[str, ...]) -> dict[str, int]:
    sizes = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not equals or not number.strip().isdigit():
            raise click.UsageError(f"--size {text}: write NAME=N, e.g. n=37")
        sizes[name.strip()] = int(number)
    return sizes


def _said(checked: Checked) -> str:
    many = len(checked.orders)
    compared = f", {checked.numbers}" if checked.compared else ""
    said = f"{checked.kernel}: {many} order{'s' * (many != 1)} of threads: {CLEAN}{compared}"
    if not checked.unwatched:
        return said
    return f"{said}\n  as far as memory is looked at; not looked at: {', '.join(checked.unwatched)}"
