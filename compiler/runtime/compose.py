"""One module of what ``build()`` made for several targets, and modules that cannot be run here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from whet.compiler.errors import ArtifactError, TargetError, WhetError
from whet.compiler.runtime.artifact import Artifact
from whet.compiler.runtime.module import Function, Module, check_loadable
from whet.compiler.signature import KernelSignature
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule

Part = tuple[Target, IRModule, Artifact]


class NoCode:
    """Stands for machine code that is not in this process; asking for an address says why."""

    def __init__(self, why: WhetError) -> None:
        self.why = why

    def address_of(self, symbol: str) -> NoReturn:
        """Refused."""
        raise self.why


class UnloadedModule(Module):
    """Code that this process cannot run: it can be read and saved, and calling it says why.

    Args:
        artifact: the code.
        why: raised when one of its functions is called.
        text: what :meth:`get_source` gives without a format, instead of the artifact's.
    """

    def __init__(self, artifact: Artifact, why: WhetError, text: str = "") -> None:
        self.artifact = artifact
        self._code = NoCode(why)
        self._text = text
        self._functions = {s.name: Function(s, self) for s in artifact.signatures}
        self._entry = self._functions[artifact.signatures[0].name]

    def get_source(self, fmt: str = "") -> str:
        """As for every module; the loops of a host's part that is not compiled."""
        return self._text if self._text and not fmt else super().get_source(fmt)

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """As for every module; an object is written as it is, without a C compiler."""
        kind = fmt or Path(file_name).suffix.lstrip(".") or self.format
        if kind in ("o", "obj") and self.artifact.object:
            Path(file_name).write_bytes(self.artifact.object)
            return
        super().save(file_name, fmt)


def compose(parts: Sequence[Part], host: Target, name: str) -> Module:
    """The module of all parts: the host's code, with the other parts imported.

    Args:
        parts: target, what was built, and its code.
        host: what runs the host's part.
        name: the module's name.
    """
    cpu = [p for p in parts if p[0].device == "cpu"]
    first = next((p for p in cpu if p[0].kind == host.kind), cpu[0] if cpu else None)
    main = None if first is None else _loaded(first[2])
    for part in parts:
        if part is first:
            continue
        target, mod, artifact = part
        if target.device == "cpu":
            other = _loaded(artifact)
            launchers: Module = other
        else:
            why = _not_launched(target)
            other = UnloadedModule(artifact, why)
            launchers = _host_part(mod, host, why)
        if main is None:
            main = launchers
        else:
            main._functions.update(launchers._functions)
        main.import_module(other)
    assert main is not None  # build() refuses to build nothing
    main.ir_module_by_target = {target: mod for target, mod, _ in parts}
    main.name = name
    return main


def _loaded(artifact: Artifact) -> Module:
    """A module of CPU code; one that cannot be called where this machine cannot run it."""
    try:
        check_loadable(artifact)
    except ArtifactError as why:
        return UnloadedModule(artifact, why)
    return Module.from_artifact(artifact)


def _not_launched(target: Target) -> TargetError:
    return TargetError(
        f"calling a kernel that was built for {target.kind}",
        "this build of Whet makes CUDA source and does not launch it yet",
        'read it: module.get_source("cuda"); or build for "llvm" to run here',
    )


def _host_part(mod: IRModule, host: Target, why: WhetError) -> UnloadedModule:
    """The functions that would launch a GPU's kernels."""
    signatures: list[Any] = [
        f.attrs["signature"]
        for f in mod.functions.values()
        if isinstance(f.attrs.get("signature"), KernelSignature)
    ]
    artifact = Artifact(b"", tuple(signatures), host.canonical().to_json(), "")
    return UnloadedModule(artifact, why, mod.script())
