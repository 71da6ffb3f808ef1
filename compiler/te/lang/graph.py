"""The operations behind some tensors, in the order of computation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir.visit.rewrite import nodes


def post_order(outputs: Sequence[Operation]) -> list[Operation]:
    """Every operation, producers first; deep graphs do not hit Python's recursion limit."""
    return nodes(outputs, lambda op: [t.op for t in op.input_tensors])


def between(
    outputs: Sequence[Operation], inputs: Collection[Operation], include_inputs: bool
) -> list[Operation]:
    """The operations on the ways from some inputs to some outputs, producers first.

    Args:
        outputs: they belong to it, if they are computed from an input.
        inputs: where it ends.
        include_inputs: the inputs belong to it, too.
    """
    reached: set[Operation] = set(inputs)
    out = []
    for op in nodes(outputs, lambda x: [] if x in inputs else [t.op for t in x.input_tensors]):
        if op in reached:
            out += [op] if include_inputs else []
        elif any(t.op in reached for t in op.input_tensors):
            reached.add(op)
            out.append(op)
    return out


def made_by(op: Operation) -> str:
    """How errors say what an operation is: ``"is made by te.scan"``."""
    return f"is made by te.{type(op).__name__.removesuffix('Op').lower()}"
