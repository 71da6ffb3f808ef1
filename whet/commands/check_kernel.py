"""`whet check-kernel`: a sanitizer for GPU kernels on a machine without a GPU."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.commands.time_limit import within
from whet.commands.words import ManyArgs, Seconds, load_module, place_and_name, value
from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.compiler.emulator.sanitizer.expectations import Expectations
    from whet.compiler.emulator.sanitizer.sanitize import Checked

Checks = list[tuple[str, Callable[..., "Checked"]]]
"""Of each kernel its launch or name, and its check."""
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
        checks = _of_file(Path(where), launches, _macros(defines), expectations)
    elif launches or defines or expected:
        raise click.UsageError(
            "--launch and -D are for a .cu file, and --expect; a schedule's launches are its own, "
            "and its numbers are compared with those of its plain loops"
        )
    else:
        checks = _of_schedule(where, args, sizes, target)
    checked = [
        within(timeout, f"checking {name}", partial(check, orders=orders, seed=seed))
        for name, check in checks
    ]
    click.echo("\n".join(map(_said, checked)))


def _of_file(
    path: Path, launches: tuple[str, ...], macros: dict[str, str], expected: Expectations | None
) -> Checks:
    """The checks of a file's launches, by their texts."""
    from whet.compiler.emulator.sanitizer.launch_text import HOW, launches_in
    from whet.compiler.emulator.sanitizer.sanitize import check_launch

    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    source = path.read_text()
    texts = list(launches) or launches_in(source)
    if not texts:
        raise click.UsageError(f"no launch is given, and none stands in {path}: --launch '{HOW}'")
    check = partial(check_launch, source, defines=macros, expected=expected)
    return [(text, partial(check, text)) for text in texts]


def _of_schedule(where: str, args: tuple[str, ...], sizes: tuple[str, ...], target: str) -> Checks:
    """The check of a schedule, by its name."""
    from whet.compiler.emulator.sanitizer.sanitize import check_schedule
    from whet.compiler.target import Target

    chosen = Target(target)
    if str(chosen.kind) != "cuda":
        raise click.UsageError(f"--target {target}: the emulator runs kernels of kind cuda")
    with chosen:
        schedule, arguments, name = _schedule(where, tuple(map(value, args)), chosen)
    check = partial(check_schedule, sizes=_sizes(sizes), name=name)
    return [(name, partial(check, schedule, arguments, chosen))]


def _schedule(where: str, args: tuple[Any, ...], target: Any) -> tuple[Any, list[Any], str]:
    """The schedule that ``FILE.py:NAME`` names, its arguments and its name."""
    from whet.autotune import Task, create_task
    from whet.search_spaces import Template

    place, name = place_and_name(where, "is neither FILE.cu nor FILE.py:NAME")
    named: Any = getattr(load_module(place), name, None)
    if isinstance(named, Template):
        named = create_task(named, args, target)
    elif callable(named):
        _check_arguments(named, name, args)
        named = named(*args)
    elif not isinstance(named, Task):
        raise click.UsageError(f"{place} has no template, task or function {name!r}")
    if isinstance(named, Task):
        named = named.instantiate()
    if not isinstance(named, tuple) or len(named) != 2:
        raise click.UsageError(
            f"{name} returns {type(named).__name__}: not a schedule and arguments"
        )
    return named[0], list(named[1]), name


def _check_arguments(function: Any, name: str, args: tuple[Any, ...]) -> None:
    signature = inspect.signature(function)
    try:
        signature.bind(*args)
    except TypeError as error:
        raise ArgumentError(
            f"{name} with {len(args)} arguments", str(error), f"it is {name}{signature}"
        ) from None


def _macros(given: tuple[str, ...]) -> dict[str, str]:
    """Macros by their names; one without a value is 1, as of a compiler."""
    texts = (text if "=" in text else f"{text}=1" for text in given)
    return _pairs(texts, "-D", "NAME=VALUE, e.g. -D block_size_x=128")


def _expectations(
    given: tuple[str, ...], rtol: float | None, atol: float | None
) -> Expectations | None:
    from whet.compiler.emulator.sanitizer.expectations import HOW_EXPECTED, Expectations

    texts = _pairs(given, "--expect", f"NAME=WHAT, e.g. {HOW_EXPECTED}", bool)
    if not texts and (rtol is not None or atol is not None):
        raise click.UsageError("--rtol and --atol say how near to what is given by --expect")
    return Expectations(texts, rtol, atol) if texts else None


def _sizes(given: tuple[str, ...]) -> dict[str, int]:
    texts = _pairs(given, "--size", "NAME=N, e.g. n=37", str.isdigit)
    return {name: int(number) for name, number in texts.items()}


def _pairs(
    given: Iterable[str],
    option: str,
    form: str,
    fits: Callable[[str], bool] = lambda content: True,
) -> dict[str, str]:
    """The names and contents of ``NAME=CONTENT``.

    Raises:
        click.UsageError: a text has another form, or its content does not fit.
    """
    pairs = {}
    for text in given:
        name, equals, content = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier() or not fits(content):
            raise click.UsageError(f"{option} {text}: write {form}")
        pairs[name] = content
    return pairs


def _said(checked: Checked) -> str:
    many = len(checked.orders)
    compared = f", {checked.numbers}" if checked.compared else ""
    said = f"{checked.kernel}: {many} order{'s' * (many != 1)} of threads: {CLEAN}{compared}"
    if not checked.unwatched:
        return said
    return f"{said}\n  as far as memory is looked at; not looked at: {', '.join(checked.unwatched)}"
