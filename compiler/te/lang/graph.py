"""The operations behind some tensors, in the order of computation."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.te.lang.tensor import Operation


def post_order(outputs: Sequence[Operation]) -> list[Operation]:
    """Every operation, producers first; deep graphs do not hit Python's recursion limit."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if ready:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.input_tensors) if t.op not in seen)
    return order
