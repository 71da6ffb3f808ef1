"""A module's code as text or bytes, by format: what get_source() and save() give."""

from __future__ import annotations

from collections.abc import Callable

from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.artifact import Artifact


def _assembly(artifact: Artifact) -> str:
    from whet.compiler.codegen.llvm import jit
    from whet.compiler.target import Target

    return jit.assembly(artifact.source, Target(artifact.target))


def _bitcode(artifact: Artifact) -> bytes:
    from whet.compiler.codegen.llvm import jit

    binding = jit.llvm()
    return binding.parse_assembly(artifact.source, binding.create_context()).as_bitcode()


def _as_it_is(artifact: Artifact) -> str:
    return artifact.source


Text = Callable[[Artifact], str]
# kind of target -> format -> how; the first is the default.
TEXTS: dict[str, dict[str, Text]] = {
    "llvm": {"ll": _as_it_is, "asm": _assembly, "s": _assembly},
    "c": {"c": _as_it_is},
    "cuda": {"cu": _as_it_is, "cuda": _as_it_is},
}


def kind_of(artifact: Artifact) -> str:
    """The kind of target that an artifact was made for."""
    return str(artifact.target.get("kind", "llvm"))


def formats(artifact: Artifact) -> list[str]:
    """The formats of an artifact's text."""
    return list(TEXTS.get(kind_of(artifact), {kind_of(artifact): _as_it_is}))


def text_of(artifact: Artifact, fmt: str) -> str:
    """An artifact's code as text.

    Args:
        artifact: a compiled module.
        fmt: one of :func:`formats`; ``""`` for the first.

    Raises:
        ArgumentError: the format is none of these, or the artifact has no text.
    """
    known = TEXTS.get(kind_of(artifact), {kind_of(artifact): _as_it_is})
    if not artifact.source:
        raise ArgumentError(
            f"get_source({fmt!r})", "the module was loaded from a file that holds machine code only"
        )
    if fmt and fmt not in known:
        names = ", ".join(f'"{name}"' for name in known)
        raise ArgumentError(f"get_source({fmt!r})", "no such format", f"formats: {names}")
    return known[fmt or next(iter(known))](artifact)


def bytes_of(artifact: Artifact, fmt: str) -> bytes:
    """What a file of a format holds; of formats that need no linking.

    Raises:
        ArgumentError: as :func:`text_of` does.
    """
    if fmt == "bc" and kind_of(artifact) == "llvm":
        return _bitcode(artifact)
    return text_of(artifact, fmt).encode()
