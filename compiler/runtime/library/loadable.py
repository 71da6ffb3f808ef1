"""Whether this machine can run an artifact's code."""

from __future__ import annotations

from whet.compiler.abi.artifact import Artifact
from whet.compiler.errors import ArtifactError


def check_loadable(artifact: Artifact, is_new: bool = False) -> None:
    """Refuse an artifact that this machine cannot run.

    Args:
        artifact: the code.
        is_new: it was just built, and will be called; or else loaded.

    Raises:
        ArtifactError: it holds no kernel, or was made for another processor or system.
    """
    if not artifact.signatures:
        raise ArtifactError("loading an artifact", "it holds no kernel")
    why = _obstacle(artifact)
    if why and is_new:
        raise ArtifactError(
            f"calling {artifact.signatures[0].name}",
            why,
            "get_source() and save() work; to call it here, build for a target that this machine "
            'runs, e.g. "llvm"',
        )
    if why:
        raise ArtifactError("loading an artifact", why, "load it there, or build it for this one")


def _obstacle(artifact: Artifact) -> str:
    """Why this machine cannot run an artifact; empty where it can."""
    from whet.compiler.target.machine import host
    from whet.compiler.target.machine.features import parse_mattr
    from whet.compiler.target.machine.processors import architecture_of
    from whet.compiler.target.machine.systems import runs_under

    made_for = str(artifact.target.get("mtriple", host.triple()))
    arch = architecture_of(made_for)
    if arch != architecture_of(host.architecture()):
        return f"it was made for {arch}, this machine is {host.architecture()}"
    if not runs_under(made_for, host.triple()):
        return f"it was made for the system {made_for}, this machine is {host.triple()}"
    needed = {name for on, name in parse_mattr(artifact.target.get("mattr", "")) if on}
    missing = sorted(needed - host.all_features())
    wide = int(artifact.target.get("vector_bytes", 0))
    if not missing and wide > host.vector_bytes():
        own = {32: " (avx2)", 64: " (avx512f)"}.get(wide, "") if arch == "x86_64" else ""
        missing = [f"{8 * wide}-bit vectors{own}"]
    return f"its target asks for {', '.join(missing)}, which this CPU lacks" if missing else ""
