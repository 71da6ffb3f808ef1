"""Rows: groups whose outputs' rows follow from the same rows of their inputs, however many.

Such a group runs block by block: kernels for some numbers of rows are enough for any number. Rows
are what stands in front in memory: an image of a batch, a token of a sequence, of a batch of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from whet.compiler.abi.extent import Extent
from whet.compiler.errors import WhetError
from whet.compiler.graph.fusion import Fused
from whet.compiler.graph.ir import Value
from whet.compiler.graph.kinds import tensors_of
from whet.compiler.graph.symbolic.family import SymbolicGraph, filled, integers
from whet.compiler.graph.symbolic.sizes import is_open
from whet.compiler.te import placeholder
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.tir.expr import ProducerLoad, Var
from whet.compiler.tir.visit.rewrite import TABLE

_ROWS = (3, 5, 7, 11)  # of axes in the proof: none is broadcast, no two are equal


def rows_of(sizes: SymbolicGraph, group: Fused) -> tuple[Extent, ...] | None:
    """The extents whose product is the number of rows; None: the group has none.

    Args:
        sizes: of the group's graph.
        group: one of its groups, whose sizes depend on symbols.
    """
    found: set[tuple[Extent, ...]] = set()
    for v in (*group.inputs, *group.outputs):
        shape = sizes.shapes[v]
        places = [k for k, d in enumerate(shape) if is_open(d)]
        if places:
            if any(d != 1 for d in shape[: places[-1]] if not is_open(d)):
                return None
            found.add(tuple(shape[k] for k in places))
        elif v in group.outputs:
            return None
    if len(found) != 1:
        return None
    (rows,) = found
    inner = {d for n in group.nodes for v in n.outputs for d in sizes.shapes[v] if is_open(d)}
    inner |= {d for n in group.nodes for d in integers(sizes.attrs[n]) if is_open(d)}
    if len(set(rows)) != len(rows) or not inner <= set(rows) or len(rows) > len(_ROWS):
        return None
    return rows if _are_rows(sizes, group, rows) else None


def sized(
    sizes: SymbolicGraph, group: Fused, known: Mapping[Extent, int]
) -> tuple[Fused, Mapping[Value, Value]]:
    """A group with numbers in the place of its extents.

    Args:
        sizes: of the group's graph.
        group: one of its groups.
        known: the number of each extent in which a symbol stands.

    Returns:
        The group, and what stands in it for each value.
    """

    def number(d: Any) -> Any:
        return known.get(d, d)

    values: dict[Value, Value] = {}
    for v in (*group.inputs, *(v for n in group.nodes for v in n.outputs)):
        shape = tuple(number(d) for d in sizes.shapes[v])
        values[v] = replace(v, shape=shape) if shape != v.shape else v
    nodes = tuple(
        replace(
            n,
            inputs=tuple(None if v is None else values[v] for v in n.inputs),
            outputs=tuple(values[v] for v in n.outputs),
            attrs=filled(sizes.attrs[n], number),
        )
        for n in group.nodes
    )
    inputs, outputs = ([values[v] for v in many] for many in (group.inputs, group.outputs))
    return Fused(nodes, tuple(inputs), tuple(outputs)), values


def _are_rows(sizes: SymbolicGraph, group: Fused, rows: Sequence[Extent]) -> bool:
    """Prove that each row follows from the same rows, along each axis of rows."""
    own, values = sized(sizes, group, dict(zip(rows, _ROWS)))
    given = {v: placeholder(v.shape, v.dtype, f"p{k}") for k, v in enumerate(own.inputs)}
    try:
        made = tensors_of(own.nodes, given)
    except WhetError:
        return False
    for row in rows:
        place = {}
        for v in (*group.inputs, *group.outputs):
            if row in sizes.shapes[v]:
                x = values[v]
                place[given.get(x, made.get(x))] = sizes.shapes[v].index(row)
        outputs = [made[v] for v in own.outputs]
        if not _Proof({t.op: k for t, k in place.items() if t is not None}).holds(outputs):
            return False
    return True


class _Proof:
    """That the rows of tensors follow from the same rows of inputs, stage by stage.

    Args:
        place: of the inputs and outputs that have rows, the axis of these.
    """

    def __init__(self, place: Mapping[Operation, int]) -> None:
        self._place = dict(place)
        self._inputs = [op for op in place if not op.axis]

    def holds(self, outputs: Sequence[Tensor]) -> bool:
        """True if it is so for some outputs."""
        for op in reversed(post_order([t.op for t in outputs])):
            if op in self._place and op.axis:
                if not isinstance(op, ComputeOp):
                    return False
                row = op.axis[self._place[op]].var
                seen: set[int] = set()
                if not all(self._only_rows(n, row, seen) for n in op.body):
                    return False
            elif any(i in self._place for i in self._reads_rows(op)):
                return False
        return True

    def _reads_rows(self, op: Operation) -> list[Operation]:
        """The inputs with rows that a stage without rows reads."""
        if not op.input_tensors:
            return []
        return [i for i in self._inputs if i in set(post_order([op]))]

    def _only_rows(self, n: Any, row: Var, seen: set[int]) -> bool:
        """True if an expression has the row's number only where it names the row that is read."""
        if n is row:
            return False
        if id(n) in seen:
            return True
        seen.add(id(n))
        indices = TABLE[type(n)][0](n)
        if type(n) is not ProducerLoad:
            return all(self._only_rows(i, row, seen) for i in indices)
        op = n.producer.op
        at = [k for k, i in enumerate(indices) if i is row]
        if op in self._place or at:
            if not op.axis and op not in self._place:
                return False
            if len(at) != 1 or self._place.setdefault(op, at[0]) != at[0]:
                return False
        return all(i is row or self._only_rows(i, row, seen) for i in indices)
