"""Two reductions of one row by one pass over memory, the second about what the first gives.

The pairs are found in what a chain computes: the sum of a row and its squares about a centre
(:mod:`statistics`), its maximum and the sum of exponentials (:mod:`exponentials`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.analysis.structural import structural_equal
from whet.compiler.tir.expr import IterVar, Max, PrimExpr, ProducerLoad, Reduce
from whet.compiler.tir.visit.rewrite import Rewriter, substitute, variables
from whet.search_spaces.graph.access import expanded, simply_indexed
from whet.search_spaces.graph.stages import INJECTIVE, REDUCTION, Group, Node
from whet.search_spaces.rules.cpu.loops import is_in_place
from whet.search_spaces.rules.cpu.rows.exponentials import Exponentials
from whet.search_spaces.rules.cpu.rows.row_blocks import RowBlocks
from whet.search_spaces.rules.cpu.rows.statistics import Statistics
from whet.search_spaces.rules.cpu.sums import (
    ALONG,
    attach,
    is_float_sum,
    lanes_innermost,
    sum_along,
    way_of,
)
from whet.search_spaces.rules.vectors import lanes_of

# Bytes of a row for which two passes have less to do: those that the L1 cache holds; exponentials,
# of which some are computed again, want rows that come from further away.
_NEAR = {Statistics: 1 << 15, Exponentials: 1 << 17}
FAR, FAR_IN_PLACE = 1 << 20, 8 << 20
"""Bytes of a row that the L2 cache does not hold; of one that the result's memory keeps, the L3."""
_UNROLLED = 2

Kind = type[Statistics] | type[Exponentials]


@dataclass(frozen=True)
class OnePass:
    """What :func:`in_one_pass` leaves for the schedule.

    Attributes:
        members: of the group, as they are computed now.
        made: what is computed by blocks.
        rows: the rows that it is computed of.
    """

    members: tuple[Node, ...]
    made: tuple[Statistics | Exponentials, ...]
    rows: tuple[RowBlocks, ...]


@dataclass(frozen=True)
class _Pair:
    """Two reductions of a row, and what they are."""

    first: Node
    second: Node
    kind: Kind


def in_one_pass(group: Group, anchor: ComputeOp) -> ComputeOp:
    """The anchor of a chain, which reads what one pass gives.

    Defines a knob for each pair of reductions.

    Args:
        group: its anchor is injective.
        anchor: what it computes, by now.
    """
    pairs = _chosen(group)
    first, second = ({getattr(p, k).index: p for p in pairs} for k in ("first", "second"))
    now: dict[Operation, Operation] = {}
    members: list[Node] = []
    made: dict[int, Statistics | Exponentials] = {}
    rows: list[RowBlocks] = []
    for node in group.members:
        op, role, inlined = node.op, node.role, group.inlined
        if node.index in first:
            pair = first[node.index]
            plain = _plain(op, inlined)
            row = RowBlocks(node, plain, _source(plain), lanes_of(group.target, node.dtype))
            made[pair.second.index] = new = pair.kind(row, op.name)
            rows.append(row)
            op, role = new.first.op, INJECTIVE
        elif node.index in second:
            plain = _reading(op, inlined | _stored(group), now)
            split = second[node.index].kind.split(_source(plain))
            assert split is not None
            centre = _at(split[1], plain)
            op, role = made[node.index].second(op.name, centre).op, INJECTIVE
        elif pairs:
            op = _reading(op, inlined, now)
        now[node.op] = op
        members.append(replace(node, op=op, role=role))
    group.note(OnePass(tuple(members), tuple(made.values()), tuple(rows)))
    return _reading(anchor, group.inlined, now) if pairs else anchor


def place_blocks(s: Schedule, group: Group, row: IterVar | None, lanes: int) -> None:
    """The loops of what one pass computes, at a step of the rows' loop.

    Args:
        s: the schedule.
        group: its rule has called :func:`in_one_pass`.
        row: the loop over rows of the group's last stage; None: all stages are on their own.
        lanes: elements in a vector register.
    """
    note = group.noted(OnePass)
    tensors: list[Tensor] = []
    for made in note.made:
        stage = s[made.lanes]
        (block,), lane = stage.op.reduce_axis, stage.op.axis[-1]
        stage.reorder(block, lane)
        stage.vectorize(lane)
        for part in made.in_block:
            lanes_innermost(s[part], _UNROLLED)
            s[part].compute_at(stage, block)
        tensors.append(made.lanes)
    for tensor, size in (pair for r in note.rows for pair in r.reduced):
        attach(s, tensor, sum_along(s, tensor, (0,), size, lanes, 1))
        tensors.append(tensor)
    if row is not None:
        for tensor in tensors:
            s[tensor].compute_at(s[group.last.tensor], row)


def exponentials_twice(group: Group, node: Node) -> bool:
    """True for a row that only far caches hold: 512 bits compute it sooner than it comes back.

    softmax of rows of 4,000,000 on Zen 5: 7.9 ms instead of 13.2; with 256 bits 17.6, not 16.7.
    Rows in the result's memory have one buffer less: those of 1,000,003 take 0.8 of the time that
    computing them twice takes (Zen 4).
    """
    rows = {d for d, q in enumerate(group.maps[node.index]) if q in group.rows}
    size = prod(n for k, n in enumerate(node.extents) if k not in rows) * dt.itemsize(node.dtype)
    far = FAR_IN_PLACE if is_in_place(group, node) else FAR
    return size >= far and group.target.vector_bytes >= 64


def _chosen(group: Group) -> list[_Pair]:
    """The pairs that a config takes in one pass."""
    pairs = []
    reductions = [n for n in group.members if n.role == REDUCTION]
    for k, second in enumerate(reductions):
        found = [p for n in reductions[:k] if (p := _pair(group, n, second)) is not None]
        if not found:
            continue
        first = found[-1].first
        near = prod(first.reduce_extents) * dt.itemsize(first.dtype) <= _NEAR[found[-1].kind]
        stored = [n for n in group.members if n.op in {t.op for t in second.op.input_tensors}]
        stored = [n for n in stored if n.op in _stored(group) and n.extents != first.extents]
        # what is kept of the first reading is computed again, then
        worth = not near and all(exponentials_twice(group, n) for n in stored)
        if group.choose(f"one_pass_{second.name}", [False, True], worth):
            pairs.append(found[-1])
    return pairs


def _pair(group: Group, first: Node, second: Node) -> _Pair | None:
    """Two reductions of the same contiguous row that one pass may take; None for others."""
    if (first.extents, first.reduce_extents) != (second.extents, second.reduce_extents):
        return None
    lanes = lanes_of(group.target, first.dtype)
    way = way_of(first, lanes)
    whole = way.kind == ALONG and way.axes == tuple(range(len(first.reduce_extents)))
    if not whole or not RowBlocks.worth(way.extent, lanes) or not is_float_sum(second.op):
        return None
    kind: Kind | None = Statistics if is_float_sum(first.op) else None
    kind = Exponentials if kind is None and _is_float_max(first.op) else kind
    if kind is None:
        return None
    plain, other = (
        _plain(first.op, group.inlined),
        _plain(second.op, group.inlined | _stored(group)),
    )
    split = kind.split(_source(other))
    if split is None or not {a.var for a in other.reduce_axis}.isdisjoint(variables(split[1])):
        return None
    axes = (*plain.axis, *plain.reduce_axis), (*other.axis, *other.reduce_axis)
    same = substitute(_source(plain), {a.var: b.var for a, b in zip(*axes)})
    return _Pair(first, second, kind) if structural_equal(same, split[0]) else None


def _is_float_max(op: Any) -> bool:
    body, *others = op.body
    whole = isinstance(body, Reduce) and not others and dt.is_float(body.dtype)
    return whole and isinstance(body.combiner.result[0], Max)


def _stored(group: Group) -> frozenset[Operation]:
    """The members that are no reductions: each is an expression of what it reads."""
    return frozenset(n.op for n in group.members if n.role == INJECTIVE and n.op.num_outputs == 1)


def _source(op: ComputeOp) -> PrimExpr:
    """The elements that a reduction takes."""
    (body,) = op.body
    assert isinstance(body, Reduce)
    return body.source[0]


def _plain(op: Operation, inlined: Collection[Operation]) -> ComputeOp:
    """An operation with what is computed in it, and simple indices."""
    assert isinstance(op, ComputeOp)
    return simply_indexed(replace(op, body=expanded(op, inlined)))


def _reading(
    op: Operation, inlined: Collection[Operation], now: dict[Operation, Operation]
) -> ComputeOp:
    """An operation with what is computed in it, which reads what members have become."""

    def moved(n: ProducerLoad) -> PrimExpr:
        n = reading.children(n)
        new = now.get(n.producer.op, n.producer.op)
        return ProducerLoad(Tensor(new, n.producer.value_index), n.indices, n.dtype)

    reading = Rewriter({ProducerLoad: moved}, once=True)
    plain = _plain(op, inlined)
    return replace(plain, body=tuple(map(reading, plain.body)))


def _at(n: PrimExpr, op: ComputeOp) -> Any:
    """An expression of an operation's axes as a function of the place."""
    return lambda *row: substitute(n, {a.var: i for a, i in zip(op.axis, row)})
