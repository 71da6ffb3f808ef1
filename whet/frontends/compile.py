"""``whet.compile``: a model in, a callable out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whet.autotune.apply import apply_best
from whet.autotune.models.compiled import compiled
from whet.autotune.models.compiled import model_tasks as tasks_of_graph
from whet.autotune.tasks.task import Task
from whet.compiler.graph import Graph
from whet.compiler.graph.model import Model
from whet.compiler.graph.passes import optimized
from whet.compiler.target import Target
from whet.frontends.onnx import from_onnx
from whet.frontends.torch.importer import exported, from_torch, is_module, is_program

if TYPE_CHECKING:
    import numpy as np


def compile(
    model: Any,
    shapes: Mapping[str, Any] | None = None,
    target: Target | str | Mapping[str, Any] | None = None,
    log: str | os.PathLike[str] | Any = None,
    constants: Mapping[str, np.ndarray] | None = None,
    inputs: Sequence[Any] | None = None,
) -> Model:
    """A model as a function of arrays, compiled for a target.

    Args:
        model: an ONNX file, its bytes, a ``ModelProto``, an ``ExportedProgram`` of PyTorch, a
            ``torch.nn.Module`` with ``inputs``, or a :class:`~whet.compiler.graph.Graph`.
        shapes: an input's name -> its shape, or a symbolic dimension's name -> its extent.
        target: what to compile for; None: the target in force, else this machine's CPU.
        log: a tuning log, its path or its URL: kernels take their best configs from it.
        constants: an input's name -> its value, where shapes depend on it.
        inputs: example tensors for a module; their sizes are the model's.

    Returns:
        ``model(x)``, which returns new arrays; ``model.run([x], out=[y])`` fills given ones.

    Raises:
        ArgumentError: the model cannot be read, or is not supported; the text names the node.
        TargetError: the target is unknown.
        LogError: the log cannot be read.
    """
    graph, chosen = _given(model, shapes, target, constants, inputs)
    context = contextlib.nullcontext() if log is None else apply_best(log)
    with context:
        return compiled(graph, chosen)


def model_tasks(
    model: Any,
    shapes: Mapping[str, Any] | None = None,
    target: Target | str | Mapping[str, Any] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    inputs: Sequence[Any] | None = None,
) -> list[tuple[Task, int]]:
    """The tasks of a model, and how often it runs each, for :func:`whet.tune`.

    ``tasks, counts = zip(*whet.model_tasks("model.onnx"))``, then ``whet.tune(tasks,
    weights=counts, log="whet.db")`` and ``whet.compile("model.onnx", log="whet.db")``.

    Args:
        model, shapes, target, constants, inputs: as of :func:`compile`.

    Raises:
        ArgumentError, TargetError: as of :func:`compile`.
    """
    return tasks_of_graph(*_given(model, shapes, target, constants, inputs))


def _given(
    model: Any,
    shapes: Mapping[str, Any] | None,
    target: Target | str | Mapping[str, Any] | None,
    constants: Mapping[str, np.ndarray] | None,
    inputs: Sequence[Any] | None,
) -> tuple[Graph, Target]:
    """The graph after its passes, and the canonical target."""
    graph = _imported(model, shapes, constants, inputs)
    chosen = target if isinstance(target, Target) else None
    if chosen is None:
        in_force = Target.current(allow_none=True)
        chosen = Target(target) if target is not None else in_force or Target("llvm")
    return optimized(graph), chosen.canonical()


def _imported(
    model: Any,
    shapes: Mapping[str, Any] | None,
    constants: Mapping[str, np.ndarray] | None,
    inputs: Sequence[Any] | None,
) -> Graph:
    """The graph of a model of any kind."""
    if isinstance(model, Graph):
        return model
    if is_module(model):
        model = exported(model, inputs)
    if is_program(model):
        return from_torch(model, shapes)
    return from_onnx(model, shapes, constants)
