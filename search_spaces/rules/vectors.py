"""A processor's vectors: elements in a register, and registers."""

from __future__ import annotations

from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt


def lanes_of(target: Target, dtype: str) -> int:
    """Elements of a type in one vector register."""
    return max(target.vector_bytes // dt.itemsize(dtype), 1)


def vector_registers(target: Target) -> int:
    """How many vector registers a processor has: 32 with AVX-512 (and on Arm), else 16."""
    triple = str(target.canonical().attrs.get("mtriple", ""))
    return 32 if target.vector_bytes >= 64 or triple.startswith(("aarch64", "arm64")) else 16
