"""A compiled model as data: an index in JSON and blobs, in a package and in an entry of the cache.

What describes a model is the same in both; a package's code is a shared library, that of an entry
the objects of the kernels and of the function that calls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.launch import LaunchPlan
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.graph.buckets import BucketModel
from whet.compiler.graph.executor import Place
from whet.compiler.graph.ir import Value
from whet.compiler.graph.memory import Arena
from whet.compiler.graph.model import Call, Model
from whet.compiler.homes import imported
from whet.compiler.jit.loader import LoadedCode
from whet.compiler.runtime.module import Module

Json = dict[str, Any]
Blob = bytes | memoryview

# A model with symbols is restored, imported when there is one.
_OF_SYMBOLS = "whet.compiler.graph.symbolic.image:restored"


def functions_of(model: Model | BucketModel) -> list[Module]:
    """The modules of the functions that run a model: one, or one for each of its buckets."""
    return [m._function for m in models_of(model)]


def kernels_of(model: Model | BucketModel) -> dict[str, Module]:
    """The kernels that a model calls, by their symbols."""
    return {name: k for m in models_of(model) for name, k in m._kernels.items()}


def models_of(model: Model | BucketModel) -> list[Model]:
    """A model, or those of its buckets, in order."""
    return list(model.buckets.values()) if isinstance(model, BucketModel) else [model]


def described(model: Model | BucketModel) -> Json:
    """All of a model that is no code and no constant, as JSON-able data."""
    if isinstance(model, BucketModel):
        return {"buckets": [described(one) for one in model.buckets.values()]}
    offsets = [[_of_value(v), at] for v, at in model.arena.offsets.items()]
    return {
        "inputs": [_of_value(v) for v in model.inputs],
        "outputs": [_of_value(v) for v in model.outputs],
        "arena": {"size": model.arena.size, "least": model.arena.least, "offsets": offsets},
        "calls": [_of_call(c) for c in vars(model).get("calls", ())],
        **model._more_of_description(),
    }


def restored(
    data: Json, functions: Sequence[Module], kernels: Mapping[str, Module], constants: np.ndarray
) -> Model | BucketModel:
    """The model that was described.

    Args:
        data: what :func:`described` gave.
        functions: the modules of the functions that run it, as of :func:`functions_of`.
        kernels: symbol -> its module.
        constants: the bytes that the kernels read.

    Raises:
        Exception: the data is not as it was written, of any kind.
    """
    if "buckets" in data:
        each = zip(data["buckets"], functions, strict=True)
        return of_buckets([_restored(one, function, kernels, constants) for one, function in each])
    (function,) = functions
    if "ranges" in data:
        found: Model = imported(_OF_SYMBOLS)(data, function, kernels, constants)
        return found
    return _restored(data, function, kernels, constants)


def of_buckets(models: Sequence[Model]) -> BucketModel:
    """The model of some buckets that are of one network.

    Raises:
        Exception: they are not.
    """
    kinds = {
        (
            tuple((v.name, v.dtype, len(v.shape)) for v in model.inputs),
            tuple((v.name, v.dtype) for v in model.outputs),
        )
        for model in models
    }
    if len(kinds) != 1:
        raise ValueError("its buckets are not of one network")
    return BucketModel(models)


def _restored(
    data: Json, function: Module, kernels: Mapping[str, Module], constants: np.ndarray
) -> Model:
    """The model of one size."""
    if "ranges" in data:
        raise ValueError("a bucket has ranges")
    inputs, outputs, arena, calls = description_of(data, kernels)
    _check_sizes(function, [*inputs, *outputs], constants.size, arena.size)
    return Model(inputs, outputs, function, kernels, constants, arena, calls)


def description_of(
    data: Json, kernels: Mapping[str, Module]
) -> tuple[list[Value], list[Value], Arena[Value], list[Call]]:
    """The inputs, the outputs, the arena and the calls that :func:`described` described.

    Raises:
        Exception: the data is not as it was written, of any kind.
    """
    if "buckets" in data:
        raise ValueError("a bucket has buckets")
    arena = data["arena"]
    if int(arena["size"]) < 0:
        raise ValueError(f"its arena has {arena['size']} bytes")
    offsets = {_value(v): int(at) for v, at in arena["offsets"]}
    inputs, outputs = ([_value(v) for v in data[key]] for key in ("inputs", "outputs"))
    calls = [_call(c) for c in data["calls"]]
    for call in calls:
        if call.kernel not in kernels:
            raise ValueError(f"it calls {call.kernel}, which it does not have")
    return inputs, outputs, Arena(offsets, int(arena["size"]), int(arena["least"])), calls


def _check_sizes(function: Module, values: Sequence[Value], constants: int, arena: int) -> None:
    """Compare what the data says with what the code checks in each call."""
    params = function.artifact.signatures[0].params
    wanted = [(v.dtype, v.shape) for v in values]
    wanted += [("uint8", (max(constants, 1),)), ("uint8", (max(arena, 1),))]
    found = [(p.dtype, tuple(int(str(d)) for d in getattr(p, "shape", ()))) for p in params]
    if wanted != found:
        raise ValueError(f"its code takes {found}, its description says {wanted}"[:300])


def parts(modules: Iterable[Module]) -> tuple[list[Json], list[Blob]]:
    """The code of modules: for each artifact its data, an object and a text."""
    entries: list[Json] = []
    blobs: list[Blob] = []
    for module in modules:
        entry, own = artifact_parts(module.artifact)
        entries.append(entry)
        blobs += own
    return entries, blobs


def artifact_parts(artifact: Artifact) -> tuple[Json, list[Blob]]:
    """An artifact as JSON-able data, and its object and text."""
    data = {
        "signatures": [s.to_json() for s in artifact.signatures],
        "target": artifact.target,
        "tuned_by": {name: by.to_json() for name, by in artifact.tuned_by.items()},
    }
    if artifact.plans:
        data["plans"] = [plan.to_json() for plan in artifact.plans]
        data["kernels"] = [k.to_json() for k in artifact.kernels]
        data["scattered"] = list(artifact.scattered)
    return data, [artifact.object, artifact.source.encode()]


def artifact_of(data: Json, code: bytes, text: bytes) -> Artifact:
    """The artifact that :func:`artifact_parts` described."""
    return Artifact(
        code,
        tuple(KernelSignature.from_json(s) for s in data["signatures"]),
        data["target"],
        text.decode(),
        tuple(map(LaunchPlan.from_json, data.get("plans", ()))),
        tuple(map(KernelSignature.from_json, data.get("kernels", ()))),
        scattered=tuple(data.get("scattered", ())),
        tuned_by={name: TunedBy.from_json(by) for name, by in data["tuned_by"].items()},
    )


def linked(function: Artifact, kernels: Mapping[str, Module]) -> Module:
    """The module of the function that runs a model; it calls the raw kernels.

    Args:
        function: its code.
        kernels: symbol -> the kernel's module, which lives as long as the model.
    """
    symbols = {
        f"{name}__raw": module.address_of(f"{name}__raw") for name, module in kernels.items()
    }
    return Module(function, LoadedCode(function.object, symbols=symbols))


def _of_value(v: Value) -> list[Any]:
    return [v.name, list(v.shape), v.dtype]


def _value(data: Any) -> Value:
    name, shape, dtype = data
    if not isinstance(name, str) or not all(type(d) is int and 0 <= d < 1 << 62 for d in shape):
        raise ValueError(f"{str(data)[:80]} describes no array")
    numpy_dtype(dtype)
    return Value(name, tuple(shape), dtype)


def _of_call(c: Call) -> Json:
    return {
        "name": c.name,
        "kernel": c.kernel,
        "origins": list(c.origins),
        "places": [[p.argument, p.offset] for p in c.places],
        "outputs": list(c.outputs),
        "flop": c.flop,
        "moved": c.moved,
        "tuned_by": None if c.tuned_by is None else c.tuned_by.to_json(),
    }


def _call(data: Json) -> Call:
    by = data["tuned_by"]
    places = tuple(Place(str(argument), int(offset)) for argument, offset in data["places"])
    return Call(
        data["name"], data["kernel"], tuple(data["origins"]), places, tuple(data["outputs"]),
        int(data["flop"]), int(data["moved"]), None if by is None else TunedBy.from_json(by),
    )  # fmt: skip
