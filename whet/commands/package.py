"""`whet package`: the kernels of a project, each with its best config, in one file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.commands.words import is_model, load_module, place_and_name, shapes_of, users_code
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.compiler.runtime.package.index import Index, Library, Variant

FALLBACKS = ("none", "device", "shape")
"""Fallbacks of ``whet.db.choose``, which is not loaded to show a help text."""


@click.command("package")
@click.argument("tasks", nargs=-1, metavar="[FILE_OR_MODULE:TASKS]... | MODEL.onnx")
@click.option("--log", help="A file or a database's URL, with the tasks' best configs.")
@click.option("-o", "output", metavar="FILE", help="The package to write, by custom in .whet.")
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="LEVEL",
    help="Make code for own (the tasks' targets), x86-64-v4, x86-64-v3, x86-64-v2, aarch64; may "
    "occur several times; default: own and the older ones.",
)
@click.option("--device", help="Whose records count, by fingerprint; default: this machine's.")
@click.option(
    "--fallback",
    type=click.Choice(FALLBACKS),
    help="How far to go for a task without a record of that device; default: device, or none with "
    "--device.",
)
@click.option("--untuned", is_flag=True, help="A task without a record takes its default config.")
@click.option(
    "--cc", "compilers", multiple=True, metavar="ARCH=COMMAND", help="Which C compiler links."
)
@click.option("--shape", multiple=True, metavar="NAME=SIZES", help="Of a model: e.g. batch=1.")
@click.option("--target", help="Of a model: what to compile for; default: this machine's CPU.")
@click.option("--show", metavar="FILE", help="Say what a package holds; nothing of it runs.")
def command(
    tasks: tuple[str, ...],
    log: str | None,
    output: str | None,
    levels: tuple[str, ...],
    device: str | None,
    fallback: str | None,
    untuned: bool,
    compilers: tuple[str, ...],
    shape: tuple[str, ...],
    target: str | None,
    show: str | None,
) -> None:
    """Write kernels to one file that loads without a compiler, in Python and in C.

    TASKS is a task in a file or module (kernels.py:task), a list of tasks, a dict that names them,
    or a function that makes one of these. Of each kernel there is code for several CPUs; whet.load
    and whet/package.h take the widest that runs. A package is native code: load what you trust.

    whet package kernels.py:tasks --log whet.db -o kernels.whet

    whet package --show kernels.whet

    Or a whole model, whose kernels without a record have their default configs; for this machine's
    processor, for one --target, or for each --level:

    whet package model.onnx --shape batch=1 --log whet.db -o model.whet
    """
    if show is not None:
        others = (tasks, output, log, levels, device, fallback, untuned, compilers, shape, target)
        if any(others):
            raise click.UsageError("--show FILE stands alone")
        _show(show)
        return
    if is_model(tasks) and output is None:
        raise click.UsageError(f"-o FILE is missing: whet package {tasks[0]} ... -o model.whet")
    if not tasks or output is None:
        raise click.UsageError(
            "give FILE_OR_MODULE:TASKS, or MODEL.onnx, and -o FILE; or --show FILE"
        )
    if is_model(tasks):
        if device or fallback or untuned or compilers:
            raise click.UsageError("--shape, --log, --target and --level alone are a model's")
        _package_model(tasks[0], output, log, shapes_of(shape), target, levels)
    elif shape or target:
        raise click.UsageError("--shape and --target are for a model: whet package model.onnx ...")
    else:
        choice = {"levels": levels, "device": device, "fallback": fallback, "untuned": untuned}
        _package_tasks(tasks, output, log, compilers, choice)


def _package_tasks(
    tasks: tuple[str, ...],
    output: str,
    log: str | None,
    compilers: tuple[str, ...],
    choice: dict[str, Any],
) -> None:
    """Write the package of tasks, and say what is in it."""
    from whet.autotune.models.steps import Steps
    from whet.autotune.packaging import package
    from whet.compiler.runtime.library.export import include_dir

    index = package(
        _tasks(tasks), output, log,
        cc=_compilers(compilers), say=Steps().at, **choice,
    )  # fmt: skip
    levels_of = ", ".join(dict.fromkeys(one.level for one in index.libraries))
    kernels = "1 kernel" if len(index.kernels) == 1 else f"{len(index.kernels)} kernels"
    click.echo(f"{output}: {kernels} for {levels_of}, {Path(output).stat().st_size:,} bytes")
    click.echo(f"from C: #include <whet/package.h>, gcc -I {include_dir()} ... -ldl")
    for kernel in index.kernels:
        for variant in kernel.variants:
            if variant.tuned_by["how"] not in ("exact", "device"):
                level = index.libraries[variant.library].level
                click.echo(f"  {kernel.name} for {level}: {_reason(variant)}")


def _package_model(
    file: str,
    output: str,
    log: str | None,
    shapes: dict[str, Any],
    target: str | None,
    levels: tuple[str, ...],
) -> None:
    """Write a model's package, and say what is in it."""
    from whet.commands.models.words import in_shell_words, tune_words
    from whet.compiler.runtime.library.export import include_dir
    from whet.compiler.runtime.package.link import level_target
    from whet.compiler.target import Target
    from whet.frontends.compile import compile

    for name, given in shapes.items():
        if 0 in (given if isinstance(given, tuple) else (given,)):
            raise click.UsageError(
                f"whet package: --shape {name} has a size of 0: a package runs nothing of it\n"
                f"  --shape {name}=1"
            )
    wanted: list[Any] = [target]
    if levels:
        own = Target(target or "llvm").canonical()
        wanted = [level_target("whet package", own, level) for level in levels]
    with in_shell_words(tune_words(file, shapes, target, log)):
        model, *more = (compile(file, shapes, each, log) for each in wanted)
    model.export(output, more=more)
    size = Path(output).stat().st_size
    click.echo(f"{output}: {_what_it_calls(model)}, {size:,} bytes")
    if model.on_device:
        return
    click.echo(f"from C: #include <whet/package.h>, gcc -I {include_dir()} ... -ldl")


def _what_it_calls(model: Any) -> str:
    """The calls of a model, the groups of one with symbols; and how many of them are tuned."""
    from whet.commands.models.words import tuned_kernels
    from whet.compiler.graph.buckets import BucketModel

    tuned = tuned_kernels(model)
    what = counted(len(tuned), "group" if hasattr(model, "groups") else "call")
    if isinstance(model, BucketModel):
        what = f"{counted(len(model.buckets), 'bucket')} of {what}"
    return f"{what}, {sum(tuned)} of them tuned"


def _tasks(places: tuple[str, ...]) -> dict[str, Task] | list[Task]:
    """The tasks that words name: a dict if one word names a dict, else a list."""
    named: list[Task] = []
    for where in places:
        place, name = place_and_name(where, "is not FILE_OR_MODULE:TASKS, e.g. kernels.py:tasks")
        found: Any = getattr(load_module(place), name, None)
        if callable(found):
            with users_code(where):
                found = found()
        if found is None:
            raise click.UsageError(f"{place} has no {name!r}")
        if isinstance(found, Mapping):
            if len(places) > 1:
                raise click.UsageError(f"{where} names kernels by a dict: it stands alone")
            return dict(found)
        named += found if isinstance(found, list | tuple) else [found]
    return named


def _compilers(words: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in words:
        arch, equals, compiler = word.partition("=")
        if not (arch and equals and compiler):
            raise click.UsageError(f"--cc {word}: write --cc aarch64=aarch64-linux-gnu-gcc")
        found[arch] = compiler
    return found


def _show(path: str) -> None:
    """Print a package's index."""
    from whet.bench.table import aligned
    from whet.compiler.runtime.package.index import own_models
    from whet.compiler.runtime.package.load import read
    from whet.compiler.runtime.package.processor import features

    _, data, index = read(f"whet package --show {path}", path)
    _say(f"{path}: {len(data):,} bytes, written by Whet {index.whet or '(a copy)'}\n")
    have = features()
    rows = [("level", "for", "bytes", "here"), *(_library(one, have) for one in index.libraries)]
    for line in aligned(rows):
        click.echo(line)
    for kernel in index.kernels:
        _say(f"\n{kernel.name}: {kernel.workload}")
        _show_variants(index, kernel.variants)
    for model in own_models(index):
        _show_model(index, model)


def _show_model(index: Index, model: Mapping[str, Any]) -> None:
    """Print what a model takes and gives, its memory, and the configs of its calls."""
    from whet.compiler.graph.symbolic.sizes import Dynamic
    from whet.compiler.runtime.package.index import model_of

    number, _, size = model_of(model)
    _say(f"\n{model['name']} for {index.libraries[number].level}, constants of {size:,} bytes")
    try:
        for name, *sizes in model.get("ranges", ()):
            _say(f"  {name}: from {Dynamic(*sizes)}")
        buckets = model.get("buckets", ())
        for k, bucket in enumerate(buckets):
            _show_calls(bucket, f"  bucket {k}: ")
        if not buckets:
            _show_calls(model, "  ")
    except (KeyError, TypeError, ValueError) as error:  # of a file that may be anybody's
        _say(f"  what it tells of the model is damaged: {error!r:.200}")


def _show_calls(model: Mapping[str, Any], before: str) -> None:
    """Print what a model of one size, or the greatest one, takes and gives, and its calls."""
    _say(f"{before}arena of {int(model['arena']['size']):,} bytes")
    for key in ("inputs", "outputs"):
        for name, shape, dtype in model[key]:
            _say(f"{before}{key[:-1]} {name}: {dtype}{list(shape)}")
    for call in model["calls"]:
        by = call["tuned_by"]
        _say(f"{before}{call['name']}: {'default config' if by is None else by['how']}")
    for group in model.get("groups", ()):
        how = {by["how"] for by in group["tuned_by"]} or {"default config"}
        _say(f"{before}{group['name']}: {group['how']}; {', '.join(sorted(how))}")


def _show_variants(index: Index, variants: tuple[Variant, ...]) -> None:
    """Print the code of a kernel, what it takes, its config and the reason for that."""
    for variant in variants:
        _say(f"  {index.libraries[variant.library].level}: {_reason(variant)}")
        choices = ", ".join(f"{name}={value}" for name, value in variant.config.items())
        _say(f"    {variant.signature}")
        _say(f"    {choices or '(nothing to choose)'}")


def _say(text: str) -> None:
    """Print a text of a file that may be anybody's: without what a terminal would obey."""
    click.echo("".join(c if c.isprintable() or c == "\n" else "?" for c in text))


def _library(one: Library, have: frozenset[str]) -> tuple[str, ...]:
    from whet.compiler.runtime.package.load import runs

    missing = sorted(set(one.needs) - have)
    here = "runs" if runs(one, have) else f"needs {missing[0]}" if missing else "does not run"
    return one.level, one.arch, f"{one.size:,}", "on its GPU" if one.kind == "cuda" else here


def _reason(variant: Variant) -> str:
    how, why = (str(variant.tuned_by.get(key, "?")) for key in ("how", "why"))
    words = {
        "exact": "tuned",
        "device": "tuned",
        "target": "tuned for another CPU",
        "shape": "tuned for another shape",
        "default": "default config",
    }
    return f"{words.get(how, how)}{_record(variant.tuned_by)}, {why}"


def _record(by: Mapping[str, Any]) -> str:
    """A trial in words; "" of a default config. A file may be anybody's: nothing is relied on."""
    trial, cost = by.get("trial"), by.get("cost")
    if not isinstance(trial, list) or len(trial) != 2 or not isinstance(cost, int | float):
        return ""
    return f" (trial {trial[1]}: {duration(cost)} on {by.get('device')})"
