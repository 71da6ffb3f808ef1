"""Artifact: a compiled module as plain data that crosses processes."""

from __future__ import annotations

from dataclasses import dataclass

from whet.compiler.signature import KernelSignature


@dataclass(frozen=True)
class Artifact:
    """What the compiler makes of a module, not yet loaded anywhere.

    Attributes:
        object: an object file with, for each signature, the raw kernel, the checked entry and the
            timing loop; empty where there is source only, for another compiler.
        signatures: the kernels, the entry function first.
        target: the canonical target's ``to_json()``.
        source: the text that ``object`` was compiled from: LLVM's or C's; or that of a device.
    """

    object: bytes
    signatures: tuple[KernelSignature, ...]
    target: dict
    source: str
