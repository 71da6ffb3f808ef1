"""llvmlite's binding, loaded and initialised on first use; the lock around what builds a module."""

from __future__ import annotations

import functools
import threading
from types import ModuleType

# llvmlite serialises each call by itself; building one module is many calls, which share a
# context, and two threads gain nothing by taking turns.
lock = threading.RLock()


@functools.cache
def llvm() -> ModuleType:
    """``llvmlite.binding``, ready for code of this machine."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def initialize_all_targets() -> None:
    """Let LLVM generate code for other processors than this one."""
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


def version() -> str:
    """The versions of llvmlite and of LLVM."""
    import llvmlite

    return f"{llvmlite.__version__} {llvm().llvm_version_info}"
