"""``whet.compile``: a model in, a callable out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.compiler.graph.ir import Graph
from whet.compiler.target import Target

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune.models.cache import ModelCache
    from whet.autotune.tasks.task import Task
    from whet.compiler.graph.model import Model


def compile(
    model: Any,
    shapes: Mapping[str, Any] | None = None,
    target: Target | str | Mapping[str, Any] | None = None,
    log: str | os.PathLike[str] | Any = None,
    constants: Mapping[str, np.ndarray] | None = None,
    cache: bool | str | os.PathLike[str] = True,
) -> Model:
    """A model as a function of arrays, compiled for a target.

    Args:
        model: an ONNX file, its bytes, a ``ModelProto``, or a :class:`~whet.compiler.graph.Graph`.
        shapes: an input's name -> its shape, or a symbolic dimension's name -> its extent.
        target: what to compile for; None: the target in force, else this machine's CPU.
        log: a tuning log, its path or its URL: kernels take their best configs from it.
        constants: an input's name -> its value, where shapes depend on it.
        cache: where what is built is kept, and found again. True: in the folder ``WHET_CACHE``, by
            default ``~/.cache/whet`` (``0``: nowhere); or a folder; False: nowhere.

    Returns:
        ``model(x)``, which returns new arrays; ``model.run([x], out=[y])`` fills given ones.

    Raises:
        ArgumentError: the model cannot be read, or is not supported; the text names the node.
        TargetError: the target is unknown.
        LogError: the log cannot be read.
    """
    from whet.autotune.models.cache import ModelCache, model_key

    chosen = _target(target)
    kept = ModelCache.of(cache)
    key = None if kept is None else model_key(model, shapes, chosen, log, constants)
    if kept is None or key is None:
        return _compiled(model, shapes, chosen, log, constants, kept)
    found = kept.model(key)
    if found is None:
        found = _compiled(model, shapes, chosen, log, constants, kept)
        kept.keep_model(key, found)
    return found


def _compiled(
    model: Any,
    shapes: Mapping[str, Any] | None,
    target: Target,
    log: Any,
    constants: Mapping[str, np.ndarray] | None,
    cache: ModelCache | None,
) -> Model:
    """A model that is built here, its kernels taken from the cache where they are there."""
    from whet.autotune.apply import apply_best
    from whet.autotune.models.compiled import compiled

    graph = _graph(model, shapes, constants)
    context = contextlib.nullcontext() if log is None else apply_best(log)
    with context:
        return compiled(graph, target, cache, owned=graph is not model)


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
    from whet.autotune.models.compiled import model_tasks as tasks_of_graph

    return tasks_of_graph(_graph(model, shapes, constants), _target(target))


def _graph(
    model: Any, shapes: Mapping[str, Any] | None, constants: Mapping[str, np.ndarray] | None
) -> Graph:
    """The graph after its passes."""
    from whet.compiler.graph.passes import optimized
    from whet.frontends.onnx import from_onnx

    return optimized(model if isinstance(model, Graph) else from_onnx(model, shapes, constants))


def _target(target: Target | str | Mapping[str, Any] | None) -> Target:
    """The canonical target."""
    if isinstance(target, Target):
        return target.canonical()
    in_force = Target.current(allow_none=True)
    return (Target(target) if target is not None else in_force or Target("llvm")).canonical()
