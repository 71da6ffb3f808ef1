"""One module of what ``build()`` made for several targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.errors import ArtifactError, TargetError
from whet.compiler.runtime.library import source
from whet.compiler.runtime.library.loadable import check_loadable
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.unloaded import HostPart, UnloadedModule
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule

Part = tuple[Target, IRModule, Artifact]


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
            other = _of_device(target, artifact)
            launchers = _host_part(mod, host, other)
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
        if not artifact.object:
            raise ArtifactError(
                f"calling code of kind {source.kind_of(artifact)!r}",
                "it was made as source, with no machine code",
                'read it: module.get_source(); or build for "llvm" to run here',
            )
        check_loadable(artifact, is_new=True)
    except ArtifactError as why:
        return UnloadedModule(artifact, why)
    return Module.from_artifact(artifact)


def _of_device(target: Target, artifact: Artifact) -> Module:
    """A module of a GPU's code; one that cannot be called where nothing says how."""
    if target.kind == "cuda" and artifact.plans:
        return Module.from_artifact(artifact)
    why = f"this build of Whet makes code of kind {target.kind!s} and does not launch it"
    if target.kind == "cuda":
        why = "its kernels were given without the functions that launch them"
    error = TargetError(
        f"calling a kernel that was built for {target.kind}",
        why,
        f'read it: module.get_source("{source.formats(artifact)[0]}"); '
        'or build for "llvm" to run here',
    )
    return UnloadedModule(artifact, error)


def _host_part(mod: IRModule, host: Target, device: Module) -> HostPart:
    """The functions that launch a GPU's kernels: no code of their own, but plans."""
    signatures: list[Any] = [
        f.attrs["signature"]
        for f in mod.functions.values()
        if isinstance(f.attrs.get("signature"), KernelSignature)
    ]
    artifact = Artifact(b"", tuple(signatures), host.canonical().to_json(), "")
    part = HostPart(artifact, device._code.why, mod.script())
    part.launch_with([device])
    return part
