"""How the stages of a group of rows read a tensor: whose row, and whether element after element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import Var
from whet.search_spaces.graph.access import Access, Affine, accesses, composed
from whet.search_spaces.graph.compute_graph import Group, Node


def read_alike(s: Schedule, group: Group, tensor: Tensor, stages: Iterable[Node]) -> bool:
    """Whether stages read a tensor in the same row, so that one kept for them all is enough."""
    found = set()
    for node in stages:
        row = _rows(group, node)
        for access in _accesses(s, node.op, tensor, {}):
            found.add(tuple(None if v is None else row.get(v) for v in _variables(access)))
    return len(found) == 1


def read_straight(s: Schedule, group: Group, tensor: Tensor) -> bool:
    """Whether each stage reads a tensor where it is itself in its row, not backwards or shifted.

    What one stage alone reads of the memory is read as it likes.
    """
    members = {n.op for n in group.members}
    readers = 0
    straight = True
    for node in {n.index: n for n in (*group.members, group.anchor, group.last)}.values():
        row = _rows(group, node)
        turns = [a.var for a in (*node.op.axis, *node.op.reduce_axis)]
        found = list(_accesses(s, node.op, tensor, {}))
        readers += bool(found)
        for access in found:
            inner = [v for v in _wide(access) if v not in row]
            places = [turns.index(v) for v in inner if v in turns]
            straight &= None not in inner and places == sorted(places)
    return straight or (readers < 2 and tensor.op not in members)


def _rows(group: Group, node: Node) -> dict[Var, int]:
    """The variables of a stage's axes that are rows of which there are several."""
    own = group.maps.get(node.index, tuple(range(len(node.extents))))
    return {
        axis.var: q
        for axis, q in zip(node.op.axis, own)
        if q in group.rows and group.last.extents[q] > 1
    }


def _variables(access: Access) -> list[Var | None]:
    return [None if i is None else i.variable for i in access.indices]


def _wide(access: Access) -> list[Var | None]:
    """What the indices are of dimensions with more than one element."""
    pairs = zip(_variables(access), access.tensor.shape)
    return [v for v, extent in pairs if int(extent) > 1]


def _accesses(
    s: Schedule, op: Operation, tensor: Tensor, at: Mapping[Var, Affine | None]
) -> Iterator[Access]:
    """An operation's reads of a tensor, also those of what is computed in it."""
    for access in accesses(op) if isinstance(op, ComputeOp) else ():
        indices = tuple(composed(i, at) for i in access.indices)
        inside = access.tensor.op
        if inside is tensor.op:  # of several outputs, all are kept alike
            yield Access(access.tensor, indices)
        elif isinstance(inside, ComputeOp) and s[inside].attach_type == INLINE:
            values = {axis.var: i for axis, i in zip(inside.axis, indices)}
            yield from _accesses(s, inside, tensor, values)
