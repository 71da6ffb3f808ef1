"""Running compiled kernels: arrays, devices, modules, libraries, packed functions, timing."""

from __future__ import annotations

import sys

from whet.compiler.abi.artifact import Artifact
from whet.compiler.runtime.arrays import device as _device
from whet.compiler.runtime.arrays import nd
from whet.compiler.runtime.arrays.device import Device, cpu, cuda, device
from whet.compiler.runtime.arrays.ndarray import NDArray
from whet.compiler.runtime.call.packed import (
    PackedFunc,
    convert,
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)
from whet.compiler.runtime.function import Function
from whet.compiler.runtime.library.export import include_dir
from whet.compiler.runtime.load import load_module
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.timing import BenchmarkResult

__all__ = [
    "Artifact",
    "BenchmarkResult",
    "Device",
    "Function",
    "Module",
    "NDArray",
    "PackedFunc",
    "convert",
    "cpu",
    "cuda",
    "device",
    "enabled",
    "get_global_func",
    "include_dir",
    "list_global_func_names",
    "load_module",
    "nd",
    "num_threads",
    "register_func",
    "remove_global_func",
]

# Pickled devices of earlier versions name this module; an import would hide the function.
sys.modules[f"{__name__}.device"] = _device


def enabled(target: str) -> bool:
    """True where this build of Whet makes code for a target and runs it on this machine.

    Args:
        target: a kind, or a whole target text, e.g. ``"llvm"`` or ``"cuda -arch=sm_80"``.
            Code for ``cuda`` is made anywhere; it runs where there is a GPU.
    """
    import shutil

    from whet.compiler import settings

    words = str(target).split()
    kind = words[0] if words else ""
    if kind == "c":
        return shutil.which(settings.c_compiler().split()[0]) is not None
    if kind == "cuda":
        return cuda().exist
    return kind in ("llvm", "cpu")


def num_threads() -> int:
    """Threads of a parallel loop: ``WHET_NUM_THREADS``, else usable physical cores."""
    from whet.compiler.target.machine import host

    return host.num_threads()
