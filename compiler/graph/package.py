"""A model in a package: its code as a shared library, its constants beside it, mapped when loaded.

Loading needs numpy alone: no compiler, no log, no front end.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from whet.compiler.errors import ArtifactError
from whet.compiler.graph.image import described, restored
from whet.compiler.graph.model import Model
from whet.compiler.runtime.library.export import check_place, include_dir
from whet.compiler.runtime.library.source import path_of
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.package.container import WRITE_AGAIN, chunks
from whet.compiler.runtime.package.index import NAME, Index, Library, model_of
from whet.compiler.runtime.package.load import code_of, what_is_missing
from whet.compiler.runtime.unloaded import UnloadedModule
from whet.compiler.target import Target


def write(model: Model, path: str | os.PathLike[str], name: str = "") -> Index:
    """Write a model to a package.

    Args:
        model: built in this process, or taken from the cache.
        path: the file.
        name: the model's name in it; by default the file's.

    Returns:
        The index of the file.

    Raises:
        ArtifactError: the model was loaded from a package, the name is none, there is no C compiler
            for its code, or the file cannot be written.
    """
    from whet.compiler.installed import installed_versions
    from whet.compiler.runtime.package.link import level_name, linked, needs_of, replace_file

    request = f"export({str(path)!r})"
    file = path_of(request, path)
    check_place(request, file)
    name = name or re.sub(r"\W", "_", file.stem, flags=re.ASCII)
    name = f"model_{name}" if name[:1].isdigit() else name
    if not NAME.fullmatch(name):
        raise ArtifactError(request, f"{name!r} is no name of a model", "an identifier is")
    own = [model._function, *model._kernels.values()]
    if not all(m.artifact.object for m in own):
        raise ArtifactError(request, "the model was loaded from a package", "copy that file")
    refused = ArtifactError(request, "its code is linked, not run")
    modules: list[Module] = [UnloadedModule(m.artifact, refused) for m in own]
    arch, needs = needs_of(request, Target(own[0].artifact.target))
    library = Library("cpu", arch, level_name(arch, needs) or "own", needs)
    blob = linked(request, modules, {}, {"model.c": _source(model)})
    entry = {"name": name, "library": 0, **described(model)}
    version = installed_versions(("whet",)).get("whet", "")
    index = Index(version, (library,), (), (entry,))
    pieces = chunks(index.to_json(), [blob, model._constants.data])
    replace_file(request, file, pieces)
    return index


def _source(model: Model) -> str:
    """The C file that makes a function of inputs and outputs alone of a model."""
    artifact = model._function.artifact
    name = artifact.signatures[0].name
    entry = f"{name}__entry" if f"{name}__entry".encode() in artifact.object else name
    digest = hashlib.sha256(model._constants.data).hexdigest()
    lines = [
        f"#define WHET_MODEL_ENTRY {entry}",
        f"#define WHET_MODEL_ARGS {len(model.inputs) + len(model.outputs)}",
        f"#define WHET_MODEL_CONSTANTS {model._constants.size}",
        f"#define WHET_MODEL_ARENA {model._memory.size}",
        f'#define WHET_MODEL_DIGEST "{digest}"',
    ]
    text = (Path(include_dir()) / "whet" / "model.c").read_text()
    return "\n".join([*lines, text])


def loaded(request: str, data: memoryview, index: Index, entry: Mapping[str, Any]) -> Model:
    """The model of a package, in this process.

    Args:
        request: the request, for the error.
        data: the file's bytes, which the model keeps: its constants stay where they are.
        index: what the file tells of itself.
        entry: of the model.

    Raises:
        ArtifactError: its code does not run here, or the index is not as it was written.
    """
    number, offset, size = model_of(entry)
    library = index.libraries[number]
    missing = what_is_missing(library)
    if missing:
        raise ArtifactError(
            request,
            f"its code is for {library.level} and does not run on this CPU: it needs {missing}",
            "export the model for a target that this machine has",
        )
    module = code_of(request, library, bytes(data[library.offset : library.offset + library.size]))
    kernels = {m.entry_name: m for m in module.imported_modules}
    constants = np.frombuffer(data, np.uint8, size, offset)
    try:
        return restored(dict(entry), module, kernels, constants)
    except Exception as error:  # what is not as it was written may be anything
        why = f"its model is damaged: {type(error).__name__}: {error}"
        raise ArtifactError(request, why[:400], WRITE_AGAIN) from None
