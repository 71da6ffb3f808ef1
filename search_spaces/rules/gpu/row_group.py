"""Groups of stages that go through the same rows: axes and widths, reads, tensors worth keeping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from whet.compiler.arith import Affine
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import Var
from whet.search_spaces.graph.access import Access, accesses, composed
from whet.search_spaces.graph.stages import REDUCTION, Group, Node


def stages_of(group: Group) -> tuple[Node, ...]:
    """The stages of a group: members, anchor and last one, each once."""
    return tuple({n.index: n for n in (*group.members, group.anchor, group.last)}.values())


def row_count(group: Group) -> int:
    """The number of rows."""
    return prod(group.last.extents[k] for k in group.rows)


def axes_in_last(group: Group, node: Node) -> tuple[int | None, ...]:
    """For each data axis of a stage the place of the axis of the last stage that it is."""
    return group.maps.get(node.index, tuple(range(len(node.extents))))


def wide_axes(group: Group, node: Node) -> list[int]:
    """The axes of a stage that are not rows."""
    return [k for k, q in enumerate(axes_in_last(group, node)) if q not in group.rows]


def rows_in_order(group: Group, node: Node) -> bool:
    """True if a stage has the axes of all rows, in their order."""
    own = axes_in_last(group, node)
    return [q for q in own if q in group.rows] == list(group.rows)


def width(group: Group, node: Node) -> int:
    """Elements of a stage in one row."""
    return prod(node.extents[k] for k in wide_axes(group, node))


def common_length(group: Group) -> int | None:
    """The elements of a row that all reductions and the last stage go through; None: they differ.

    Rows of stages in between may have other lengths: see :func:`width`.
    """
    last = group.last
    lengths = {prod(n.reduce_extents) for n in stages_of(group) if n.role == REDUCTION}
    if last.role != REDUCTION and len(group.rows) < len(last.extents):
        lengths.add(prod(d for k, d in enumerate(last.extents) if k not in group.rows))
    return lengths.pop() if len(lengths) == 1 else None


def read_alike(s: Schedule, group: Group, tensor: Tensor, stages: Iterable[Node]) -> bool:
    """True if stages read a tensor in the same row, so that one kept for them all is enough."""
    found = set()
    for node in stages:
        row = _rows(group, node)
        for access in _accesses(s, node.op, tensor, {}):
            found.add(tuple(None if v is None else row.get(v) for v in _variables(access)))
    return len(found) == 1


def read_straight(s: Schedule, group: Group, tensor: Tensor) -> bool:
    """True if each stage reads a tensor where it is itself in its row, not backwards or shifted.

    A tensor in memory that one stage alone reads may be read in any order.
    """
    members = {n.op for n in group.members}
    readers = 0
    straight = True
    for node in stages_of(group):
        row = _rows(group, node)
        turns = [a.var for a in (*node.op.axis, *node.op.reduce_axis)]
        found = list(_accesses(s, node.op, tensor, {}))
        readers += bool(found)
        for access in found:
            # the variables that index the dimensions of more than one element
            pairs = zip(_variables(access), access.tensor.shape)
            inner = [v for v, extent in pairs if int(extent) > 1 and v not in row]
            places = [turns.index(v) for v in inner if v in turns]
            straight &= None not in inner and places == sorted(places)
    return straight or (readers < 2 and tensor.op not in members)


def _rows(group: Group, node: Node) -> dict[Var, int]:
    """The variables of a stage's axes that are rows of which there are several."""
    return {
        axis.var: q
        for axis, q in zip(node.op.axis, axes_in_last(group, node))
        if q in group.rows and group.last.extents[q] > 1
    }


def _variables(access: Access) -> list[Var | None]:
    return [None if i is None else i.variable for i in access.indices]


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


def whole_rows(s: Schedule, group: Group) -> list[Tensor]:
    """The tensors of whole rows that the stages of a group read from memory."""
    every = list(dict.fromkeys(tensor for _, tensor, _ in _reads(s, group)))
    if group.last.role == REDUCTION:
        return every
    return [t for t in every if tuple(map(int, t.shape)) == group.last.extents]


def _reads(s: Schedule, group: Group) -> Iterator[tuple[Node, Tensor, ComputeOp]]:
    """Each stage of a group, a tensor that it reads from outside, and the operation that reads it:
    its own or one that is inlined into it."""
    stages = stages_of(group)
    stored = {n.op for n in stages}
    for node in stages:
        waiting = [node.op]
        seen = set()
        while waiting:
            op = waiting.pop()
            if op in seen or not isinstance(op, ComputeOp):
                continue
            seen.add(op)
            for t in op.input_tensors:
                if t.op in stored:
                    continue
                if s[t].attach_type == INLINE:
                    waiting.append(t.op)
                else:
                    yield node, t, op


def kept_inputs(s: Schedule, group: Group) -> list[Tensor]:
    """Rows that several stages read, as stages in registers."""
    readers: dict[Tensor, tuple[set[Node], dict[ComputeOp, None]]] = {}
    for node, tensor, op in _reads(s, group):
        stages, ops = readers.setdefault(tensor, (set(), {}))
        stages.add(node)
        ops[op] = None
    found = []
    wide = whole_rows(s, group)
    for tensor, (stages, ops) in readers.items():
        if len(stages) < 2 or tensor not in wide or not read_alike(s, group, tensor, stages):
            continue
        (first, *others) = ops
        if not others and _is_cast(first) and first not in {n.op for n in stages}:
            found.append(first.output(0))
        else:
            found.append(s.cache_read(tensor, "local", [op.output(0) for op in ops]))
    return found


def _is_cast(op: ComputeOp) -> bool:
    """True if an operation reads one element for each of its own, of another type."""
    (read,) = op.input_tensors if len(op.input_tensors) == 1 else (None,)
    return read is not None and tuple(map(int, read.shape)) == tuple(map(int, op.output_shape(0)))
