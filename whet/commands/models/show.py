"""`whet show model.onnx`: the groups of a model as a table, and its graph as a drawing."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.commands.models.words import (
    DEFAULT_LOG,
    default_log,
    has_range,
    in_shell_words,
    read_of_one,
    tune_words,
)

if TYPE_CHECKING:
    from whet.autotune.models.summary import GroupRow
    from whet.compiler.abi.artifact import Resources
    from whet.compiler.graph.device_model import DeviceModel
    from whet.compiler.graph.model import Model
    from whet.compiler.target import Target

ROUNDS = 10
"""Runs of a model of which each group's least time counts."""


def show_model(
    file: str,
    shapes: Mapping[str, Any],
    target: str | None,
    device: str | None,
    tuned: str | None,
    measure: bool,
    output: str | None,
) -> None:
    """Print the groups of a model; draw them where a file is named.

    Args:
        file: the model.
        shapes: an input's or a dimension's name -> its sizes.
        target, device: what it is compiled for, and where that runs.
        tuned: a log; None: ``whet.db``, if it is there.
        measure: whether the model runs.
        output: the drawing's file.
    """
    import whet
    from whet.autotune.models.slices import arranged
    from whet.autotune.models.steps import Steps
    from whet.autotune.models.summary import group_rows, timed_rows
    from whet.autotune.models.untuned import TuneModel, log_of_model
    from whet.bench.graph_drawing import graph_svg
    from whet.compiler.graph.passes import optimized
    from whet.db import UntunedWarning

    _check_output(output)
    if has_range(shapes):
        _show_range(file, shapes, target, tuned, measure or bool(device or output))
        return
    chosen, steps, tuned = _target(target, device), Steps(f"reading {file}"), default_log(tuned)
    tuning = TuneModel(file, shapes, target or (chosen.kind.name if device else None), device or "")
    with in_shell_words(tuning.command(tuned or DEFAULT_LOG)):
        read = read_of_one(file, shapes)
        steps.at("its graph")
        graph = optimized(whet.from_onnx(read, shapes))
        with contextlib.nullcontext() if tuned is None else log_of_model(tuned, tuning, chosen):
            steps.at("layouts")
            laid = arranged(graph, chosen)
            steps.at("groups")
            rows = group_rows(laid, chosen)
    gpu = chosen.kind == "cuda"
    lists: dict[str, list[str]] = {}
    if measure or gpu:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntunedWarning)  # it was said of the table
            model = whet.compile(graph, target=chosen, log=tuned, device=device)
        if measure:
            rows = timed_rows(rows, _seconds(model))
        if gpu:
            lists = _on_gpu(model)
    click.echo("\n".join([*_table(rows, lists), _whole(rows, chosen)]))
    if output is not None:
        Path(output).write_text(
            graph_svg(laid, rows, f"{Path(file).name}: {_whole(rows, chosen)}") + "\n"
        )
        click.echo(f"drawn: {output}")


def _show_range(
    file: str, shapes: Mapping[str, Any], target: str | None, tuned: str | None, more: bool
) -> None:
    """Print the groups of a model with symbols, and how each meets its sizes."""
    import whet
    from whet.bench.table import aligned
    from whet.search_spaces.values.counted import counted

    if more:
        raise click.UsageError(
            "whet show: --measure, --device and -o are of one size, and --shape has a range\n"
            "  a number for each size"
        )
    tuned = default_log(tuned)
    with in_shell_words(tune_words(file, shapes, target, tuned)):
        model = whet.compile(file, shapes, target, tuned)
    rows: list[tuple[str, ...]] = [("", "group", "makes", "built as", "tuned by")]
    for k, g in enumerate(model.groups):
        by = {f"{t.how}: trial {t.trial[1]} of run {t.trial[0]}" for t in g.tuned_by if t.trial}
        said = ", ".join(sorted(by)) or ("default" if g.is_tunable else "not tuned")
        rows.append((str(k), g.name, ", ".join(g.outputs), g.how, said))
    for line in aligned(rows):
        click.echo(line)
    click.echo(f"{counted(len(model.groups), 'group')}: {model!r}")


def _check_output(path: str | None) -> None:
    if path is None:
        return
    if Path(path).suffix.lower() != ".svg":
        raise click.UsageError(f"-o {path}: a model is drawn as SVG: name it .svg")
    if not Path(path).resolve().parent.is_dir():
        raise click.UsageError(f"-o {path}: there is no such folder")


def _target(target: str | None, device: str | None) -> Target:
    from whet.compiler.target import Target

    implied = "cuda" if (device or "").startswith("cuda") else "llvm"
    return Target(target or implied).canonical()


def _seconds(model: Model) -> list[float]:
    """The least time of each group, on drawn inputs."""
    from whet.bench.cpu.models import drawn_inputs

    return [s for _, s in model.profile(*drawn_inputs(model.inputs), rounds=ROUNDS)]


def _on_gpu(model: Model) -> dict[str, list[str]]:
    """Launches and registers of each group, by the columns' names; registers where NVRTC is."""
    from whet.compiler.errors import TargetError
    from whet.compiler.graph.device_model import DeviceModel

    assert isinstance(model, DeviceModel)
    columns = {"launches": [str(len(own)) for own in _launched(model)]}
    try:
        found = model.resources()
    except TargetError:  # no NVRTC
        return columns
    return {**columns, "registers": [_registers(own, found) for own in _launched(model)]}


def _launched(model: DeviceModel) -> list[list[str]]:
    """The kernels that each call launches."""
    calls = {id(call): k for k, call in enumerate(model.calls)}
    own: list[list[str]] = [[] for _ in model.calls]
    for launch in model.launches:
        own[calls[id(launch.call)]].append(launch.kernel)
    return own


def _registers(kernels: Sequence[str], found: Mapping[str, Resources]) -> str:
    said = []
    for kernel in dict.fromkeys(kernels):
        r = found[kernel]
        spilled = f" (spills {r.spill_stores} B)" if r.spill_stores else ""
        said.append(f"{r.registers}{spilled}")
    return ", ".join(said) or "-"


def _table(rows: Sequence[GroupRow], more: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each group."""
    from whet.autotune.models.summary import shares
    from whet.bench.graph_drawing import amount, shape_of
    from whet.bench.table import aligned

    part = shares(rows)
    head = ["", "group", "output", "work", "memory", *more, "tuned by"]
    timed = [] if part is None else ["time", "share"]
    lines = [(*head[:5], *timed, *head[5:])]
    for k, row in enumerate(rows):
        time = [] if part is None else [amount(row.seconds or 0.0, "s"), f"{part[k]:.1%}"]
        lines.append(
            (
                str(k), " + ".join(row.operators), shape_of(row.outputs[0]),
                amount(row.flop, "FLOP"), amount(row.moved, "B"), *time,
                *(column[k] for column in more.values()), row.source,
            )
        )  # fmt: skip
    return aligned(lines)


def _whole(rows: Sequence[GroupRow], target: Target) -> str:
    """The sum of all groups."""
    from whet.bench.graph_drawing import amount
    from whet.search_spaces.values.counted import counted

    tuned = sum(row.source != "default" for row in rows)
    kernels = len({row.task for row in rows})
    work = amount(sum(r.flop for r in rows), "FLOP")
    said = [counted(len(rows), "group"), counted(kernels, "kernel"), work, f"{tuned} tuned"]
    times = [r.seconds for r in rows if r.seconds is not None]
    said += [amount(sum(times), "s")] if times else []
    return ", ".join([*said, target.short])
