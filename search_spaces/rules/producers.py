"""Producers that belong to one group: which are computed where they are read, and the others."""

from __future__ import annotations

from collections.abc import Iterable

from whet.compiler.te import Schedule, Stage
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir.expr import IterVar
from whet.search_spaces.graph.stages import Group, Node, extent_of

#: a row up to so many elements is copied as one vector
_WIDEST_ROW = 64


def staged_behind(group: Group, op: Operation) -> list[Node]:
    """The staged producers of a group that an operation is made from, itself among them."""
    staged = {node.op: node for node in group.staged}
    found: dict[Operation, Node] = {}
    waiting = [op]
    while waiting:
        one = waiting.pop()
        if one in found or one not in staged:
            waiting.extend(t.op for t in one.input_tensors if one not in staged)
            continue
        found[one] = staged[one]
        waiting.extend(t.op for t in one.input_tensors)
    return list(found.values())


def schedule_staged(
    s: Schedule, group: Group, inlined: Iterable[Operation], lanes: int, parallel: bool = False
) -> None:
    """Schedule the staged producers of a group.

    Args:
        inlined: those that are computed where they are read.
        lanes: elements in a vector, for the others.
        parallel: whether these run on the target's threads.
    """
    inside = set(inlined)
    for node in group.staged:
        if node.op in inside:
            s[node.op].compute_inline()
        elif node.op in s.stage_map and node.op.axis:  # a rule may have seen through it
            vectorize_row(s[node.op], node.op.axis[-1], lanes)
            if parallel and len(node.op.axis) > 1:
                s[node.op].parallel(node.op.axis[0])


def vectorize_row(stage: Stage, axis: IterVar, lanes: int) -> None:
    """Vectorise a stage's innermost loop, whole where it is short."""
    extent = extent_of(axis)
    if extent == 1:
        return
    if extent > _WIDEST_ROW:
        _, axis = stage.split(axis, factor=2 * lanes if lanes > 1 else 8)
    stage.vectorize(axis)
