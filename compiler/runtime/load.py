"""Loading what a module was exported to: a library, an object or an archive.

This needs numpy and, for objects and archives with a CPU's code, a C compiler: nothing of the
language, the compiler or the search is imported. A library's code runs as soon as it is loaded:
load only what you trust.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from whet.compiler import settings
from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.errors import ArgumentError, ArtifactError, TargetError
from whet.compiler.runtime.described import artifact_of, signature_of
from whet.compiler.runtime.library.export import FORMAT, HEADER, METADATA, READ, compile_files
from whet.compiler.runtime.library.integrity import check_whole
from whet.compiler.runtime.library.source import path_of
from whet.compiler.runtime.module import Function, Module
from whet.compiler.runtime.origin import Origin
from whet.compiler.runtime.unloaded import HostPart, code_of_a_gpu
from whet.compiler.target.machine import host
from whet.compiler.target.machine.features import parse_mattr

# LLVM's names of features, where /proc/cpuinfo has other ones.
CPUINFO_NAMES = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sahf": "lahf_lm",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "avxvnni": "avx_vnni",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}
# The features that Whet's targets are made of and that the system lists under the same name.
_SAME_TEXT = """
    ssse3 popcnt cx16 movbe bmi2 adx avx f16c fma avx2 gfni
    avx512f avx512cd avx512bw avx512dq avx512vl avx512ifma
"""
_WAY_OUT = "Module.export_library(path) writes such a file; if this was one, export it again"
_FORMATS = "formats: so, o, tar; ll and bc, which LLVM compiles"
_MOST_IMPORTS = 32  # that import each other
_MOST_BYTES = 1 << 30  # of a file in an archive, which may be a hole or compressed
SAME_NAMES = frozenset(_SAME_TEXT.split())


class MissingFile(ArtifactError, ValueError, FileNotFoundError):
    """A file to load does not exist."""


class LibraryCode:
    """A shared library in this process; it has the part of ``jit.LoadedCode`` that modules use."""

    native_calls = False  # calls go through ctypes: generated ones would need LLVM

    def __init__(self, path: str) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise ArtifactError(
                f"load_module({path!r})", f"it cannot be loaded: {error}", "export it again"
            ) from None
        self._path = path

    def has(self, symbol: str) -> bool:
        """True where the library has a function or a global variable of that name."""
        return hasattr(self._library, symbol)

    def address_of(self, symbol: str) -> int:
        """The address of a function or a global variable.

        Raises:
            ArtifactError: there is no such symbol.
        """
        try:
            found = ctypes.c_char.in_dll(self._library, symbol)
        except ValueError:
            raise ArtifactError(
                f"looking up {symbol!r} in {self._path}", "there is no such symbol"
            ) from None
        return ctypes.addressof(found)


class SourceModule(Module):
    """An imported module of a library: source for a device that this process does not run.

    Args:
        artifact: the source and what it was made for.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._hold(artifact, None, [_SourceFunction(s, self) for s in artifact.signatures])

    def __call__(self, *args: object, **named: object) -> NoReturn:
        raise _not_runnable(self, "the module")


class _SourceFunction(Function):
    def __call__(self, *args: object, **named: object) -> NoReturn:
        raise _not_runnable(self._module, self.name)


def _not_runnable(module: Module, name: str) -> TargetError:
    return TargetError(
        f"calling {name}", f"it is source for {module.type_key}, which is not run here"
    )


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """Load what :meth:`Module.export_library` wrote.

    Args:
        path: a ``.so``, or an ``.o`` or a ``.tar``, which are linked first, but for an archive
            with nothing but a GPU's code; LLVM's ``.ll`` and ``.bc``, which are compiled: what
            :meth:`Module.save` wrote, or any text with functions ``i32 name(DLTensor **, i32)``.
        fmt: the format, where the name does not end in it.

    Raises:
        ArtifactError: the file is missing (then also a ValueError and a FileNotFoundError), is none
            of Whet's, or was made for another processor.
        ArgumentError: the format is not known, or the path is none.
    """
    request = f"load_module({str(path) if isinstance(path, os.PathLike) else path!r})"
    file = path_of(request, path)
    if not isinstance(fmt, str):
        raise ArgumentError(request, f"fmt is a str, not {fmt!r}", _FORMATS)
    if not file.is_file():
        why = "it is a folder" if file.is_dir() else "there is no such file"
        raise MissingFile(request, why)
    kind = (fmt or file.suffix).lstrip(".")
    if kind in ("ll", "bc"):
        from whet.compiler.runtime.text_module import load_text

        return load_text(request, file, kind)
    if kind not in ("so", "o", "tar"):
        raise ArgumentError(request, f"{kind!r} is no format of a library", _FORMATS)
    check_whole(request, file, kind)
    settings.num_threads()  # the library itself cannot say that the setting is wrong
    module = _module_of(request, file, kind)
    module.origin = Origin.of(file, f".{kind}", module)
    return module


def _module_of(request: str, file: Path, kind: str) -> Module:
    if kind == "so" and not _replaced(file.resolve()):
        return library_module(request, str(file.resolve()))
    with tempfile.TemporaryDirectory(prefix="whet") as folder:
        library = str(Path(folder) / "library.so")
        if kind == "so":
            shutil.copyfile(file, library)
        else:
            parts = [str(file)] if kind == "o" else _unpacked(request, file, Path(folder))
            if [Path(part).name for part in parts] == [METADATA]:
                return data_module(request, Path(parts[0]).read_bytes())
            try:
                compile_files(library, parts)
            except ArtifactError as error:
                raise ArtifactError(request, f"its parts cannot be linked: {error}") from None
        return library_module(request, library)  # once it is mapped, its file may go


# path -> inode and time of what was loaded from there
_seen: dict[Path, tuple[int, int]] = {}


def _replaced(file: Path) -> bool:
    """True where another library was loaded from this path: the system would give that."""
    about = file.stat()
    identity = about.st_ino, about.st_mtime_ns
    return _seen.setdefault(file, identity) != identity


def _unpacked(request: str, file: Path, folder: Path) -> list[str]:
    parts: list[str] = []
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                part = folder / (HEADER if member.name == HEADER else Path(member.name).name)
                if content is None:
                    continue
                if member.size > _MOST_BYTES:
                    raise ValueError(f"{member.name!r} has {member.size:,} bytes")
                part.parent.mkdir(exist_ok=True)
                part.write_bytes(content.read())
                if part.suffix in (".o", ".c") or part.name == METADATA:
                    parts.append(str(part))
    except Exception as error:  # each kind of compression has its own
        why = str(error).partition(":\n")[0]  # then what each kind of compression says
        raise ArtifactError(request, f"it is no archive of a library: {why}", _WAY_OUT) from None
    if not parts:
        raise ArtifactError(request, "the archive holds no object", _WAY_OUT)
    return parts


def library_module(request: str, path: str) -> Module:
    """The module of a shared library that was checked; with what it imports.

    Raises:
        ArtifactError: the system does not load it, or it is none of Whet's.
    """
    from whet.compiler.runtime.call.packed import caller_address

    code = LibraryCode(path)
    try:
        text = ctypes.string_at(code.address_of("whet_metadata"))
    except ArtifactError:
        text = b""
    module = _module(request, _parsed(request, text), code)
    # its kernels call the packed functions of this process
    setter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address_of("whet_set_packed_caller"))
    setter(caller_address())
    return module


def data_module(request: str, text: bytes) -> Module:
    """The module of a GPU's code, which a library's metadata alone is.

    Raises:
        ArtifactError: it is none of Whet's, or damaged.
    """
    return _module(request, _parsed(request, text), None)


def _parsed(request: str, text: bytes) -> dict[str, Any]:
    """The metadata of a file."""
    try:
        data = json.loads(text)
        known = data["whet"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ArtifactError(request, "it holds no kernels of Whet", _WAY_OUT) from None
    if known not in READ:
        raise ArtifactError(
            request, f"it is of format {known}, known is {FORMAT}", "export it again"
        )
    return data


def _module(request: str, data: dict[str, Any], code: LibraryCode | None, depth: int = 0) -> Module:
    """One of a library's modules, with those that it imports."""
    try:
        return _described(request, data, code, depth)
    except ArtifactError:
        raise
    except Exception as error:  # what is not as it was written may be anything
        why = f"what it tells of itself is damaged: {type(error).__name__}: {error}"
        raise ArtifactError(request, why[:400], "export it again") from None


def _described(request: str, data: dict[str, Any], code: LibraryCode | None, depth: int) -> Module:
    if depth > _MOST_IMPORTS:
        raise ValueError(f"its modules import each other more than {_MOST_IMPORTS} deep")
    if not isinstance(data["target"], dict):
        raise ValueError(f"its target is {data['target']!r}")
    artifact, linked, parts = artifact_of(data), data["linked"], list(data["imports"])
    others = [signature_of(other) for other in data["others"]]
    if linked and code is None:
        raise ValueError("it has code of a CPU, and holds none")
    imports = [_module(request, part, code, depth + 1) for part in parts]
    module: Module
    if linked:
        _check_processor(request, data["target"])
        module = Module(artifact, code)
    elif artifact.plans:
        module = Module.from_artifact(artifact)
    elif imports and not artifact.source:
        module = host = HostPart(artifact, code_of_a_gpu().why)
        host.launch_with(imports)
    else:
        module = SourceModule(artifact)
    for part in imports:
        module.import_module(part)
    for signature in others:
        module._functions[signature.name] = _function_of_imports(module, signature)
    return module


def _function_of_imports(module: Module, signature: KernelSignature) -> Function:
    """The function of an imported module, or one that would launch the kernels of its source."""
    imported = module._all()[1:]
    for one in imported:
        found = one._functions.get(signature.name)
        if found is not None and found.signature == signature:
            return found
    device = next((m for m in imported if isinstance(m, SourceModule)), module)
    return _SourceFunction(signature, device)


def _check_processor(request: str, target: dict[str, Any]) -> None:
    """Refuse code that would end in an illegal instruction, as far as the system tells."""
    have = host.cpuinfo("flags").split()
    if platform.machine().lower() not in ("x86_64", "amd64") or not have:
        return
    needed = {name for on, name in parse_mattr(str(target.get("mattr", ""))) if on}
    if int(target.get("vector_bytes", 0)) >= 64:
        needed.add("avx512f")
    names = {f: CPUINFO_NAMES.get(f, f) for f in needed if f in CPUINFO_NAMES or f in SAME_NAMES}
    missing = sorted(f for f, listed in names.items() if listed not in have)
    if missing:
        raise ArtifactError(
            request,
            f"this CPU lacks what it was made for: {', '.join(missing)}",
            "export it for a target that both machines have",
        )
