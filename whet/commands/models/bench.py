"""`whet bench model.onnx`: a compiled model beside onnxruntime and OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.commands.models.words import (
    DEFAULT_LOG,
    default_log,
    in_shell_words,
    read_of_one,
    tune_words,
)

if TYPE_CHECKING:
    from whet.bench.cpu.models import ModelComparison
    from whet.compiler.graph.model import Model
    from whet.compiler.target import Target

ROUNDS = 30


def bench_model(
    file: str,
    shapes: Mapping[str, Any],
    target: Target,
    named: str,
    log: str | None,
    rounds: int | None,
) -> None:
    """Compare a model, untuned and tuned, with its peers, and print it.

    Args:
        file: the model.
        shapes: an input's or a dimension's name -> its sizes.
        target: a CPU's, with its threads.
        named: the target as a command line has it.
        log: where tuned configs come from; None: ``whet.db``, if it is there.
        rounds: how often each is timed.
    """
    from whet.bench.cpu.models import compare, drawn_inputs

    tune = tune_words(file, shapes, named, log)
    with in_shell_words(tune):
        read = read_of_one("whet bench", file, shapes, "a comparison")
        models = _models(file, shapes, target, named, default_log(log), tune)
    inputs = drawn_inputs(models["default"].inputs)
    found = compare(models, read, inputs, target.num_threads, rounds or ROUNDS)
    for line in said(found, Path(file).name, target, models):
        click.echo(line)


def _models(
    file: str,
    shapes: Mapping[str, Any],
    target: Target,
    named: str,
    log: str | None,
    tune: str,
) -> dict[str, Model]:
    """The untuned model, and the tuned one where the log has something of it."""
    import whet

    models = {"default": whet.compile(file, shapes, target=target)}
    if log is None:
        click.echo(f"not tuned: no {DEFAULT_LOG}: {tune}", err=True)
        return models
    tuned = whet.compile(file, shapes, target=named, log=log)
    if any(c.tuned_by is not None and c.tuned_by.trial is not None for c in tuned.calls):
        models["tuned"] = tuned
    else:
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
