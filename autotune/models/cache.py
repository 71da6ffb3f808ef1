"""The cache of compiled models and their kernels: what was built once is loaded again.

An entry is a file as packages are, found by a digest of all that its code follows from: a model by
its file's bytes, its shapes and constants, the target, the log's bytes, and Whet's own code; a
kernel by its task and its config. An entry with a wrong checksum counts as none, and is replaced.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import operator
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache as once
from pathlib import Path
from typing import Any

import numpy as np

from whet.compiler import settings
from whet.compiler.abi.artifact import Artifact
from whet.compiler.content_cache import MEBIBYTE, ContentCache, digest
from whet.compiler.graph import image
from whet.compiler.graph.buckets import BucketModel
from whet.compiler.graph.model import Model
from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.compiler.homes import imported
from whet.compiler.jit.llvm import version
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.package.container import chunks, unpacked
from whet.compiler.target import Target

# Models of GPUs as data, imported when there is one.
_OF_DEVICES = "whet.compiler.graph.device_image"

LIMIT_BYTES = 2048 * MEBIBYTE
"""The bytes of all entries; those that were not used for longest go."""


class ModelCache:
    """Models and kernels in a folder.

    Args:
        folder: where.
        limit_bytes: of all entries.
        named: a caller named the folder, and is warned once where it cannot be written.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES, named: bool = False) -> None:
        self._files = ContentCache("models", limit_bytes, folder)
        self._folder, self._named = folder, named

    @staticmethod
    def of(cache: bool | str | os.PathLike[str]) -> ModelCache | None:
        """The cache that a caller asks for: the settings' one, none, or in a folder."""
        if isinstance(cache, bool):
            folder = settings.model_cache_dir() if cache else None
        else:
            folder = Path(cache)
        return None if folder is None else ModelCache(folder, named=not isinstance(cache, bool))

    def model(self, key: str, device: Device | None = None) -> Model | BucketModel | None:
        """The model of a key; None: there is none that is whole.

        Args:
            key: of the model.
            device: where one for GPUs runs; None: the first GPU.
        """
        return self._found(key, ".model", lambda index, data: _model(index, data, device))

    def keep_model(self, key: str, model: Model | BucketModel) -> None:
        """Keep a model, if it can be."""
        described, kernels = image.described(model), image.kernels_of(model).values()
        if model.on_device:
            described["uploads"], constants = imported(f"{_OF_DEVICES}:uploads_of")(model)
            entries, blobs = image.parts(kernels)
        else:
            entries, blobs = image.parts([*image.functions_of(model), *kernels])
            constants = image.models_of(model)[0]._constants
        index = {"artifacts": entries, "models": [described]}
        self._keep(key, ".model", index, [*blobs, constants.data])

    def kernel(self, key: str) -> Artifact | None:
        """The kernel of a key; None: there is none that is whole."""
        return self._found(key, ".kernel", lambda index, data: _artifacts(index, data)[0])

    def keep_kernel(self, key: str, artifact: Artifact) -> None:
        """Keep a kernel, if it can be."""
        entry, blobs = image.artifact_parts(artifact)
        self._keep(key, ".kernel", {"artifacts": [entry]}, blobs)

    def _found(self, key: str, suffix: str, made: Callable[[Any, memoryview], Any]) -> Any:
        path = self._files.find(key, suffix)
        if path is None:
            return None
        try:
            with open(path, "rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return made(unpacked("cache", data), data)
        except Exception:  # whatever damage makes of it: it is built again
            return None

    def _keep(self, key: str, suffix: str, index: dict[str, Any], blobs: list[Any]) -> None:
        places = len(blobs) - len(index.get("models", ()))
        libraries: list[dict[str, Any]] = [{} for _ in range(places)]
        entry = chunks({**index, "libraries": libraries}, blobs)
        if self._files.put_chunks(key, entry, suffix) is None and self._named:
            _warn_unusable(self._folder)


class CacheWarning(UserWarning):
    """Nothing that was built is kept."""


@once
def _warn_unusable(folder: Path) -> None:
    """Say, once for each folder, that it cannot be written."""
    why = "it is a file" if folder.is_file() else "it cannot be written"
    warnings.warn(f"cache {str(folder)!r}: {why}; nothing is kept", CacheWarning, stacklevel=10)


def _artifacts(index: Mapping[str, Any], data: memoryview) -> list[Artifact]:
    blobs = [bytes(data[p["offset"] : p["offset"] + p["size"]]) for p in index["libraries"]]
    pairs = zip(index["artifacts"], blobs[::2], blobs[1::2], strict=True)
    return [image.artifact_of(*one) for one in pairs]


def _model(
    index: Mapping[str, Any], data: memoryview, device: Device | None
) -> Model | BucketModel:
    artifacts = _artifacts(index, data)
    (described,) = index["models"]
    place = described["constants"]
    constants = np.frombuffer(data, np.uint8, place["size"], place["offset"])
    many = 0 if "uploads" in described else len(described.get("buckets", "1"))
    functions, own = artifacts[:many], artifacts[many:]
    kernels = {a.signatures[0].name: Module.from_artifact(a) for a in own}
    if not functions:
        restored = imported(f"{_OF_DEVICES}:restored")
        found: Model | BucketModel = restored(described, kernels, constants, device)
        return found
    linked = [image.linked(one, kernels) for one in functions]
    return image.restored(described, linked, kernels, constants)


def kernel_key(task: str, config: str) -> str | None:
    """The digest of what a kernel is made from; None: what it is made by was changed here."""
    return None if _passes_are_changed() else digest("kernel", task, config, _built_by())


def model_key(
    model: Any,
    shapes: Any,
    target: Target,
    log: Any,
    constants: Mapping[str, np.ndarray] | None,
    content: str | None = None,
) -> str | None:
    """The digest of what a model is made from; None where that is not known without building it.

    Args:
        model, shapes, log, constants: as of :func:`whet.compile`; of models, a file or its bytes.
        target: canonical.
        content: of what is no file, a digest that tells it from all others.
    """
    if _passes_are_changed() or _configs_are_given():
        return None
    content, records = content or _content(model), _records(log)
    if content is None or records is None:
        return None
    try:
        given = sorted((name, str(a.dtype), a.shape, a.tobytes()) for name, a in _arrays(constants))
        symbols: dict[Dynamic, int] = {}
        sizes = _plain(shapes or {}, symbols)
        texts = json.dumps(sizes, sort_keys=not symbols)  # the first name is the symbol's
    except (TypeError, ValueError):
        return None  # whoever reads them says what is wrong
    return digest("model", content, texts, repr(given), target.key, records, _built_by())


def _arrays(constants: Mapping[str, Any] | None) -> list[tuple[str, np.ndarray]]:
    return [(str(name), np.asarray(a)) for name, a in dict(constants or {}).items()]


def _plain(shapes: Any, symbols: dict[Dynamic, int]) -> Any:
    """Sizes as JSON-able data; a range by its bounds, and by which of the symbols it is."""
    if isinstance(shapes, Mapping):
        return {str(k): _plain(v, symbols) for k, v in shapes.items()}
    if isinstance(shapes, Dynamic):
        return {
            "low": shapes.low,
            "high": shapes.high,
            "is": symbols.setdefault(shapes, len(symbols)),
        }
    if isinstance(shapes, Sequence) and not isinstance(shapes, str | bytes):
        return [_plain(one, symbols) for one in shapes]
    return operator.index(shapes)


def _content(model: Any) -> str | None:
    """The digest of an ONNX file; None for what is none, or has weights in other files."""
    if isinstance(model, bytes):
        return _whole(model)
    if not isinstance(model, str | os.PathLike):
        return None
    try:
        with (
            open(model, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _whole(data)
    except (OSError, ValueError):
        return None


def _whole(data: Any) -> str | None:
    # a tensor in another file has a key "location"
    return None if data.find(b"location") >= 0 else hashlib.sha256(data).hexdigest()


def _records(log: Any) -> str | None:
    """The digest of a log's file and of this machine, for which records are chosen."""
    if log is None:
        return "no log"
    if not isinstance(log, str | os.PathLike) or not Path(log).is_file():
        return None
    from whet.compiler.target.machine import host

    found = [str(Path(log).resolve()), host.fingerprint()]
    try:
        for path in (str(log), f"{log}-wal"):
            with open(path, "rb") as file:
                found.append(hashlib.file_digest(file, "sha256").hexdigest())
    except FileNotFoundError:  # without a journal
        pass
    except OSError:
        return None
    return " ".join(found)


def _passes_are_changed() -> bool:
    """True where a context of passes is in force that is not the default one."""
    module = sys.modules.get("whet.compiler.passes.context")
    found = None if module is None else module._CURRENT.get()
    if found is None:
        return False
    listed = (found.required_pass, found.disabled_pass, found.instruments)
    return any(listed) or found.config != module.PassContext().config  # type: ignore[union-attr]


def _configs_are_given() -> bool:
    """True where configs are in force here, beside those of a log that is given."""
    module = sys.modules.get("whet.search_spaces.template.config_scope")
    return module is not None and bool(module._forced.get() or module._resolvers.get())


@once
def _built_by() -> str:
    """The builder's identity: Whet's own files, and the libraries that change what it makes."""
    import importlib.util

    from whet.compiler.installed import code_digest

    onnx = importlib.util.find_spec("onnx")
    origin = Path(onnx.origin) if onnx is not None and onnx.origin else None
    about = f"{origin} {origin.stat().st_mtime_ns}" if origin is not None else ""
    return " ".join([code_digest(), version(), np.__version__, sys.version, about])
