"""The driver: ``lower()`` from a schedule to loop IR, ``build()`` on to a callable module."""

from __future__ import annotations

import hashlib
import sys

from whet.compiler.driver.compile import build, compile_module
from whet.compiler.driver.lowering import Lowerable, get_binds, lower, schedule_to_module
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule

__all__ = [
    "Lowerable",
    "build",
    "compile_module",
    "get_binds",
    "lower",
    "program_hash",
    "schedule_to_module",
]


build_module = sys.modules[__name__]
"""TVM's name of the module that has ``build``, ``get_binds`` and ``schedule_to_module``."""


def program_hash(mod: IRModule, target: Target) -> str:
    """The identity of a program on a target: the same hash, the same machine code."""
    text = f"{target.canonical().key}\n{mod.script()}"
    return hashlib.sha256(text.encode()).hexdigest()[:40]
