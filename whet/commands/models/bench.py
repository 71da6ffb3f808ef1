"""`whet bench model.onnx`: a compiled model beside onnxruntime and OpenVINO, at some sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.commands.models.words import (
    DEFAULT_LOG,
    default_log,
    has_range,
    in_shell_words,
    ranges_of,
    tune_words,
    tuned_kernels,
)
from whet.compiler.errors import OutOfMemoryError, nearest

if TYPE_CHECKING:
    from whet.bench.cpu.models import ModelComparison
    from whet.compiler.graph.model import Model
    from whet.compiler.target import Target

ROUNDS = 30


def bench_model(
    file: str,
    shapes: Mapping[str, Any],
    at: Sequence[Mapping[str, int]],
    target: Target,
    named: str,
    log: str | None,
    rounds: int | None,
) -> None:
    """Compare a model, untuned and tuned, with its peers at each set of sizes, and print it.

    Of a range the model that takes any of its sizes runs beside the one that was compiled for one.

    Args:
        file: the model.
        shapes: an input's or a dimension's name -> its sizes.
        at: sizes of the ranges, symbol -> its number; none: the least and the greatest of each.
        target: a CPU's, with its threads.
        named: the target as a command line has it.
        log: where tuned configs come from; None: ``whet.db``, if it is there.
        rounds: how often each is timed.
    """
    from whet.frontends.onnx.file import loaded

    log = default_log(log)
    with in_shell_words(tune_words(file, shapes, named, log)):
        read = loaded(file)
        sets = _sets_of_sizes({i.name for i in read.graph.input}, shapes, at)
        of_any = _models(file, shapes, target, named, log) if has_range(shapes) else {}
        if log is None:
            tune = tune_words(file, shapes, named, log)
            click.echo(f"not tuned: no {DEFAULT_LOG}: {tune}", err=True)
        for sizes in sets:
            title = Path(file).name if len(sets) == 1 else f"{Path(file).name}, {_text(sizes)}"
            try:
                models = _models(file, sizes, target, named, log)
                models |= {f"{name}, any size": model for name, model in of_any.items()}
                found = _compared(models, read, target, rounds or ROUNDS)
            except MemoryError as error:
                raise _too_large(sizes, ranges_of(shapes), error) from error
            for line in said(found, title, target, models):
                click.echo(line)


def _compared(models: dict[str, Model], read: Any, target: Target, rounds: int) -> ModelComparison:
    """Models and their peers on inputs of the first one's sizes."""
    from whet.bench.cpu.models import compare, drawn_inputs

    inputs = drawn_inputs(models["default"].inputs)
    return compare(models, read, inputs, target.num_threads, rounds)


def _too_large(
    sizes: Mapping[str, Any], ranges: Mapping[str, Any], error: MemoryError
) -> OutOfMemoryError:
    """The error of sizes that do not fit in memory."""
    why = str(error).splitlines()[0] if str(error) else "there is not so much memory"
    smaller = ",".join(f"{name}={r.low}" for name, r in ranges.items())
    way = f"--at {smaller}: sizes of the ranges" if ranges else "smaller sizes"
    return OutOfMemoryError(f"whet bench at {_text(sizes)}", why, way)


def _sets_of_sizes(
    inputs: set[str], shapes: Mapping[str, Any], at: Sequence[Mapping[str, int]]
) -> list[dict[str, Any]]:
    """The sets of sizes that are compared, each once: no ranges, of each dimension one size.

    Args:
        inputs: the names of a model's; other names are dimensions'.
        shapes, at: as of :func:`bench_model`.

    Raises:
        click.UsageError: ``at`` does not have each range once, or is outside of it.
    """
    ranges = ranges_of(shapes)
    for sizes in at:
        _check_at(sizes, ranges)
    ends = [{n: r.low for n, r in ranges.items()}, {n: r.high for n, r in ranges.items()}]
    found = []
    for sizes in at or (ends if ranges else [{}]):
        several: dict[str, list[Any]] = {}
        for name, given in shapes.items():
            if name in inputs and isinstance(given, tuple):
                shape = (sizes.get(f"{name}[{k}]", x) for k, x in enumerate(given))
                several[name] = [tuple(shape)]
            else:
                one = given if isinstance(given, tuple) else (given,)
                several[name] = [sizes.get(name, x) for x in one]
        found += [dict(zip(several, each)) for each in product(*several.values())]
    return [one for k, one in enumerate(found) if one not in found[:k]]


def _check_at(sizes: Mapping[str, int], ranges: Mapping[str, Any]) -> None:
    """Refuse sizes that are not one of each range.

    Raises:
        click.UsageError: what is wrong, and what would be right.
    """
    text = ",".join(f"{name}={size}" for name, size in sizes.items())
    if not ranges:
        raise click.UsageError(f"--at {text}: no size is a range, such as --shape batch=1..64")
    for name in sizes:
        if name not in ranges:
            known = ", ".join(ranges)
            raise click.UsageError(
                f"--at {text}: {name!r} is none of the ranges, {known}\n"
                f"  {nearest(name, ranges)}--at {next(iter(ranges))}=..."
            )
    if sizes.keys() != ranges.keys():
        wanted = ",".join(f"{name}={r.low}" for name, r in ranges.items())
        raise click.UsageError(
            f"--at {text}: a size of each range is needed, in one --at\n  --at {wanted}"
        )
    for name, size in sizes.items():
        if size not in ranges[name]:
            r = ranges[name]
            where = "between the sizes" if r.low < size < r.high else "outside"
            raise click.UsageError(f"--at {text}: it is {where} of --shape {name}={r.dots}")


def _text(shapes: Mapping[str, Any]) -> str:
    """Sizes in a title: ``batch=8, x=1,3,224,224``."""
    each = (x if isinstance(x, tuple) else (x,) for x in shapes.values())
    return ", ".join(f"{name}={','.join(map(str, x))}" for name, x in zip(shapes, each))


def _models(
    file: str, shapes: Mapping[str, Any], target: Target, named: str, log: str | None
) -> dict[str, Model]:
    """The untuned model, and the tuned one where the log has something of it."""
    import whet

    models = {"default": whet.compile(file, shapes, target=target)}
    if log is None:
        return models
    tuned = whet.compile(file, shapes, target=named, log=log)
    if any(tuned_kernels(tuned)):
        models["tuned"] = tuned
    else:
        tune = tune_words(file, shapes, named, log)
        click.echo(f"not tuned: {log} has nothing of this model: {tune}", err=True)
    return models


def said(found: ModelComparison, name: str, target: Target, models: dict[str, Model]) -> list[str]:
    """The lines of a comparison: the machine and settings, the table, what is left out."""
    from whet.bench.cpu.models import SETTINGS, versions
    from whet.bench.table import aligned
    from whet.compiler.target.machine import host
    from whet.search_spaces.values.counted import counted, duration

    model = next(iter(models.values()))
    flop, many = sum(c.flop for c in model.calls), counted(found.threads, "thread")
    lines = [
        f"{name}: {flop / 1e9:.3g} GFLOP in {counted(len(model.calls), 'kernel call')}; "
        f"{host.cpu_model()}, {8 * target.vector_bytes}-bit vectors, {many}",
        versions(),
    ]
    quickest = min(found.samples.values(), key=lambda s: s.median).median
    rows: list[tuple[str, ...]] = [("", "median", "best", "GFLOP/s", "of the fastest", "error")]
    for who, sample in sorted(found.samples.items(), key=lambda x: x[1].median):
        error = found.errors.get(who)
        rows.append(
            (
                who, duration(sample.median), duration(sample.best),
                f"{flop / sample.median / 1e9:.1f}", f"{quickest / sample.median:.2f}",
                "-" if error is None else f"{error:.1e}",
            )
        )  # fmt: skip
    lines += aligned(rows)
    if found.ratio is not None:
        lines.append(f"{found.ratio:.2f} x as fast as the fastest peer, by the medians")
    if found.exact:
        lines.append(f"errors: parts of the largest number, beside {found.exact}")
    lines += [f"{n}: {many}, {words}" for n, words in SETTINGS.items() if n in found.samples]
    return [*lines, *(f"not compared: {why}" for why in found.left_out)]
