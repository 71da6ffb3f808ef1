"""A module's code as text, bytes or a file, by format: what get_source() and save() give."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whet.compiler.abi.artifact import Artifact, Resources
from whet.compiler.errors import ArgumentError, ArtifactError
from whet.compiler.jit.compile import assembly
from whet.compiler.runtime.library.llvm_text import described_bitcode, with_description
from whet.compiler.target import Target
from whet.compiler.target.kinds import KINDS
from whet.compiler.target.llvm_machine import machine_of


def _assembly(artifact: Artifact) -> str:
    return assembly(artifact.source, machine_of(Target(artifact.target)))


def _ptx(artifact: Artifact) -> str:
    return artifact.ptx or _compiled_by("compile_ptx", artifact)


def _sass(artifact: Artifact) -> str:
    return KINDS["cuda"].tool("disassembled")(_cubin(artifact))


def _cubin(artifact: Artifact) -> bytes:
    return artifact.object or _compiled_by("compile_cubin", artifact).cubin


def _compiled_by(tool: str, artifact: Artifact) -> Any:
    """The result of NVRTC for an artifact's text."""
    return KINDS["cuda"].tool(tool)(artifact.source, str(artifact.target["arch"]))


def _as_it_is(artifact: Artifact) -> str:
    return artifact.source


Text = Callable[[Artifact], str]
# kind of target -> format -> how; the first is the default.
TEXTS: dict[str, dict[str, Text]] = {
    "llvm": {"ll": _as_it_is, "asm": _assembly, "s": _assembly},
    "c": {"c": _as_it_is},
    "cuda": {"cu": _as_it_is, "cuda": _as_it_is, "ptx": _ptx, "sass": _sass},
}
# (kind of target, format of a file that is no text) -> how.
BYTES: dict[tuple[str, str], Callable[[Artifact], bytes]] = {
    ("llvm", "ll"): lambda artifact: with_description(artifact).encode(),
    ("llvm", "bc"): described_bitcode,
    ("cuda", "cubin"): _cubin,
}


def kind_of(artifact: Artifact) -> str:
    """The kind of target that an artifact was made for."""
    return str(artifact.target.get("kind", "llvm"))


def formats(artifact: Artifact) -> list[str]:
    """The formats of an artifact's text."""
    return list(TEXTS.get(kind_of(artifact), {kind_of(artifact): _as_it_is}))


def writes(artifact: Artifact, fmt: str) -> bool:
    """True where a format is one of the artifact's, of text or of bytes."""
    return fmt in formats(artifact) or (kind_of(artifact), fmt) in BYTES


def _no_format(
    request: str, fmt: str, artifacts: Sequence[Artifact], why_none: str, files: Sequence[str] = ()
) -> ArgumentError:
    """Why the first artifact has no code in a format, and which formats there are.

    Args:
        request: the request.
        fmt: the format.
        artifacts: the module's, then those of imported ones.
        why_none: why the first has no text, if it has none.
        files: formats of files beside texts.
    """
    have = dict.fromkeys(f for a in artifacts if a.source for f in formats(a))
    if have:
        have |= dict.fromkeys(files)
    of_any = {f for known in TEXTS.values() for f in known} | {f for _, f in BYTES} | {""}
    why = why_none or "there is no text of it"
    if artifacts[0].source or (have and fmt not in of_any):
        why = "no such format"
    names = ", ".join(f'"{name}"' for name in have)
    return ArgumentError(request, why, f"formats: {names}" if have else "")


def text_of(artifact: Artifact, fmt: str, more: Sequence[Artifact] = (), why_none: str = "") -> str:
    """An artifact's code as text.

    Args:
        artifact: a compiled module.
        fmt: one of :func:`formats`; ``""`` for the first.
        more: those of imported modules, whose formats could have been asked for.
        why_none: why the artifact has no text, if it has none.

    Raises:
        ArgumentError: the format is none of these, or the artifact has no text.
    """
    known = TEXTS.get(kind_of(artifact), {kind_of(artifact): _as_it_is})
    if artifact.source and (not fmt or fmt in known):
        return known[fmt or next(iter(known))](artifact)
    raise _no_format(f"get_source({fmt!r})", fmt, (artifact, *more), why_none)


def bytes_of(
    request: str, artifact: Artifact, fmt: str, more: Sequence[Artifact] = (), why_none: str = ""
) -> bytes:
    """The content of a file in a format that needs no linking.

    Args:
        request: the request, for an error.
        artifact, fmt, more, why_none: as for :func:`text_of`.

    Raises:
        ArgumentError: as :func:`text_of` does.
    """
    found = BYTES.get((kind_of(artifact), fmt))
    if found is not None and artifact.source:
        return found(artifact)
    if not artifact.source or (fmt and fmt not in formats(artifact)):
        kinds = {kind_of(a) for a in (artifact, *more) if a.source}
        files = [*(f for kind, f in BYTES if kind in kinds), "so", "o", "tar"]
        raise _no_format(request, fmt, (artifact, *more), why_none, files)
    return text_of(artifact, fmt, more, why_none).encode()


def resources_of(artifacts: Sequence[Artifact]) -> dict[str, Resources]:
    """The resources of the kernels of those artifacts that are for a GPU.

    Raises:
        ArgumentError: none of them is.
    """
    out: dict[str, Resources] = {}
    found = [a for a in artifacts if kind_of(a) == "cuda"]
    for artifact in found:
        out.update(
            (name, replace(r, dynamic_shared_bytes=_arena(artifact, name)))
            for name, r in _taken(artifact).items()
        )
    if not found:
        kinds = ", ".join(repr(kind_of(a)) for a in artifacts)
        raise ArgumentError(
            "resources()",
            f"a module of kind {kinds} holds no kernels for a GPU",
            'build(s, args, target="cuda -arch=sm_80")',
        )
    return out


def _taken(artifact: Artifact) -> Mapping[str, Resources]:
    """The resources of kernels by their machine code; NVRTC compiles a text first."""
    if artifact.object and artifact.log:
        return KINDS["cuda"].tool("resources_of")(artifact.object, artifact.log)
    return _compiled_by("compile_cubin", artifact).resources


def _arena(artifact: Artifact, kernel: str) -> int | None:
    """Bytes of shared memory that a kernel's launches ask for; None where numbers do not tell."""
    launches = [x for plan in artifact.plans for x in plan.launches if x.kernel == kernel]
    request = [x.shared_bytes for x in launches]
    numbers = [n for n in request if isinstance(n, int)]
    return max(numbers) if numbers and len(numbers) == len(request) else None


def path_of(request: str, name: object) -> Path:
    """The path that a file's name means.

    Raises:
        ArgumentError: it is no name of a file.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise ArgumentError(request, f"a file's name is a str or a Path, not {name!r}")
    return Path(name)


def write(path: Path, data: bytes) -> None:
    """Write a module's code to a file.

    Raises:
        ArtifactError: the file cannot be written.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ArtifactError(
            f"save({str(path)!r})", f"the file cannot be written: {error.strerror}", "another name"
        ) from None
