"""Producers that belong to one group: which are computed where they are read, and the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from whet.compiler.te import Schedule, Stage
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir.expr import IterVar
from whet.search_spaces.graph.groups import elementwise_behind
from whet.search_spaces.graph.stages import INJECTIVE, REDUCTION, Group, Node, extent_of

#: a row up to so many elements is copied as one vector
_WIDEST_ROW = 64
#: simple operations that a load counts as
_LOAD = 2


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


def apart(s: Schedule, group: Group, most: int) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """The stages of a chain that are scheduled one by one, each with those computed behind it.

    Members that :func:`computed_again` names are inlined.
    """
    inlined = computed_again(group, most)
    for op in inlined:
        s[op].compute_inline()
    kept = [n for n in (*group.members, group.anchor) if n.op not in inlined]
    behind = elementwise_after(kept, group)
    for node in kept:
        if node in behind:
            yield node, (behind[node],)
        elif node not in behind.values():
            yield node, group.consumers if node is group.anchor else ()


def computed_again(group: Group, most: int) -> set[Operation]:
    """The members that are computed in all their readers, which together do not do so often.

    Args:
        group: a chain of stages.
        most: operations and loads for each element that would be stored, at most.
    """
    last = group.last
    readers: dict[int, Node] = {n.index: n for n in (*group.members, group.anchor, last)}
    evaluated = {k: n.steps for k, n in readers.items()}
    found: set[Operation] = set()
    for node in sorted(group.members, key=lambda n: -n.index):
        reading = [readers[k] for k in node.readers if k in readers]
        if node.role != INJECTIVE or not node.inlinable or len(reading) != len(node.readers):
            continue
        again = sum(reader.loads[node.op] * evaluated[reader.index] for reader in reading)
        if again * (node.cost + _LOAD * len(node.reads)) <= most * node.points:
            found.add(node.op)
            evaluated[node.index] = again
    return found


def elementwise_after(kept: Sequence[Node], group: Group) -> dict[Node, Node]:
    """Reductions before others -> the one stage that reads each, if element by element.

    Of several with one reader, it is the last one's.
    """
    found: dict[Node, Node] = {}
    members = {n.index: n for n in kept if n in group.members and n.role == INJECTIVE}
    for node in reversed(kept):
        reader = members.get(node.readers[0]) if len(node.readers) == 1 else None
        if node.role != REDUCTION or node is group.anchor or reader is None:
            continue
        if reader not in found.values() and elementwise_behind(node, reader):
            found[node] = reader
    return found
