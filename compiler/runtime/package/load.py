"""Loading a package: kernels by name, each in the widest code that this machine's CPU runs.

This needs numpy alone: no LLVM, no C compiler, no log. A package's code runs as soon as it is
loaded: load only what you trust.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from whet.compiler import settings
from whet.compiler.errors import ArgumentError, ArtifactError, TargetError, nearest
from whet.compiler.homes import imported
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.arrays.device import device as device_of
from whet.compiler.runtime.function import Function
from whet.compiler.runtime.library.integrity import check_library
from whet.compiler.runtime.library.source import path_of
from whet.compiler.runtime.load import MissingFile, data_module, library_module
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.package.container import WRITE_AGAIN, unpacked
from whet.compiler.runtime.package.index import (
    Index,
    Kernel,
    Library,
    Variant,
    index_of,
    model_of,
    own_models,
)
from whet.compiler.runtime.package.processor import features
from whet.compiler.target.machine import host

# A model's loader, imported when there is one.
_OF_MODELS = "whet.compiler.graph.package:loaded"


class UnknownKernel(ArgumentError, KeyError):
    """A package has no kernel of that name."""


class Package(Mapping[str, Function]):
    """The kernels of a package, by name: ``package["dense"](x, w, y)``.

    Make one with :func:`load`. Iterating gives the names.

    Args:
        path: of the file.
        index: what it tells of itself.
        libraries: the loaded code, by the number of the library.

    Attributes:
        path: of the file.
        index: what it tells of itself: kernels, their configs and why, libraries.
    """

    def __init__(self, path: Path, index: Index, libraries: Mapping[int, Module]) -> None:
        self.path = path
        self.index = index
        self._libraries = libraries
        self._kernels = {kernel.name: kernel for kernel in index.kernels}

    def __getitem__(self, name: str) -> Function:
        """The kernel of that name.

        Raises:
            ArgumentError: there is none; also a KeyError.
            ArtifactError: no code of it runs on this machine.
        """
        variant = self._variant(name)
        module = self._libraries[variant.library]
        if not module.implements_function(name, query_imports=True):
            request = f"package[{name!r}]"
            why = f"its library {variant.library} has no such function"
            raise ArtifactError(request, why, WRITE_AGAIN)
        return module.get_function(name, query_imports=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def level(self, name: str) -> str:
        """The level of the code that was chosen for a kernel: ``"x86-64-v3"``, ``"own"``.

        Raises:
            ArgumentError, ArtifactError: as for the kernel itself.
        """
        return self.index.libraries[self._variant(name).library].level

    def tuned_by(self, name: str) -> Mapping[str, Any]:
        """The reason for a kernel's config, as :class:`~whet.compiler.abi.tuned_by.TunedBy` has it.

        ``how`` and ``why`` it was chosen, ``cost`` in seconds.

        Raises:
            ArgumentError, ArtifactError: as for the kernel itself.
        """
        return self._variant(name).tuned_by

    def _variant(self, name: str) -> Variant:
        kernel = self._kernels.get(name) if isinstance(name, str) else None
        if kernel is None:
            raise UnknownKernel(
                f"package[{name!r}]",
                f"{self.path.name} has no such kernel",
                f"{nearest(name, self._kernels)}kernels: {', '.join(self._kernels)}",
            )
        found = next((v for v in kernel.variants if v.library in self._libraries), None)
        if found is None:
            raise ArtifactError(f"package[{name!r}]", *_nothing_runs(self.index, kernel))
        return found

    def __repr__(self) -> str:
        return f"<whet package {self.path.name}: {', '.join(self._kernels)}>"


def read(request: str, path: str | os.PathLike[str]) -> tuple[Path, memoryview, Index]:
    """A package's bytes and index; nothing of it is loaded.

    Args:
        request: the request, for the error.
        path: the file.

    Raises:
        ArtifactError: as :func:`load`.
        ArgumentError: the path is none.
    """
    file = path_of(request, path)
    if not file.is_file():
        why = "it is a folder" if file.is_dir() else "there is no such file"
        raise MissingFile(request, why, "whet package kernels.py:tasks --log whet.db -o FILE")
    try:
        with file.open("rb") as opened:
            data = _bytes_of(opened)
    except OSError as error:
        raise ArtifactError(request, f"it cannot be read: {error.strerror}") from None
    return file, data, index_of(request, unpacked(request, data), len(data))


def _bytes_of(file: BinaryIO) -> memoryview:
    """A file's bytes, mapped where they can be: a model's constants are not read twice."""
    try:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # a file without bytes, or a system without maps
        return memoryview(file.read())


def load(path: str | os.PathLike[str], device: Device | str | None = None) -> Any:
    """Load what ``whet package`` or ``model.export`` wrote.

    Args:
        path: the file. Its checksum is compared first; then its code runs in this process: load
            only what you trust.
        device: where a model for GPUs runs, ``"cuda:1"``, ``"cuda-emulator"``; default: ``"cuda"``.

    Returns:
        A :class:`Package`: its kernels by name. Of each the widest code is taken that this CPU
        runs; ``WHET_CPU`` makes it pass for a lesser one. Of a model's file the
        :class:`~whet.compiler.graph.model.Model`, as ``whet.compile`` gives it; its constants stay
        in the file, which may be replaced meanwhile, but not written to. Of one for several
        processors the widest is taken, too.

    Raises:
        ArtifactError: the file is missing (then also a ValueError and a FileNotFoundError), is no
            package, was cut off or changed, or is of a newer version.
        ArgumentError: the path is none.
        TargetError: there is no such type of device, or the file's code does not run on one.
    """
    request = f"load({str(path) if isinstance(path, os.PathLike) else path!r})"
    file, data, index = read(request, path)
    settings.num_threads()  # a library itself cannot say that the setting is wrong
    models = own_models(index)
    where = _device(request, index, device)
    if models and not index.kernels:
        many = len({m["name"] for m in models})
        if many > 1:
            raise ArtifactError(request, f"it holds {many} models", "one a file is loaded")
        return imported(_OF_MODELS)(request, data, index, models, where)
    chosen: set[int] = set()
    have = features()
    for kernel in index.kernels:
        found = next((v for v in kernel.variants if runs(index.libraries[v.library], have)), None)
        if found is not None:
            chosen.add(found.library)
    libraries = {}
    for number in sorted(chosen):
        one = index.libraries[number]
        blob = bytes(data[one.offset : one.offset + one.size])
        libraries[number] = code_of(request, one, blob)
    return Package(file, index, libraries)


def _device(request: str, index: Index, device: Device | str | None) -> Device | None:
    """The device that was named, for a package of a model for GPUs."""
    if device is None:
        return None
    where = device if isinstance(device, Device) else device_of(device)
    kinds = {index.libraries[model_of(m)[0]].kind for m in own_models(index)}
    if kinds != {where.type.removesuffix("-emulator")}:
        held = f"a model for {', '.join(sorted(kinds))}" if kinds else "kernels, which run anywhere"
        raise TargetError(
            f"{request} on {where}", f"it holds {held}", "leave the device out: whet.load(path)"
        )
    return where


def runs(library: Library, have: frozenset[str]) -> bool:
    """True where a library's code runs here, or for a GPU, can be asked to."""
    if library.kind == "cuda":
        return True
    return library.arch == host.architecture() and have.issuperset(library.needs)


def _nothing_runs(index: Index, kernel: Kernel) -> tuple[str, str]:
    """Why no code of a kernel runs here; and the way out."""
    have, why = features(), []
    for variant in kernel.variants:
        one = index.libraries[variant.library]
        missing = sorted(set(one.needs) - have)
        other = one.arch != host.architecture()
        why.append(f"{one.level} is for {one.arch}" if other else f"{one.level} needs {missing[0]}")
    text = "; ".join(why) or "it has none"
    return (
        f"none of its code runs on this CPU ({host.architecture()}): {text}",
        "package it again with a --level that this machine has",
    )


def what_is_missing(library: Library) -> str:
    """A feature that a library's code needs, or its architecture, if this CPU lacks it; or ""."""
    have = features()
    if runs(library, have):
        return ""
    return next(iter(sorted(set(library.needs) - have)), library.arch)


def code_of(request: str, library: Library, blob: bytes) -> Module:
    """The module of a library, loaded into this process.

    Raises:
        ArtifactError: it is none, or none for this machine.
    """
    if library.kind == "cuda":
        return data_module(request, blob)
    check_library(request, blob)
    return _mapped(request, library.level, blob)


_loaded: dict[bytes, Module] = {}
_lock = threading.Lock()


def _mapped(request: str, level: str, blob: bytes) -> Module:
    """The module of a library's bytes; of the same bytes, the same one: it is mapped once."""
    digest = hashlib.sha256(blob).digest()
    with _lock:
        if digest not in _loaded:
            if hasattr(os, "memfd_create"):
                _loaded[digest] = _from_memory(request, level, blob, digest)
            else:
                with tempfile.TemporaryDirectory(prefix="whet") as folder:
                    file = Path(folder) / "kernels.so"
                    file.write_bytes(blob)
                    _loaded[digest] = library_module(request, str(file))
        return _loaded[digest]


def _from_memory(request: str, level: str, blob: bytes, digest: bytes) -> Module:
    try:
        file = os.memfd_create(f"whet-{level}", os.MFD_CLOEXEC)
    except OSError as error:
        raise ArtifactError(request, f"no memory for its code: {error.strerror}") from None
    with os.fdopen(file, "wb", closefd=True) as memory:
        memory.write(blob)
        memory.flush()
        return library_module(request, memory_path(file, digest))


def memory_path(file: int, digest: bytes) -> str:
    """A path of an open file that no file with other contents has had.

    The system's loader knows libraries by their paths, and an open file's number is used again:
    the way to it spells 64 bits of the digest, ``/`` for 0 and ``/./`` for 1.
    """
    bits = int.from_bytes(digest[:8], "little")
    way = "".join("/./" if bits >> k & 1 else "/" for k in range(64))
    return f"/proc/self/fd{way}{file}"
