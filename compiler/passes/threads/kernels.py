"""Kernels among the functions of a module, and what several passes ask of them."""

from __future__ import annotations

from collections.abc import Callable

from whet.compiler.tir.function import IRModule, PrimFunc


def is_split(func: PrimFunc) -> bool:
    """True for a kernel that SplitHostDevice made: its threads are attributes, not loops."""
    return "thread_extent" in func.attrs


def map_kernels(mod: IRModule, change: Callable[[PrimFunc], PrimFunc]) -> IRModule:
    """The module with every kernel changed."""
    return mod.map(lambda f: change(f) if is_split(f) else f)
