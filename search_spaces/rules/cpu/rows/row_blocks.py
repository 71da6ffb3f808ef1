"""A row as blocks of elements that the first cache holds, each in lanes; and what is left behind.

x[i, (b * 32 + k) * 64 + lane]          # block b, step k
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.tir.expr import PrimExpr, Var
from whet.compiler.tir.visit.rewrite import substitute
from whet.search_spaces.graph.stages import Node, int_extent

STEPS = 32
"""Elements of a block in a lane."""
REGISTERS = 4
"""Of lanes."""
_LEAST = 4  # blocks of a row, below which there is nothing to gain

Value = Callable[..., Any]


class RowBlocks:
    """What a reduction reads of a row, in blocks.

    Args:
        node: reduces a row that is one contiguous piece.
        op: the same, with what is computed in it.
        x: the elements that it reduces.
        lanes: elements in a vector register.

    Attributes:
        extents: of what the reduction makes.
        lanes, count: lanes, and the blocks of a row.
        reduced: the reductions made here over a row's lanes or its rest, and in how many lanes.
    """

    def __init__(self, node: Node, op: ComputeOp, x: PrimExpr, lanes: int) -> None:
        self._op, self._x = op, x
        self.extents, self.dtype = node.extents, node.dtype
        self.lanes = REGISTERS * lanes
        self._steps = prod(node.reduce_extents)
        self.count = self._steps // (STEPS * self.lanes)
        self.reduced: list[tuple[Tensor, int]] = []

    @staticmethod
    def worth(extent: int, lanes: int) -> bool:
        """True for a row of several blocks."""
        return extent >= _LEAST * STEPS * REGISTERS * lanes

    def element(self, row: Sequence[Any], block: Any, step: Any, lane: Any) -> PrimExpr:
        """An element of a row."""
        place = (block * STEPS + step) * self.lanes + lane
        values: dict[Var, Any] = {a.var: i for a, i in zip(self._op.axis, row)}
        outermost, *inner = self._op.reduce_axis
        for axis in reversed(inner):
            extent = int_extent(axis)
            values[axis.var], place = place % extent, place // extent
        values[outermost.var] = place
        return substitute(self._x, values)

    def in_block(self, name: str, value: Value, reduce: Value = te.sum) -> Tensor:
        """A reduction of each block and lane: ``value(element, row, block, lane)``."""
        k = te.reduce_axis((0, STEPS), name="k")

        def lane(*i: Any) -> Any:
            return reduce(value(self.element(i[:-2], i[-2], k, i[-1]), *i), axis=k)

        return te.compute((*self.extents, self.count, self.lanes), lane, name)

    def together(self, name: str, value: Value, combine: Value, begin: Value) -> tuple[Tensor, ...]:
        """All blocks of each lane by a reduction of several values.

        Args:
            name: of the stage.
            value: of a row, block and lane.
            combine: two of these values.
            begin: their neutral elements, of their types.
        """
        b = te.reduce_axis((0, self.count), name="b")
        reducer = te.comm_reducer(combine, begin, "together")

        def lane(*i: Any) -> Any:
            return reducer(value(*i[:-1], b, i[-1]), axis=b)

        return tuple(te.compute((*self.extents, self.lanes), lane, name))

    def over_lanes(self, name: str, value: Value, reduce: Value = te.sum) -> Tensor:
        """A reduction over all lanes of a row."""
        lane = te.reduce_axis((0, self.lanes), name="l")
        made = te.compute(self.extents, lambda *i: reduce(value(*i, lane), axis=lane), name)
        self.reduced.append((made, self.lanes))
        return made

    def over_rest(self, name: str, value: Value, reduce: Value = te.sum) -> Tensor | None:
        """A reduction over the elements behind the last block; None without any."""
        many = self._steps - self.count * STEPS * self.lanes
        if not many:
            return None
        t = te.reduce_axis((0, many), name="t")

        def rest(*i: Any) -> Any:
            return reduce(value(self.element(i, self.count, 0, t), *i), axis=t)

        made = te.compute(self.extents, rest, name)
        self.reduced.append((made, 1 << min(many, self.lanes).bit_length() - 1))
        return made
