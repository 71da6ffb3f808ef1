"""Words of a command line: lists of values, values, times, and tasks from files."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import traceback
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.compiler.errors import ArgumentError, WhetError

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.autotune.loading import SearchWhileLoading


TIME = r"([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+)\s*([a-z]*)"


LONGEST_S = 1e9
"""Seconds of the longest time that a command takes: some thirty years."""


class ManyArgs(click.Command):
    """A command whose ``--args`` takes all values up to the next option: ``--args 1 2 3``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread(args))


def spread(words: list[str]) -> list[str]:
    """``--args 1 2 --x`` as ``--args=1 --args=2 --x``."""
    spread_words: list[str] = []
    taking = False
    for word in words:
        number = word[1:2].isdigit()
        if word == "--args":
            taking = True
        elif taking and (number or not word.startswith("-")):
            spread_words.append(f"--args={word}")
        else:
            taking = False
            spread_words.append(word)
    return spread_words


def value(word: str) -> Any:
    """A template's argument from its text: a Python literal, true or false, else the text."""
    if word in ("true", "false"):
        return word == "true"
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word


class Seconds(click.ParamType):
    """A time with its unit, in seconds: ``90``, ``10min``, ``0.5ms``.

    Args:
        least: seconds that are taken.
    """

    name = "time"
    units = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}

    def __init__(self, least: float = 0.0) -> None:
        self.least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(TIME, str(value).strip())
        if found is None or found[2] not in self.units:
            units = ", ".join(unit for unit in self.units if unit)
            self.fail(f"{value!r} is not a time; write 90, or a unit with it: {units}", param, ctx)
        seconds = float(found[1]) * self.units[found[2]]
        if not self.least <= seconds <= LONGEST_S:
            self.fail(f"{value!r} is not within {self.least:g} s and {LONGEST_S:g} s", param, ctx)
        return seconds


def load_module(where: str) -> types.ModuleType:
    """Import a module by a file's path or by its dotted name.

    Raises:
        click.UsageError: there is no such file or module.
    """
    path = Path(where)
    sys.path.insert(0, str(path.resolve().parent if path.suffix == ".py" else Path.cwd()))
    if path.suffix != ".py":
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{where}.".startswith(f"{error.name}."):
                raise  # the module is there; what it imports is not
            raise click.UsageError(f"there is no module {where!r}; a file ends in .py") from error
    if not path.is_file():
        raise click.UsageError(f"there is no file {where}")
    # A file is a script: it runs here, once. Its templates travel to the workers by value, so that
    # none of them runs it again, whatever stands at its top level.
    name = f"whet_file_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path.resolve()):
        return known
    module = types.ModuleType(name)
    module.__file__ = str(path.resolve())
    sys.modules[module.__name__] = module
    from whet.autotune.loading import SearchWhileLoading, loading

    try:
        with loading(where), users_code(where):
            exec(compile(path.read_bytes(), str(path.resolve()), "exec"), module.__dict__)
    except SearchWhileLoading as search:
        _say_where_it_ended(search, path.resolve())
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def users_code(where: str) -> Iterator[None]:
    """Say in three parts what an exception of a user's own code was; Whet's errors do already.

    Args:
        where: the file or the module, for the error.

    Raises:
        ArgumentError: the code inside raised.
    """
    try:
        yield
    except (WhetError, click.ClickException):
        raise
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
        place = ""
        if frames and not isinstance(error, SyntaxError):  # whose text has it
            place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
        said = (str(error).strip() or "no text").splitlines()[0]
        raise ArgumentError(
            f"load {where}",
            f"it raises {type(error).__name__}: {said}{place}",
            "mend it; python shows all of it where the file runs alone",
        ) from error


def _say_where_it_ended(search: SearchWhileLoading, path: Path) -> None:
    """Say at which line a file called ``tune()``: what stands below it was not loaded."""
    lines = [
        f.lineno for f in traceback.extract_tb(search.__traceback__) if f.filename == str(path)
    ]
    click.echo(
        f"{path.name}: loaded up to line {lines[0]}, which begins a search; whatever is to be "
        'loaded must stand above it, or the search under `if __name__ == "__main__":`',
        err=True,
    )


def place_and_name(where: str, otherwise: str) -> tuple[str, str]:
    """The file or module of ``PLACE:NAME``, and the name in it.

    Raises:
        click.UsageError: it has another form.
    """
    place, _, name = where.rpartition(":")
    if not place or not name:
        raise click.UsageError(f"{where!r} {otherwise}")
    return place, name


def load_task(
    where: str,
    args: tuple[Any, ...],
    target: str | None,
    space: str | None = None,
    implied: str | None = None,
) -> Task:
    """The task that ``FILE_OR_MODULE:TASK`` names.

    Args:
        where: names a Task, a function without arguments that makes one, or a template.
        args: the template's arguments.
        target: the template's target.
        space: the level of the template's space; None: ``"full"``.
        implied: a template's target where none is named; a Task has its own.

    Raises:
        click.UsageError: it names nothing of the kind.
    """
    from whet.autotune import Task, create_task
    from whet.search_spaces import Template

    place, name = place_and_name(where, "is not FILE_OR_MODULE:TASK, e.g. kernels.py:task")
    module = load_module(place)
    named: Any = getattr(module, name, None)
    if isinstance(named, Template):
        return create_task(named, args, target or implied, space=space or "full")
    if args or target or space:
        raise click.UsageError(
            f"--args, --target and --space are for a template; {name} is not one"
        )
    if callable(named):
        named = named()
    if isinstance(named, Task):
        return named
    known = [n for n, v in vars(module).items() if isinstance(v, Task | Template)]
    raise click.UsageError(
        f"{place} has no task {name!r}; its tasks and templates: {', '.join(known) or '(none)'}"
    )


def is_model(words: tuple[str, ...]) -> bool:
    """True for the name of a model's file, alone."""
    from whet.commands.models.words import check_ending, ends_as_model

    for word in words:
        if not ends_as_model(word):
            check_ending(word)
    return len(words) == 1 and ends_as_model(words[0])


def shapes_of(words: Iterable[str]) -> dict[str, Any]:
    """The sizes of a command's ``--shape`` options, by their names.

    Raises:
        click.UsageError: a name is there twice, or one names no sizes.
    """
    found: dict[str, Any] = {}
    for said in words:
        name, sizes = _sizes_of(said)
        if name in found:
            raise click.UsageError(
                f"--shape {said}: {name!r} has sizes already; several: --shape {name}=20,30"
            )
        found[name] = sizes
    return found


def _sizes_of(said: str) -> tuple[str, Any]:
    """The name of an input with its shape, or of a dimension with its size: ``batch=1``.

    ``batch=1..64`` is a size that stays a symbol, ``height=64..512..32`` one in steps.

    Raises:
        click.UsageError: it is something else.
    """
    name, _, sizes = said.partition("=")
    parts = [p.strip() for p in sizes.split(",")]
    if not name or not all(re.fullmatch(r"\d+(\.\.\d+){0,2}", p) for p in parts):
        raise click.UsageError(
            f"--shape {said!r}: e.g. batch=1, x=1,3,224,224, batch=1..64, or height=64..512..32, "
            "in steps of 32; a --shape for each name"
        )
    try:
        numbers = tuple(map(_size, parts))
    except ArgumentError as error:
        raise click.UsageError(
            f"--shape {said}: {error.args[1]}, e.g. 1..64 or 64..512..32"
        ) from error
    return name, numbers[0] if len(numbers) == 1 else numbers


def sizes_at(said: str) -> dict[str, int]:
    """The names of ranges with a size of each: ``batch=8,length=128``.

    Raises:
        click.UsageError: it is something else.
    """
    parts = [re.fullmatch(r"\s*(.+?)\s*=\s*(\d+)\s*", part) for part in said.split(",")]
    if None in parts:
        raise click.UsageError(f"--at {said!r}: e.g. batch=8, or batch=8,length=128")
    sizes = {part[1]: int(part[2]) for part in parts if part}
    if len(sizes) < len(parts):
        raise click.UsageError(f"--at {said!r}: each name once; each --at is compared by itself")
    return sizes


def _size(said: str) -> Any:
    """A size, or a range of sizes."""
    size, *more = map(int, said.split(".."))
    if not more:
        return size
    from whet.compiler.graph.symbolic.sizes import dynamic

    return dynamic(size, *more)
