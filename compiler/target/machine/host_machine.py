"""This machine, as object code for it is compiled: for probes, and for calls from Python."""

from __future__ import annotations

from whet.compiler.jit.compile import Machine, compile_text
from whet.compiler.jit.loader import LoadedCode, load_object
from whet.compiler.target.machine import host


def host_machine() -> Machine:
    """The machine of ``Target("llvm").canonical()``."""
    features = ",".join("+" + f for f in sorted(host.features()))
    return Machine("llvm", host.triple(), host.mcpu(), features)


def loaded(ll: str, passes: bool = True) -> LoadedCode:
    """LLVM text as code in this process.

    Args:
        ll: the module's text.
        passes: as for :func:`~whet.compiler.jit.compile.compile_text`.
    """
    return load_object(compile_text(ll, host_machine(), passes))
