"""The operations behind some tensors, in the order of computation."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir.visit.rewrite import nodes


def post_order(outputs: Sequence[Operation]) -> list[Operation]:
    """Every operation, producers first; deep graphs do not hit Python's recursion limit."""
    return nodes(outputs, lambda op: [t.op for t in op.input_tensors])


def made_by(op: Operation) -> str:
    """How errors say what an operation is: ``"is made by te.scan"``."""
    return f"is made by te.{type(op).__name__.removesuffix('Op').lower()}"
