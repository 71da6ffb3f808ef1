"""``whet.compile``: a model in, a callable out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.autotune.apply import apply_best
from whet.autotune.models.compiled import compiled
from whet.autotune.models.compiled import model_tasks as tasks_of_graph
from whet.autotune.tasks.task import Task
from whet.compiler.errors import TargetError
from whet.compiler.graph import Graph
from whet.compiler.graph.model import Model
from whet.compiler.graph.passes import optimized
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.arrays.device import device as device_of
from whet.compiler.target import Target
from whet.frontends.onnx import from_onnx

if TYPE_CHECKING:
    import numpy as np


def compile(
    model: Any,
    shapes: Mapping[str, Any] | None = None,
    target: Target | str | Mapping[str, Any] | None = None,
    log: str | os.PathLike[str] | Any = None,
    constants: Mapping[str, np.ndarray] | None = None,
    device: Device | str | None = None,
) -> Model:
    """A model as a function of arrays, compiled for a target.

    Args:
        model: an ONNX file, its bytes, a ``ModelProto``, or a :class:`~whet.compiler.graph.Graph`.
        shapes: an input's name -> its shape, or a symbolic dimension's name -> its extent.
        target: what to compile for; None: the target in force, else this machine's CPU.
        log: a tuning log, its path or its URL: kernels take their best configs from it.
        constants: an input's name -> its value, where shapes depend on it.
        device: where code for a GPU runs: ``"cuda:1"``, ``"cuda-emulator"``; default: ``"cuda"``.
            It need not be there before the first run.

    Returns:
        ``model(x)``, which returns new arrays; ``model.run([x], out=[y])`` fills given ones.
        For GPUs a :class:`~whet.compiler.graph.device_model.DeviceModel`.

    Raises:
        ArgumentError: the model cannot be read, or is not supported; the text names the node.
        TargetError: the target or the device is unknown, or they do not fit.
        LogError: the log cannot be read.
    """
    graph, chosen = _given(model, shapes, target, constants)
    context = contextlib.nullcontext() if log is None else apply_best(log)
    where = _placed(chosen, device)
    with context:
        return compiled(graph, chosen, where)


def _placed(target: Target, device: Device | str | None) -> Device | None:
    """The device that was named, which runs what is made for the target."""
    if device is None:
        return None
    where = device if isinstance(device, Device) else device_of(device)
    if where.type.removesuffix("-emulator") != ("cuda" if target.kind == "cuda" else "cpu"):
        raise TargetError(
            f"compile(..., target={str(target)!r}, device={str(where)!r})",
            f"code for {target.kind} does not run on {where.type}",
            'target="cuda" goes with device="cuda:0" or "cuda-emulator"',
        )
    return where


def model_tasks(
    model: Any,
    shapes: Mapping[str, Any] | None = None,
    target: Target | str | Mapping[str, Any] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> list[tuple[Task, int]]:
    """The tasks of a model, and how often it runs each, for :func:`whet.tune`.

    ``tasks, counts = zip(*whet.model_tasks("model.onnx"))``, then ``whet.tune(tasks,
    weights=counts, log="whet.db")`` and ``whet.compile("model.onnx", log="whet.db")``.

    Args:
        model, shapes, target, constants: as of :func:`compile`.

    Raises:
        ArgumentError, TargetError: as of :func:`compile`.
    """
    return tasks_of_graph(*_given(model, shapes, target, constants))


def _given(
    model: Any,
    shapes: Mapping[str, Any] | None,
    target: Target | str | Mapping[str, Any] | None,
    constants: Mapping[str, np.ndarray] | None,
) -> tuple[Graph, Target]:
    """The graph after its passes, and the canonical target."""
    graph = model if isinstance(model, Graph) else from_onnx(model, shapes, constants)
    chosen = target if isinstance(target, Target) else None
    if chosen is None:
        in_force = Target.current(allow_none=True)
        chosen = Target(target) if target is not None else in_force or Target("llvm")
    return optimized(graph), chosen.canonical()
