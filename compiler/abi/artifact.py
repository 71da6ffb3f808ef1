"""Artifact: a compiled module as plain data that crosses processes."""

from __future__ import annotations

from dataclasses import dataclass

from whet.compiler.abi.launch import LaunchPlan
from whet.compiler.abi.signature import KernelSignature


@dataclass(frozen=True)
class Artifact:
    """What the compiler makes of a module, not yet loaded anywhere.

    Attributes:
        object: an object file with, for each signature, the raw kernel, the checked entry and the
            timing loop; of code for a GPU a cubin; empty where there is source only.
        signatures: the functions that are called, the entry function first.
        target: the canonical target's ``to_json()``.
        source: the text that ``object`` was compiled from: LLVM's or C's; or that of a device.
        plans: of code for a device, what the host does for each of ``signatures``.
        kernels: of code for a device, what its kernels take.
        scattered: of code for a GPU, what its vectors store, or copy, one by one for want of
            alignment, e.g. ``"stores to C"``.
        ptx: of code for a GPU, text that the drivers of later GPUs take, where it was made ahead.
        log: of code for a GPU, what the compiler said of ``object``: spills are nowhere else.
    """

    object: bytes
    signatures: tuple[KernelSignature, ...]
    target: dict
    source: str
    plans: tuple[LaunchPlan, ...] = ()
    kernels: tuple[KernelSignature, ...] = ()
    ptx: str = ""
    scattered: tuple[str, ...] = ()
    log: str = ""
