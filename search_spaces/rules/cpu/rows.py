"""The rule for chains of rows: softmax, normalisation, argmax: reductions and what is made of them.

All stages of a row one after the other, while it is in the cache:

    parallel i:
        m = max(A[i, :])                            # lanes along the row, see sums
        e[:] = exp(A[i, :] - m)
        s = sum(e[:])
        B[i, :] = e[:] / s

A chain over columns does the same for a block of neighbouring columns, in lanes across them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from whet.compiler.te import Stage
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir.expr import IterVar
from whet.search_spaces.graph.access import plainly_indexed
from whet.search_spaces.graph.cost import EXPENSIVE
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import INJECTIVE, REDUCTION, Group, Node
from whet.search_spaces.rules.cpu.loops import (
    around,
    axes_together,
    cycles_of_chain,
    define_parallel,
    define_stream,
    fused,
    vector_sizes,
    vectorized,
)
from whet.search_spaces.rules.cpu.one_pass import (
    OnePass,
    exponentials_twice,
    in_one_pass,
    place_blocks,
)
from whet.search_spaces.rules.cpu.sums import (
    ACROSS,
    ALONG,
    ROW_REGISTERS,
    Way,
    attach,
    slide_across,
    slides,
    sum_across,
    sum_along,
    unrolls,
    way_of,
    window_sizes,
    window_unrolls,
)
from whet.search_spaces.rules.vectors import lanes_of

_BLOCKS_OF_COLUMNS = 4
_STEPS_OF_ROWS = 4
_LONG = 8192  # elements of a row that is in the L1 cache no more: eight registers for its sums
_VECTORS_AT_ONCE = 2  # steps along rows that are unrolled: long rows like less code
_ROWS_AT_ONCE = 4  # steps of a reduction over columns that are unrolled
_STORED_KNOBS = 4  # stages of a chain that may be computed again instead


class Rows(Rule):
    """All stages of a row, or of a block of columns, at one step of the last stage's loops."""

    def applies(self, group: Group) -> bool:
        """A group with members; its anchor is a reduction or injective."""
        return group.is_chain

    def cycles(self, group: Group) -> float | None:
        """The work of all rows, on as many threads as there are rows for.

        A reduction in lanes across what a row keeps has no vectors where the others run along it.
        """
        lanes = lanes_of(group.target, group.last.dtype)
        work = cycles_of_chain(group)
        if column_of(group, lanes) is None:
            work += sum(
                n.steps for n in (*group.members, group.anchor) if _is_scalar(group, n, lanes)
            )
        rows = prod(group.last.extents[k] for k in group.rows)
        return work / min(group.target.num_threads, max(rows, 1))

    def rewrite(self, group: Group) -> Tensor | None:
        """Plain indices of members that are read in another shape; statistics in one pass."""
        if group.role != INJECTIVE:
            return None
        op = group.anchor.op
        assert isinstance(op, ComputeOp)
        op = plainly_indexed(op, group.inlined, {n.op for n in group.members})
        op = in_one_pass(group, op)
        return None if op is group.anchor.op else op.output(0)

    def schedule(self, s: Schedule, group: Group) -> None:
        """Place the stages, choose the lanes, share the rows between threads."""
        lanes = lanes_of(group.target, group.last.dtype)
        column = column_of(group, lanes)
        plan = _knobs(group, column, lanes)
        if group.role == INJECTIVE:
            members = [n for n in group.noted(OnePass).members if n.op in s.stage_map]
            group = replace(group, members=tuple(members))
        for node in group.inner:
            if node.name in plan.inlined:
                s[node.tensor].compute_inline()
        row = _last(s, group, column, plan, lanes)
        if group.role == INJECTIVE:
            place_blocks(s, group, row if plan.place == "row" else None, lanes)
        for node in group.inner:
            if node.name in plan.inlined:
                continue
            _member(s, group, node, column, plan, lanes)
            if row is not None and plan.place == "row":
                s[node.tensor].compute_at(s[group.last.tensor], row)
            elif plan.place == "root" and plan.parallel:
                # on its own: threads share its outermost rows
                stage = s[node.tensor]
                outer = stage.leaf_iter_vars[0]
                if outer in stage.op.axis and 0 in _row_dimensions(group, node):
                    stage.parallel(outer)


def column_of(group: Group, lanes: int) -> int | None:
    """The axis of the last stage whose neighbours are computed at once; None: row by row."""
    last = len(group.last.extents) - 1
    if last not in group.rows or last in group.blocks or group.last.extents[last] < min(lanes, 4):
        return None
    for node in (*group.members, group.anchor):
        if node.role != REDUCTION:
            continue
        way = way_of(node, lanes)
        if way.kind != ACROSS or group.maps[node.index][way.axes[0]] != last:
            return None
    return last


@dataclass(frozen=True)
class _Plan:
    """The choices of a config.

    Attributes:
        place: ``"row"``: the members are computed at a row of the last stage; ``"root"``.
        vector, partial: lanes across what is kept, and along what is reduced.
        unroll: steps that are unrolled.
        inlined: names of members that are computed again where they are read.
        stream, parallel: whether the result bypasses the caches, and threads share the rows.
        whole: windows of a whole row of an image are taken at once.
    """

    place: str
    vector: int
    unroll: int
    inlined: frozenset[str]
    stream: bool
    parallel: bool
    partial: int = 1
    whole: bool = False


def _knobs(group: Group, column: int | None, lanes: int) -> _Plan:
    def lanes_of_axis(name: str, extent: int, most: int, level: int) -> Any:
        sizes = vector_sizes(extent, lanes, most)
        first = sizes[min(level, len(sizes) - 1)]
        sizes = list(dict.fromkeys((1, *sizes)))
        return group.choose(name, sizes, first, around(sizes, first))

    place, partial = group.choose("place", ["row", "root"], "row", ["row"]), 1
    windows: list[Way] = []
    reductions = [n for n in (*group.members, group.anchor) if n.role == REDUCTION]
    rest = [e for k, e in enumerate(group.last.extents) if k not in group.rows]
    rest += group.blocks.values()
    if column is not None:
        extent, threads = group.last.extents[column], group.target.num_threads
        # whole lines are read, several of a row: as many as leave some blocks for each thread
        wide = [n for n in range(4) if (lanes << n) * _BLOCKS_OF_COLUMNS * threads <= extent]
        vector = lanes_of_axis("vector", extent, 8, max(wide, default=1))
    else:
        longest = max([*rest, *(x for n in reductions for x in n.reduce_extents), 1])
        # four registers, of short rows fewer: the less is left over
        longest = max([longest, *(way_of(n, lanes).extent for n in reductions)])
        longest = max(longest, prod(group.last.extents[k] for k in _run(group, group.last)))
        some = max(
            n
            for n in range(4 if longest >= _LONG else 3)
            if n == 0 or (lanes << n) * _STEPS_OF_ROWS <= longest
        )
        if reductions:
            partial = lanes_of_axis("partial", longest, 8, some)
        windows = [w for n in reductions if _is_window(group, n, w := way_of(n, lanes))]
        if windows:
            sizes = vector_sizes(windows[0].extent, lanes, 4)
            sizes = window_sizes(windows[0].extent, lanes, sizes)
            vector = group.choose("windows", [1, *sizes], sizes[-1], around(sizes, sizes[-1]))
        else:
            vector = lanes_of_axis("vector", longest, 4, some)
    steps = [x for n in reductions for x in n.reduce_extents[-1:]]
    written = unrolls(8 if column is None else min(steps, default=1))
    default = min(_VECTORS_AT_ONCE if column is None else _ROWS_AT_ONCE, written[-1])
    unroll = group.choose("unroll", written, default, [1, written[-1]])
    inlined: list[str] = []
    count = 0
    for node in group.members:
        again = node.role == INJECTIVE and node.cost >= EXPENSIVE and node.op.num_outputs == 1
        # One number a row is not worth computing again for each of its elements.
        again = again and len(_row_dimensions(group, node)) < sum(n > 1 for n in node.extents)
        if again and count < _STORED_KNOBS:
            if not group.choose(
                f"store_{node.name}", [True, False], not exponentials_twice(group, node)
            ):
                inlined.append(node.name)
            count += 1
    stream, parallel = define_stream(group), define_parallel(group)
    whole = any(vector == w.extent for w in windows)
    return _Plan(place, vector, unroll, frozenset(inlined), stream, parallel, partial, whole)


def _last(s: Schedule, group: Group, column: int | None, plan: _Plan, lanes: int) -> IterVar | None:
    """The loops of the last stage; the one at whose steps the members are computed."""
    node = group.last
    if node is group.anchor and node.role == REDUCTION:
        return _last_reduction(s, group, column, plan, lanes)
    stage, axes = s[node.tensor], s[node.tensor].op.axis
    rows, rest = _loops_of(stage, group, column)
    if column is not None:
        # the last block begins earlier: no member has a mask
        *over, lane = vectorized(stage, axes[column], plan.vector, tail="shift")
        stage.reorder(*rows, *over, *rest, lane)
        rows += over
    else:
        stage.reorder(*rows, *rest)
        run = _run(group, node)
        if run:
            extent = prod(node.extents[k] for k in run)
            axis = fused(stage, [axes[k] for k in run])
            assert axis is not None
            _vectors_of(stage, axis, extent, plan, lanes)
    if plan.stream:
        stage.store_nontemporal()
    row = fused(stage, rows)
    if row is not None and plan.parallel:
        stage.parallel(row)
    return row


def _loops_of(
    stage: Stage, group: Group, column: int | None
) -> tuple[list[IterVar], list[IterVar]]:
    """The loops of the last stage over rows, and those within a row."""
    rows, rest = [], []
    for k, axis in enumerate(stage.op.axis):
        if k in group.blocks:
            axis, within = stage.split(axis, factor=group.blocks[k])
            rest.append(within)
        if k in group.rows:
            rows += [axis] if k != column else []
        else:
            rest.append(axis)
    return rows, rest


def _last_reduction(
    s: Schedule, group: Group, column: int | None, plan: _Plan, lanes: int
) -> IterVar | None:
    """A chain that ends with a reduction itself: its rows are loops around the reduction."""
    tensor, stage = group.last.tensor, s[group.last.tensor]
    if column is not None:
        others, over = sum_across(stage, column, plan.vector, False, plan.unroll)
        if any(a not in [stage.op.axis[k] for k in group.rows] for a in others):
            return None
        row = fused(stage, [*others, *over])
    else:
        way = way_of(group.last, lanes)
        if _is_window(group, group.last, way):
            return _last_windows(s, group, way, plan)
        parts = _along(s, group.last, way, plan, lanes) if way.kind == ALONG else []
        axes = stage.op.axis
        rows = [axes[k] for k in group.rows]
        stage.reorder(*rows, *[a for a in axes if a not in rows])
        row = fused(stage, rows)
        attach(s, tensor, parts)
    if row is not None and plan.parallel:
        stage.parallel(row)
    return row


def _is_window(group: Group, node: Node, way: Way) -> bool:
    """True for windows that move along a dimension of which a row has all steps."""
    if way.kind != ACROSS or not slides(node, way.axes[0]) or len(node.extents) < 2:
        return False
    return way.axes[0] not in _row_dimensions(group, node)


def _is_scalar(group: Group, node: Node, lanes: int) -> bool:
    """True for a reduction of a row that finds its neighbours across, and is no window."""
    if node.role != REDUCTION:
        return False
    way = way_of(node, lanes)
    return way.kind == ACROSS and not _is_window(group, node, way)


def _last_windows(s: Schedule, group: Group, way: Way, plan: _Plan) -> IterVar | None:
    """A chain that ends with windows: those of a row of the image, then the next row's."""
    stage = s[group.last.tensor]
    rows = [stage.op.axis[k] for k in group.rows]
    local, loops = _windows(s, group.last, way, plan)
    inner = [a for a in loops if a not in rows]
    stage.reorder(*rows, *inner)
    row = fused(stage, rows)
    place = inner[-1] if inner else row
    assert place is not None
    s[local].compute_at(stage, place)
    if row is not None and plan.parallel:
        stage.parallel(row)
    return row


def _member(
    s: Schedule, group: Group, node: Node, column: int | None, plan: _Plan, lanes: int
) -> None:
    """The loops of a stage of the chain."""
    stage, own = s[node.tensor], group.maps[node.index]
    axes = stage.op.axis
    if node.role == REDUCTION:
        way = way_of(node, lanes)
        if way.kind == ALONG and column is None:
            attach(s, node.tensor, _along(s, node, way, plan, lanes))
        elif way.kind == ACROSS:
            _member_across(s, group, node, way, column, plan)
    elif column is not None:
        if column in own:
            place = own.index(column)
            *over, lane = vectorized(stage, axes[place], plan.vector)
            stage.reorder(*[a for k, a in enumerate(axes) if k != place], *over, lane)
    elif axes and len(axes) - 1 not in _row_dimensions(group, node):
        _vectors_of(stage, axes[-1], node.extents[-1], plan, lanes)


def _member_across(
    s: Schedule, group: Group, node: Node, way: Way, column: int | None, plan: _Plan
) -> None:
    """The loops of a reduction inside of the chain, in lanes across what it keeps."""
    place = way.axes[0]
    if column is None and _is_window(group, node, way):
        local, loops = _windows(s, node, way, plan)
        s[local].compute_at(s[node.tensor], loops[-1])
        return
    size = min(plan.vector, _below(node.extents[place]))
    if column is None and place in _row_dimensions(group, node):
        size = 1
    sum_across(s[node.tensor], place, size, False, 1 if column is None else plan.unroll)


def _windows(s: Schedule, node: Node, way: Way, plan: _Plan) -> tuple[Tensor, list[IterVar]]:
    """Windows summed up in registers, and the loops around the vectors of them."""
    unroll = window_unrolls(node)[-1] if plan.unroll > 1 else 1
    return slide_across(s, node.tensor, way.axes[0], plan.vector, unroll)


def _along(s: Schedule, node: Node, way: Way, plan: _Plan, lanes: int) -> list[Tensor]:
    size = min(plan.partial, _below(way.extent))
    return sum_along(s, node.tensor, way.axes, size, lanes, plan.unroll)


def _row_dimensions(group: Group, node: Node) -> set[int]:
    """The dimensions of a member of which there is one step in a row."""
    return {d for d, q in enumerate(group.maps[node.index]) if q in group.rows}


def _run(group: Group, node: Node) -> tuple[int, ...]:
    """The innermost axes of a row that the last stage goes through as through one."""
    rest = [k for k in range(len(node.extents)) if k not in group.rows]
    if not rest or rest[-1] != len(node.extents) - 1:
        return tuple(rest[-1:])
    numbers = {n.op for n in group.members if _is_number(group, n)}
    return tuple(k for k in axes_together(node, numbers)[-1] if k in rest)


def _is_number(group: Group, node: Node) -> bool:
    """True for a member of which a row has one element."""
    rows = _row_dimensions(group, node)
    return all(n == 1 or d in rows for d, n in enumerate(node.extents))


def _vectors_of(stage: Stage, axis: IterVar, extent: int, plan: _Plan, lanes: int) -> None:
    """As many lanes of an axis as it has; a row that windows are taken of in one piece."""
    if plan.whole and extent <= 2 * ROW_REGISTERS * lanes:
        vectorized(stage, axis, extent)
    else:
        vectorized(stage, axis, _below(min(plan.vector, extent)), plan.unroll)


def _below(extent: int) -> int:
    """The largest power of two that is at most an extent."""
    return 1 << (extent.bit_length() - 1)
