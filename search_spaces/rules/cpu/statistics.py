"""A row's sum and the squares of its distances from a centre, in one pass over memory.

    a = sum(x);  c = a / n;  q = sum((x - c) ** 2)

reads the row twice. Here it is read block by block, the second time while the first cache has it;
each lane then adds a block's mean and squares to those of the blocks before it, and the sums of
the row follow from those of the lanes, whatever the centre is:

    for b:
        for k: s[ramp(64)] += x[b, k, ramp(64)]                         # k < 32
        for k: t[ramp(64)] += (x[b, k, ramp(64)] - s[ramp(64)] / 32) ** 2
        count, mean[ramp(64)], far[ramp(64)] = those of both sets together
    a = sum(count * mean[l])
    q = sum(far[l] + count * (mean[l] - c) ** 2)

Nothing is subtracted but from what it is near to, so that q is as good as that of two passes,
however large the mean is beside the deviation (Chan, Golub, LeVeque 1983).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.analysis.structural import structural_equal
from whet.compiler.tir.expr import Mul, PrimExpr, ProducerLoad, Reduce, Sub, Var
from whet.compiler.tir.ops.ops import const
from whet.compiler.tir.visit.rewrite import Rewriter, substitute, variables
from whet.search_spaces.graph.access import expanded, simply_indexed
from whet.search_spaces.graph.stages import INJECTIVE, REDUCTION, Group, Node
from whet.search_spaces.rules.cpu.sums import (
    ALONG,
    attach,
    is_float_sum,
    lanes_innermost,
    sum_along,
    way_of,
)
from whet.search_spaces.rules.vectors import lanes_of

_STEPS = 32  # elements of a block in a lane
_REGISTERS = 4  # of lanes
_LEAST = 4  # blocks of a row, below which there is nothing to gain
_UNROLLED = 2
_NEAR = 1 << 15  # bytes of a row that the L1 cache holds: there, two passes have less to do


@dataclass(frozen=True)
class OnePass:
    """What :func:`in_one_pass` leaves for the schedule.

    Attributes:
        members: of the group, as they are computed now.
        rows: their sums by one pass.
        sums: what is summed up along a row, and in how many lanes.
    """

    members: tuple[Node, ...]
    rows: tuple[_Row, ...]
    sums: tuple[tuple[Tensor, int], ...]


def in_one_pass(group: Group, anchor: ComputeOp) -> ComputeOp:
    """The anchor of a chain, which reads the sums of rows that one pass gives.

    Defines a knob for each pair of a sum and the squares about a centre.

    Args:
        group: its anchor is injective.
        anchor: what it computes, by now.
    """
    now: dict[Operation, Operation] = {}
    members: list[Node] = []
    sums: list[tuple[Tensor, int]] = []
    made: dict[int, _Row] = {}
    chosen = _chosen(group)
    for node in group.members:
        op = _reading(node.op, group, now) if chosen else node.op
        role = node.role
        for first, second in chosen:
            if node.index == first.index:
                row = made[second.index] = _Row(group, first)
                op, role = row.total.op, INJECTIVE
            elif node.index == second.index:
                row = made[second.index]
                op, role = row.squares(node, op).op, INJECTIVE
                sums += row.sums
        now[node.op] = op
        members.append(replace(node, op=op, role=role))
    group.note(OnePass(tuple(members), tuple(made.values()), tuple(sums)))
    return _reading(anchor, group, now) if chosen else anchor


def place_sums(s: Schedule, group: Group, row: Any, lanes: int) -> None:
    """The loops of what one pass sums up, at a step of the rows' loop; None: on their own.

    Args:
        s: the schedule.
        group: its rule has called :func:`in_one_pass`.
        row: the loop over rows of the group's last stage.
        lanes: elements in a vector register.
    """
    note = group.noted(OnePass)
    tensors = [t for t, _ in note.sums]
    for made in note.rows:
        stage = s[made.means]
        (block,), lane = stage.op.reduce_axis, stage.op.axis[-1]
        stage.reorder(block, lane)
        stage.vectorize(lane)
        for part in (made.of_block, made.far):
            lanes_innermost(s[part], _UNROLLED)
            s[part].compute_at(stage, block)
        tensors.append(made.means)
    for tensor, size in note.sums:
        run = range(len(tensor.op.reduce_axis))
        attach(s, tensor, sum_along(s, tensor, run, size, lanes, 1))
    for tensor in tensors if row is not None else ():
        s[tensor].compute_at(s[group.last.tensor], row)


def _chosen(group: Group) -> list[tuple[Node, Node]]:
    """The pairs of a sum and of squares that a config takes in one pass."""
    pairs = []
    sums = [n for n in group.members if n.role == REDUCTION and is_float_sum(n.op)]
    for k, second in enumerate(sums):
        for first in sums[:k]:
            if not _fits(group, first, second):
                continue
            size = prod(first.reduce_extents) * dt.itemsize(first.dtype)
            if group.choose(f"one_pass_{second.name}", [False, True], size > _NEAR):
                pairs.append((first, second))
            break
    return pairs


def _fits(group: Group, first: Node, second: Node) -> bool:
    """True for the sum of a contiguous row, and its squares about what does not depend on it."""
    lanes = lanes_of(group.target, first.dtype)
    way = way_of(first, lanes)
    whole = way.kind == ALONG and len(way.axes) == len(first.reduce_extents)
    whole = whole and list(way.axes) == sorted(way.axes)
    if not whole or way.extent < _LEAST * _STEPS * _REGISTERS * lanes:
        return False
    if (first.extents, first.reduce_extents) != (second.extents, second.reduce_extents):
        return False
    split = _distance(group, second.op)
    if split is None:
        return False
    axes = (*first.op.axis, *first.op.reduce_axis), (*second.op.axis, *second.op.reduce_axis)
    same = {a.var: b.var for a, b in zip(*axes)}
    return structural_equal(substitute(_source(group, first.op), same), split[0])


def _source(group: Group, op: Operation) -> PrimExpr:
    """The elements that a sum adds up, with what is computed in it."""
    (body,) = _plain(op, group).body
    assert isinstance(body, Reduce)
    return body.source[0]


def _plain(op: Operation, group: Group) -> ComputeOp:
    """An operation with what is computed in it, and simple indices."""
    assert isinstance(op, ComputeOp)
    return simply_indexed(replace(op, body=expanded(op, group.inlined)))


def _distance(group: Group, op: Operation) -> tuple[PrimExpr, PrimExpr] | None:
    """The elements and the centre of ``sum((x - c) * (x - c))``; None for other sums."""
    n = _source(group, op)
    if not isinstance(n, Mul) or not isinstance(n.a, Sub) or not structural_equal(n.a, n.b):
        return None
    reduced = {a.var for a in op.reduce_axis}
    return (n.a.a, n.a.b) if reduced.isdisjoint(variables(n.a.b)) else None


def _reading(op: Operation, group: Group, now: dict[Operation, Operation]) -> ComputeOp:
    """An operation with what is computed in it, which reads what members have become."""

    def moved(n: ProducerLoad) -> PrimExpr:
        n = reading.children(n)
        new = now.get(n.producer.op, n.producer.op)
        return ProducerLoad(Tensor(new, n.producer.value_index), n.indices, n.dtype)

    reading = Rewriter({ProducerLoad: moved}, once=True)
    plain = _plain(op, group)
    return replace(plain, body=tuple(map(reading, plain.body)))


class _Row:
    """The sums of a row by one pass: in blocks, and what is left behind the last of them.

    Attributes:
        of_block, far: the sums of a block's lanes, and the squares about their means.
        means: of each lane over all blocks, beside its first element.
        total: the sum of the row.
        sums: what is summed up for them, and in how many lanes.
    """

    def __init__(self, group: Group, first: Node) -> None:
        self._x, self._op = _source(group, first.op), first.op
        self._extents, self.dtype = first.extents, first.dtype
        self.sums: list[tuple[Tensor, int]] = []
        self.lanes = _REGISTERS * lanes_of(group.target, first.dtype)
        self.steps = prod(first.reduce_extents)
        self.count = self.steps // (_STEPS * self.lanes)
        name, shape = first.op.name, (*self._extents, self.count, self.lanes)
        k, more = (te.reduce_axis((0, _STEPS), name="k") for _ in range(2))
        self.of_block = te.compute(
            shape,
            lambda *i: te.sum(self._element(i[:-2], i[-2], k, i[-1]), axis=k),
            f"{name}_block",
        )

        def far(*i: Any) -> Any:
            d = self._element(i[:-2], i[-2], more, i[-1]) - self._block_mean(*i)
            return te.sum(d * d, axis=more)

        self.far = te.compute(shape, far, f"{name}_far")
        together = te.comm_reducer(_together, lambda *types: [const(0, t) for t in types], "chan")
        b = te.reduce_axis((0, self.count), name="b")

        def lane(*i: Any) -> Any:
            at = (*i[:-1], b, i[-1])
            # means beside a row's first elements: small numbers, which lose nothing as they are added
            mean = self._block_mean(*at) - self._element(i[:-1], 0, 0, i[-1])
            return together((const(_STEPS, self.dtype), mean, self.far(*at)), axis=b)

        _, self.means, self._squares = te.compute(
            (*self._extents, self.lanes), lane, f"{name}_lanes"
        )
        means = self._over_lanes(f"{name}_means", self._mean)
        rest = self._over_rest(f"{name}_rest", lambda x, i: x)
        self.total = te.compute(self._extents, lambda *i: means(*i) * self._many + rest(i), name)

    @property
    def _many(self) -> PrimExpr:
        """Elements of all blocks in a lane."""
        return const(self.count * _STEPS, self.dtype)

    def squares(self, node: Node, op: ComputeOp) -> Tensor:
        """The squares of all distances from the centre that a reduction has."""
        (body,) = op.body
        assert isinstance(body, Reduce) and isinstance(body.source[0], Mul)
        distance = body.source[0].a
        assert isinstance(distance, Sub)

        def centre(row: Sequence[Any]) -> Any:
            return substitute(distance.b, {a.var: i for a, i in zip(op.axis, row)})

        def lane(*i: Any) -> Any:
            away = self._mean(*i) - centre(i[:-1])
            return self._squares(*i) + away * (away * self._many)

        def element(x: Any, row: Sequence[Any]) -> Any:
            return (x - centre(row)) * (x - centre(row))

        lanes = self._over_lanes(f"{node.op.name}_lanes", lane)
        rest = self._over_rest(f"{node.op.name}_rest", element)
        return te.compute(self._extents, lambda *i: lanes(*i) + rest(i), node.op.name)

    def _element(self, row: Sequence[Any], block: Any, step: Any, lane: Any) -> PrimExpr:
        """An element of a row."""
        place = (block * _STEPS + step) * self.lanes + lane
        values: dict[Var, Any] = {a.var: i for a, i in zip(self._op.axis, row)}
        *outer, inner = self._op.reduce_axis
        for axis in (inner, *reversed(outer)):
            extent = int(axis.dom.extent)
            values[axis.var] = place if axis is self._op.reduce_axis[0] else place % extent
            place = place // extent
        return substitute(self._x, values)

    def _block_mean(self, *i: Any) -> Any:
        """The mean of a block's lane."""
        return self.of_block(*i) * const(1 / _STEPS, self.dtype)

    def _mean(self, *i: Any) -> Any:
        """The mean of a lane over all blocks."""
        return self._element(i[:-1], 0, 0, i[-1]) + self.means(*i)

    def _over_lanes(self, name: str, value: Callable[..., Any]) -> Tensor:
        """The sum over all lanes of a row."""
        lane = te.reduce_axis((0, self.lanes), name="l")
        made = te.compute(self._extents, lambda *i: te.sum(value(*i, lane), axis=lane), name)
        self.sums.append((made, self.lanes))
        return made

    def _over_rest(self, name: str, value: Callable[..., Any]) -> Callable[..., Any]:
        """The sum over the elements behind the last block, at a row's place; 0 without any."""
        many = self.steps - self.count * _STEPS * self.lanes
        if not many:
            return lambda row: const(0, self.dtype)
        t = te.reduce_axis((0, many), name="t")
        made = te.compute(
            self._extents,
            lambda *i: te.sum(value(self._element(i, self.count, 0, t), i), axis=t),
            name,
        )
        self.sums.append((made, 1 << min(many, self.lanes).bit_length() - 1))
        return lambda row: made(*row)


def _together(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Numbers of elements, means and squares about them, of two sets as of one."""
    away, count = b[1] - a[1], a[0] + b[0]
    part = b[0] / count
    return count, a[1] + away * part, a[2] + b[2] + away * away * (a[0] * part)
