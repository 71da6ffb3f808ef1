"""Making a package's libraries: the modules of one processor, linked, and what that must have."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from whet.compiler import settings
from whet.compiler.errors import ArtifactError, TargetError
from whet.compiler.runtime.library.export import metadata
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.package.processor import KNOWN
from whet.compiler.target import Target
from whet.compiler.target.machine import host
from whet.compiler.target.machine.features import X86_LEVELS
from whet.compiler.target.machine.processor_features import features_of
from whet.compiler.target.machine.processors import architecture_of

OWN = "own"
X86 = tuple(name for name, needed in X86_LEVELS if needed)
LEVELS = (OWN, *X86, "aarch64")
"""The levels that code is made for: the targets of the tasks, and these processors."""
_ALWAYS = {"x86_64": {"sse", "sse2"}, "aarch64": {"neon", "fp-armv8"}}
_TARGET = ("mcpu", "mattr", "vector_bytes")


def level_target(request: str, target: Target, level: str) -> Target:
    """A task's target for the processors of a level, canonical.

    Args:
        request: the request, for the error.
        target: the task's own.
        level: one of ``LEVELS``.

    Raises:
        ArtifactError: there is no such level.
    """
    if level not in LEVELS:
        raise ArtifactError(
            request, f"the compiler knows no level {level!r}", f"levels: {', '.join(LEVELS)}"
        )
    if level == OWN or target.device != "cpu":
        return target
    attrs = {k: v for k, v in target.attrs.items() if k not in _TARGET}
    arch = "aarch64" if level == "aarch64" else "x86_64"
    if architecture_of(str(attrs.get("mtriple", host.triple()))) != arch:
        attrs["mtriple"] = host.triple() if host.architecture() == arch else f"{arch}-linux-gnu"
    attrs["mcpu"] = level if arch == "x86_64" else "generic"
    return target.replaced(attrs).canonical()


def needs_of(request: str, target: Target) -> tuple[str, tuple[str, ...]]:
    """The architecture of a canonical CPU target, and the features that its code may use.

    Raises:
        ArtifactError: a program that loads it cannot ask for one of these.
    """
    attrs = target.canonical().attrs
    triple = str(attrs["mtriple"])
    arch = architecture_of(triple)
    if arch not in KNOWN or "linux" not in triple:
        raise ArtifactError(
            request,
            f"a package holds code for Linux on {' and '.join(KNOWN)}, not for {triple}",
            "module.export_library(path) writes a library for it",
        )
    found = features_of(triple, str(attrs["mcpu"]), str(attrs["mattr"])) - _ALWAYS[arch]
    unknown = sorted(found - KNOWN[arch].keys())
    if unknown:
        raise ArtifactError(
            request,
            f"what loads a package cannot tell whether a CPU has {', '.join(unknown)}",
            f"leave them out of the task's target, or give --level: {', '.join(LEVELS[1:])}",
        )
    return arch, tuple(sorted(found))


def level_name(arch: str, needs: Sequence[str]) -> str:
    """The level whose processors have these features and no others; empty where there is none."""
    if arch != "x86_64":
        return "" if needs else arch
    return next((name for name, needed in X86_LEVELS if needed == set(needs)), "")


def linked(
    request: str,
    modules: Sequence[Module],
    cc: Mapping[str, str],
    more: Mapping[str, str] | None = None,
) -> bytes:
    """The shared library of modules for one processor.

    Args:
        request: the request, for the error.
        modules: built, not loaded; the first one is given the others as imports.
        cc: architecture -> the C compiler that links for it.
        more: names of C files -> their texts, compiled with them.

    Raises:
        ArtifactError: there is no C compiler for it, or two functions have one name.
    """
    head, *rest = modules
    for one in rest:
        head.import_module(one)
    triple = str(head.artifact.target.get("mtriple", host.triple()))
    compiler = _compiler(request, architecture_of(triple), cc)
    with tempfile.TemporaryDirectory(prefix="whet") as folder:
        file = Path(folder) / "kernels.so"
        addons = [Path(folder) / one for one in more or {}]
        for addon in addons:
            addon.write_text((more or {})[addon.name])
        try:
            head.export_library(file, addons=list(map(str, addons)), cc=compiler)
        except ArtifactError as error:
            raise ArtifactError(request, f"its kernels cannot be linked: {error}") from None
        return file.read_bytes()


def _compiler(request: str, arch: str, cc: Mapping[str, str]) -> str:
    given = cc.get(arch)
    if given is None and arch == host.architecture():
        return settings.c_compiler()
    command = given or f"{arch}-linux-gnu-gcc"
    if shutil.which(command.split()[0]) is None:
        raise ArtifactError(
            request,
            f"there is no C compiler {command!r}, which links code for {arch}",
            f"install it (Debian: gcc-{arch.replace('_', '-')}-linux-gnu), name another one by "
            f"--cc {arch}=COMMAND, or leave the level out",
        )
    return command


def gpu_data(module: Module) -> bytes:
    """A GPU module's code as data: machine code where NVRTC is, PTX, and its text."""
    return metadata(module).encode()


def arch_of_gpu(target: Target) -> str:
    """The architecture of a GPU's target: ``"sm_90"``.

    Raises:
        TargetError: it names none.
    """
    arch = str(target.canonical().attrs.get("arch", ""))
    if not arch:
        raise TargetError(f"{target}", "it names no architecture", "-arch=sm_90")
    return arch


def replace_file(request: str, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file of pieces: whole or not at all.

    Raises:
        ArtifactError: it cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("wb") as written:
            written.writelines(pieces)
        os.replace(new, path)
    except OSError as error:
        raise ArtifactError(request, f"{path} cannot be written: {error.strerror}") from None
    finally:
        new.unlink(missing_ok=True)
