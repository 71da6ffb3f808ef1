"""`whet bench model.onnx`: a compiled model beside onnxruntime and OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from whet.bench.cpu.models import ModelComparison
    from whet.compiler.graph import Graph
    from whet.compiler.graph.model import Model
    from whet.compiler.target import Target

ROUNDS = 30
DEFAULT_LOG = "whet.db"


def bench_model(
    file: str, shapes: Mapping[str, Any], target: Target, log: str | None, rounds: int | None
) -> None:
    """Compare a model, untuned and tuned, with its peers, and print it.

    Args:
        file: the model.
        shapes: an input's or a dimension's name -> its sizes.
        target: a CPU's, with its threads.
        log: where tuned configs come from; None: ``whet.db``, if it is there.
        rounds: how often each is timed.
    """
    import whet
    from whet.bench.cpu.models import compare, drawn_inputs
    from whet.frontends.onnx.importer import loaded

    read = loaded(file)
    graph = whet.from_onnx(read, shapes)
    models = _models(graph, target, log)
    found = compare(models, read, drawn_inputs(graph.inputs), target.num_threads, rounds or ROUNDS)
    for line in said(found, Path(file).name, target, models):
        click.echo(line)


def _models(graph: Graph, target: Target, log: str | None) -> dict[str, Model]:
    """The untuned model, and the tuned one where the log has something of it."""
    import whet

    models = {"default": whet.compile(graph, target=target)}
    if log is None and not Path(DEFAULT_LOG).is_file():
        click.echo(
            f"not tuned: no {DEFAULT_LOG}: whet tune model.onnx --log {DEFAULT_LOG}", err=True
        )
        return models
    tuned = whet.compile(graph, target=target, log=log or DEFAULT_LOG)
    if any(c.tuned_by is not None and c.tuned_by.trial is not None for c in tuned.calls):
        models["tuned"] = tuned
    else:
        click.echo(f"not tuned: {log or DEFAULT_LOG} has nothing of this model", err=True)
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
