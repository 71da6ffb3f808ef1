"""``whet.compile``: a model in, a callable out."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.graph.ir import Graph
from whet.compiler.target import Target

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune.models.cache import ModelCache
    from whet.autotune.tasks.task import Task
    from whet.compiler.graph.model import Model
    from whet.compiler.graph.symbolic.model import SymbolicModel
    from whet.compiler.runtime.arrays.device import Device
    from whet.frontends.buckets import Shapes
    from whet.frontends.symbols import Family


def compile(
    model: Any,
    shapes: Shapes = None,
    target: Target | str | Mapping[str, Any] | None = None,
    log: str | os.PathLike[str] | Any = None,
    constants: Mapping[str, np.ndarray] | None = None,
    cache: bool | str | os.PathLike[str] = True,
    device: Device | str | None = None,
    inputs: Sequence[Any] | None = None,
) -> Any:
    """A model as a function of arrays, compiled for a target.

    Args:
        model: an ONNX file, its bytes, a ``ModelProto``, an ``ExportedProgram`` of PyTorch, a
            ``torch.nn.Module`` with ``inputs``, or a :class:`~whet.compiler.graph.Graph`.
        shapes: an input's name -> its shape, or a symbolic dimension's name -> its extent. Several
            of them, ``{"batch": [1, 4]}``, or a list of such dicts, are buckets. ``whet.dynamic(1,
            64)`` stays a symbol, as do the open sizes of an ``ExportedProgram``.
        target: what to compile for; None: the target in force, else this machine's CPU.
        log: a tuning log, its path or its URL: kernels take their best configs from it.
        constants: an input's name -> its value, where shapes depend on it.
        cache: where what is built is kept, and found again. True: in the folder ``WHET_CACHE``, by
            default ``~/.cache/whet`` (``0``: nowhere); or a folder; False: nowhere.
            Of buckets each kernel is kept.
        device: where code for a GPU runs: ``"cuda:1"``, ``"cuda-emulator"``; default: ``"cuda"``.
            It need not be there before the first run.
        inputs: example tensors for a module; their sizes are the model's.

    Returns:
        ``model(x)``, which returns new arrays; ``model.run([x], out=[y])`` fills given ones: a
        :class:`~whet.compiler.graph.model.Model`, for GPUs a ``DeviceModel``, with symbols a
        ``SymbolicModel``; a ``BucketModel`` has one of the first two for each bucket.

    Raises:
        ArgumentError: the model cannot be read, or is not supported; the text names the node.
        TargetError: the target or the device is unknown, or they do not fit.
        LogError: the log cannot be read.
    """
    began, given = time.monotonic(), model
    chosen = _target(target)
    where, kept = _placed(chosen, device), _cache(cache)
    model, inputs = _traced(model, shapes, inputs)
    key = None if kept is None else _key(model, shapes, chosen, log, constants, inputs)
    found = kept.model(key, where) if kept is not None and key is not None else None
    if found is None:
        build = _Build(given, shapes, chosen, target, log, where, began)
        found = _built(build, model, constants, inputs, kept)
        if kept is not None and key is not None:
            kept.keep_model(key, found)
    return found


def compile_family(
    family: Family,
    target: Target | str | Mapping[str, Any] | None = None,
    log: str | os.PathLike[str] | Any = None,
) -> SymbolicModel:
    """One model for all sizes of a family's ranges, as of :func:`compile`.

    Args:
        family: its graphs.
        target, log: as of :func:`compile`.

    Raises:
        ArgumentError, TargetError, LogError: as of :func:`compile`.
    """
    chosen = _target(target)
    build = _Build(None, None, chosen, target, log, None, time.monotonic())
    return build.symbolic(family, _cache(True))


def _traced(model: Any, shapes: Any, inputs: Sequence[Any] | None) -> tuple[Any, Any]:
    """A module as a program, which needs no inputs any more; any other model as it is."""
    from whet.frontends.symbols import has_ranges
    from whet.frontends.torch.importer import exported, is_module

    if not is_module(model) or has_ranges(shapes):
        return model, inputs
    return exported(model, inputs), None


def _key(
    model: Any,
    shapes: Any,
    target: Target,
    log: Any,
    constants: Mapping[str, np.ndarray] | None,
    inputs: Sequence[Any] | None,
) -> str | None:
    """The key by which a model is kept; None: it is not known before it is built."""
    from whet.autotune.models.cache import model_key
    from whet.frontends.torch.importer import is_program

    content = None
    if is_program(model):
        from whet.frontends.torch.digest import digest_of

        content = digest_of(model)
    return None if inputs is not None else model_key(model, shapes, target, log, constants, content)


def _built(
    build: _Build,
    model: Any,
    constants: Mapping[str, np.ndarray] | None,
    inputs: Sequence[Any] | None,
    kept: ModelCache | None,
) -> Any:
    """A model that is built here: with symbols, of buckets, or of one set of sizes."""
    from whet.compiler.graph.buckets import BucketModel
    from whet.frontends.symbols import open_sizes

    shapes = build.shapes
    family = open_sizes("compile", model, shapes, constants, inputs)
    if family is not None:
        return build.symbolic(family, kept)
    model, shapes, owned = _imported("compile", model, shapes, constants, inputs)
    model, each = _read(model, shapes)
    if each is not None:
        graphs = [_graph(model, one, constants) for one in each]
        return BucketModel(build.models(graphs, kept, True))
    graph = _graph(model, shapes, constants)
    (found,) = build.models([graph], kept, owned or graph is not model)
    return found


def _imported(
    who: str,
    model: Any,
    shapes: Any,
    constants: Mapping[str, np.ndarray] | None,
    inputs: Sequence[Any] | None,
) -> tuple[Any, Shapes, bool]:
    """A model of PyTorch as a graph of its own, any other as it is; the shapes that are left."""
    from whet.frontends.buckets import checked

    of_torch = False
    if not isinstance(model, str | bytes | os.PathLike | Graph):
        from whet.frontends.torch.importer import exported, from_torch, is_module, is_program

        if is_module(model):
            model, inputs = exported(model, inputs), None
        of_torch = is_program(model)
        if not of_torch and type(model).__name__ != "ModelProto":
            from whet.frontends.onnx.file import no_model

            raise no_model(who, model)
    if inputs is not None:
        raise ArgumentError(
            f"{who}(..., inputs=...)", "example inputs are for a torch.nn.Module",
            "shapes={'batch': 1} names the sizes of other models",
        )  # fmt: skip
    if constants and (of_torch or isinstance(model, Graph)):
        raise ArgumentError(
            f"{who}(..., constants=...)", "they are for the inputs of an ONNX model", "leave it out"
        )
    if of_torch:
        return from_torch(model, shapes), None, True
    if isinstance(model, Graph) and shapes:
        raise ArgumentError(
            f"{who}(graph, shapes=...)", "a graph has its sizes", "a graph for each: from_onnx"
        )
    return model, checked(who, shapes), False


def _cache(cache: Any) -> ModelCache | None:
    """The cache that was asked for."""
    from whet.autotune.models.cache import ModelCache

    if not isinstance(cache, bool | str | os.PathLike):
        raise ArgumentError(
            f"compile(..., cache={cache!r})", f"{type(cache).__name__} names no folder",
            "True: the folder of WHET_CACHE; a folder's path; False: nothing is kept",
        )  # fmt: skip
    return ModelCache.of(cache)


@dataclass(frozen=True)
class _Build:
    """A call of :func:`compile` that may have to build.

    Attributes:
        model, shapes, target, log, device: as of :func:`compile`, checked.
        named: the target as it was named; None: it was not.
        began: when it was called.
    """

    model: Any
    shapes: Shapes
    target: Target
    named: Target | str | Mapping[str, Any] | None
    log: Any
    device: Device | None
    began: float

    def models(
        self, graphs: Sequence[Graph], cache: ModelCache | None, owned: bool, depth: int = 6
    ) -> list[Model]:
        """Models that are built here, their kernels taken from the cache where they are there.

        Args:
            graphs: one each.
            cache: where kernels may be.
            owned: nobody else reads their constants.
            depth: from the warning of what is untuned to who called :func:`compile`.
        """
        from whet.autotune.models.compiled import compiled_all
        from whet.autotune.models.on_device import device_models
        from whet.autotune.models.steps import Steps

        steps = Steps("compiling", self.began)
        with self._records(depth):
            if self.target.kind.row.has_threads:
                return list(device_models(graphs, self.target, self.device, steps, cache))
            return compiled_all(graphs, self.target, cache, owned, steps)

    def symbolic(self, family: Family, cache: ModelCache | None) -> SymbolicModel:
        """One model for all sizes of a family's ranges."""
        from whet.autotune.models.steps import Steps
        from whet.autotune.models.symbolic import symbolic_model

        if self.target.kind not in ("llvm", "cuda"):
            raise TargetError(
                f"a model with the symbols {', '.join(family.ranges)} for {self.target.kind}",
                "sizes stay symbols in models for llvm and cuda",
                "shapes={'batch': [1, 8]} are buckets",
            )
        steps = Steps("compiling", self.began)
        with self._records():

            def at(sizes: Mapping[str, int]) -> Graph:
                steps.at(f"its graph at {', '.join(f'{n}={k}' for n, k in sizes.items())}")
                return family.at(sizes)

            return symbolic_model(at, family.ranges, self.target, cache, steps, self.device)

    def _records(self, depth: int = 6) -> contextlib.AbstractContextManager[Any]:
        """The log in force."""
        if self.log is None:
            return contextlib.nullcontext()
        from whet.autotune.models.untuned import TuneModel, file_of, log_of_model
        from whet.measure.device.identity import text_of

        device = "" if self.device is None else text_of(self.device)
        named = self.named if isinstance(self.named, str | None) else self.target
        tuning = TuneModel(file_of(self.model), self.shapes, named, device)
        return log_of_model(self.log, tuning, self.target, stacklevel=depth)


def _read(model: Any, shapes: Shapes) -> tuple[Any, list[dict[str, Any]] | None]:
    """The model, read where its inputs' names have to be known; and the shapes of its buckets."""
    if isinstance(shapes, Mapping) and not any(isinstance(s, Sequence) for s in shapes.values()):
        return model, None
    if shapes is None or isinstance(model, Graph):
        return model, None
    from whet.frontends.buckets import buckets
    from whet.frontends.onnx.file import loaded

    read = loaded(model, "compile")
    each = buckets(shapes, [i.name for i in read.graph.input])
    return (model, None) if each is None else (read, each)


def _placed(target: Target, device: Device | str | None) -> Device | None:
    """The device that was named, which runs what is made for the target."""
    from whet.compiler.runtime.arrays.device import Device
    from whet.compiler.runtime.arrays.device import device as device_of

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
    shapes: Shapes = None,
    target: Target | str | Mapping[str, Any] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    inputs: Sequence[Any] | None = None,
) -> list[tuple[Task, int]]:
    """The tasks of a model, and how often it runs each, for :func:`whet.tune`; of all buckets.

    With sizes that stay symbols: of blocks of rows, and how many groups have each.

    ``tasks, counts = zip(*whet.model_tasks("model.onnx"))``, then ``whet.tune(tasks,
    weights=counts, log="whet.db")`` and ``whet.compile("model.onnx", log="whet.db")``.

    Args:
        model, shapes, target, constants, inputs: as of :func:`compile`.

    Raises:
        ArgumentError, TargetError: as of :func:`compile`.
    """
    from whet.autotune.models.compiled import model_tasks as tasks_of_graph
    from whet.autotune.models.symbolic_groups import symbolic_tasks
    from whet.frontends.symbols import open_sizes

    family = open_sizes("model_tasks", model, shapes, constants, inputs)
    if family is not None:
        return symbolic_tasks(family.at, family.ranges, _target(target))
    model, shapes, _ = _imported("model_tasks", model, shapes, constants, inputs)
    model, each = _read(model, shapes)
    graphs = [_graph(model, one, constants) for one in ([shapes] if each is None else each)]
    return tasks_of_graph(graphs, _target(target))


def _graph(model: Any, shapes: Any, constants: Mapping[str, np.ndarray] | None) -> Graph:
    """The graph after its passes."""
    from whet.compiler.graph.passes import optimized
    from whet.frontends.onnx import from_onnx

    return optimized(model if isinstance(model, Graph) else from_onnx(model, shapes, constants))


def _target(target: Target | str | Mapping[str, Any] | None) -> Target:
    """The canonical target."""
    in_force = Target.current(allow_none=True)
    chosen = Target(target) if target is not None else in_force or Target("llvm")
    chosen.kind.row.check_built()
    return chosen.canonical()
