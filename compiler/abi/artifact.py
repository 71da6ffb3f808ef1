"""Artifact: a compiled module as plain data that crosses processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from whet.compiler.abi.launch import LaunchPlan
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.abi.tuned_by import TunedBy


@dataclass(frozen=True)
class Artifact:
    """A compiled module, not yet loaded anywhere.

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
        tuned_by: function -> where its config comes from, of those for which a log was asked.
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
    tuned_by: Mapping[str, TunedBy] = field(default_factory=dict)


@dataclass(frozen=True)
class Resources:
    """The resources of a GPU's kernel, as its machine code tells.

    Attributes:
        registers: of a thread.
        spill_stores, spill_loads: bytes of a thread's registers that are moved to memory and back
            in the text of the code, for want of registers.
        stack_bytes: of a thread.
        static_shared_bytes: of a block, beside the arena that a launch asks for.
        dynamic_shared_bytes: of a block: the arena that its launches ask for, the largest of them;
            None where they do so by a symbol's value, or no launch is known: no cubin says it.
        code_bytes: of machine code.
    """

    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack_bytes: int = 0
    static_shared_bytes: int = 0
    code_bytes: int = 0
    dynamic_shared_bytes: int | None = None
