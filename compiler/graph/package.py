"""A model in a package: its code as a shared library, its constants beside it, mapped when loaded.

Loading needs numpy alone: no compiler, no log, no front end.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whet.compiler.errors import ArtifactError
from whet.compiler.graph.buckets import BucketModel
from whet.compiler.graph.image import (
    Json,
    described,
    functions_of,
    kernels_of,
    models_of,
    restored,
)
from whet.compiler.graph.model import Model
from whet.compiler.homes import imported
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.library.export import check_place, include_dir
from whet.compiler.runtime.library.source import path_of
from whet.compiler.runtime.load import data_module
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.package.container import WRITE_AGAIN, chunks
from whet.compiler.runtime.package.index import NAME, Index, Library, model_of
from whet.compiler.runtime.package.load import code_of, what_is_missing
from whet.compiler.runtime.unloaded import UnloadedModule
from whet.compiler.target import Target

FUNCTION = "model"
"""The symbol of the function that runs a model; those of buckets have a number behind it."""

# A GPU's model is restored, imported when there is one.
_OF_DEVICES = "whet.compiler.graph.device_image:restored"


AnyModel = Model | BucketModel


def write(
    model: AnyModel, path: str | os.PathLike[str], name: str = "", more: Sequence[AnyModel] = ()
) -> Index:
    """Write a model to a package.

    Args:
        model: built in this process, or taken from the cache.
        path: the file.
        name: the model's name in it; by default the file's.
        more: the same model, built for other processors.

    Returns:
        The index of the file.

    Raises:
        ArtifactError: a model was loaded from a package, the name is none, there is no C compiler
            for its code, ``more`` are other models or for a processor that is there already, or
            the file cannot be written.
    """
    from whet.compiler.installed import installed_versions
    from whet.compiler.runtime.package.link import replace_file

    request = f"export({str(path)!r})"
    file = path_of(request, path)
    if isinstance(more, AnyModel):
        raise ArtifactError(request, "more is a model, and no list of them", "more=[model]")
    check_place(request, file)
    name = name or re.sub(r"\W", "_", file.stem, flags=re.ASCII)
    name = f"model_{name}" if name[:1].isdigit() else name
    if not NAME.fullmatch(name):
        raise ArtifactError(request, f"{name!r} is no name of a model", "an identifier is")
    _check_alike(request, [model, *more])
    made = [_described(request, one) for one in (model, *more)]
    made.sort(key=lambda one: -len(one[0].needs))  # the widest first
    libraries = tuple(one[0] for one in made)
    if len({(one.arch, one.needs) for one in libraries}) < len(made):
        levels = ", ".join(f"{one.level} of {one.arch}" for one in libraries)
        raise ArtifactError(request, f"two of its models are for one processor: {levels}")
    entries = tuple({"name": name, "library": k, **one[2]} for k, one in enumerate(made))
    version = installed_versions(("whet",)).get("whet", "")
    index = Index(version, libraries, (), entries)
    blobs = [one[1] for one in made] + [one[3] for one in made]
    replace_file(request, file, chunks(index.to_json(), blobs))
    return index


def _check_alike(request: str, models: Sequence[AnyModel]) -> None:
    """Refuse models that take or give other arrays, and GPUs' beside others."""
    first, *rest = models
    for other in rest:
        if first.on_device or other.on_device:
            raise ArtifactError(
                request, "a GPU's model stands alone in its file", "export each to its own"
            )
        each = [repr(m) for m in (first, other)]
        if each[0] != each[1]:
            raise ArtifactError(
                request, f"its models are not one model: {each[0]} and {each[1]}"[:400]
            )


def _described(request: str, model: AnyModel) -> tuple[Library, bytes, Json, memoryview]:
    """A model's library and its bytes, its description, its constants."""
    if model.on_device:
        return _described_on_device(request, model)
    from whet.compiler.runtime.package.link import level_name, linked, needs_of

    own = [*functions_of(model), *kernels_of(model).values()]
    if not all(m.artifact.object for m in own):
        raise ArtifactError(request, "the model was loaded from a package", "copy that file")
    refused = ArtifactError(request, "its code is linked, not run")
    modules: list[Module] = [UnloadedModule(m.artifact, refused) for m in own]
    arch, needs = needs_of(request, Target(own[0].artifact.target))
    library = Library("cpu", arch, level_name(arch, needs) or "own", needs)
    blob = linked(request, modules, {}, {"model.c": _source(model)})
    return library, blob, described(model), models_of(model)[0]._constants.data


def _described_on_device(request: str, model: Any) -> tuple[Library, bytes, Json, memoryview]:
    """As :func:`_described`; its library is a list of the kernels' texts, as JSON."""
    from whet.compiler.graph.device_image import uploads_of
    from whet.compiler.runtime.package.link import arch_of_gpu, gpu_data

    kernels = list(kernels_of(model).values())
    if not kernels:
        raise ArtifactError(request, "the model has no kernel: all it gives is known or given")
    arch = arch_of_gpu(Target(kernels[0].artifact.target))
    uploads, sources = uploads_of(model)
    blob = json.dumps([gpu_data(m).decode() for m in kernels]).encode()
    library = Library("cuda", arch, arch, ())
    return library, blob, {**described(model), "uploads": uploads}, sources.data


def _source(model: AnyModel) -> str:
    """The C file that makes a function of inputs and outputs alone of a model."""
    each = models_of(model)
    arrays, externs, choices = [], [], []
    for k, one in enumerate(each):
        artifact = one._function.artifact
        name = artifact.signatures[0].name
        entry = f"{name}__entry" if f"{name}__entry".encode() in artifact.object else name
        externs.append(f"extern int32_t {entry}(void **args, int32_t num_args);")
        sizes = "NULL"
        if isinstance(model, BucketModel):
            sizes = f"whet_sizes_{k}"
            numbers = [n for v in one.inputs for n in (len(v.shape), *v.shape)]
            arrays.append(f"static const int64_t {sizes}[] = {{{', '.join(map(str, numbers))}}};")
        choices.append(f"{{{entry}, {one._memory.size}, {sizes}}},")
    first = each[0]
    digest = hashlib.sha256(first._constants.data).hexdigest()
    words = first._function.artifact.signatures[0].asserts
    lines = [
        f"#define WHET_MODEL_FUNCTIONS {' '.join([*externs, *arrays])}",
        f"#define WHET_MODEL_CHOICES {' '.join(choices)}",
        f"#define WHET_MODEL_ASSERTS {''.join(f'{_c_string(one)}, ' for one in words)}",
        f"#define WHET_MODEL_INPUTS {len(first.inputs)}",
        f"#define WHET_MODEL_ARGS {len(first.inputs) + len(first.outputs)}",
        f"#define WHET_MODEL_CONSTANTS {first._constants.size}",
        f"#define WHET_MODEL_ARENA {max(one._memory.size for one in each)}",
        f'#define WHET_MODEL_DIGEST "{digest}"',
    ]
    text = (Path(include_dir()) / "whet" / "model.c").read_text()
    return "\n".join([*lines, text])


def _c_string(text: str) -> str:
    """A string of C with the UTF-8 bytes of a text."""
    plain = set(b" _-,.:()[]*+") | {b for b in range(128) if chr(b).isalnum()}
    each = [chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()]
    return f'"{"".join(each)}"'


def loaded(
    request: str,
    data: memoryview,
    index: Index,
    entries: Sequence[Mapping[str, Any]],
    device: Device | None = None,
) -> AnyModel:
    """The model of a package, in this process.

    Args:
        request: the request, for the error.
        data: the file's bytes, which the model keeps: its constants stay where they are.
        index: what the file tells of itself.
        entries: of the model, for one processor each, the widest first.
        device: where a GPU's runs; None: the first GPU.

    Raises:
        ArtifactError: its code does not run here, or the index is not as it was written.
    """
    missing = {k: what_is_missing(index.libraries[model_of(m)[0]]) for k, m in enumerate(entries)}
    chosen = next((k for k, why in missing.items() if not why), None)
    if chosen is None:
        raise ArtifactError(
            request,
            f"its code does not run on this CPU: it needs {missing[len(missing) - 1]}",
            "export the model for a target that this machine has",
        )
    entry = dict(entries[chosen])
    number, offset, size = model_of(entry)
    library = index.libraries[number]
    code = bytes(data[library.offset : library.offset + library.size])
    constants = np.frombuffer(data, np.uint8, size, offset)
    try:
        if library.kind == "cuda":
            modules = [data_module(request, text.encode()) for text in json.loads(code)]
            kernels = {m.entry_name: m for m in modules}
            on_device: AnyModel = imported(_OF_DEVICES)(entry, kernels, constants, device)
            return on_device
        module = code_of(request, library, code)
        others = {m.entry_name: m for m in module.imported_modules}
        names = [f"{FUNCTION}_{k}" for k in range(1, len(entry.get("buckets", ())))]
        functions = [module, *(others.pop(name) for name in names)]
        return restored(entry, functions, others, constants)
    except ArtifactError:
        raise
    except Exception as error:  # what is not as it was written may be anything
        why = f"its model is damaged: {type(error).__name__}: {error}"
        raise ArtifactError(request, why[:400], WRITE_AGAIN) from None
