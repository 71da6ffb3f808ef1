"""The rule for chains of rows: softmax, normalisation, argmax: reductions and what is made of them.

All stages of a row one after the other, while it is in the cache:

    parallel i:
        m = max(A[i, :])                            # lanes along the row, see sums
        e[:] = exp(A[i, :] - m)
        s = sum(e[:])
        B[i, :] = e[:] / s

Short rows are taken several together, so that their sums do not wait for each other's lanes:

    parallel io:
        for ii: m[ii] = max(A[io*4 + ii, :])
        for ii: e[ii, :] = exp(A[io*4 + ii, :] - m[ii])
        for ii: s[ii] = sum(e[ii, :])
        for ii: B[io*4 + ii, :] = e[ii, :] / s[ii]

A chain over columns does the same for a block of neighbouring columns, in lanes across them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from whet.compiler.te import Stage
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir.expr import IterVar
from whet.search_spaces.graph.access import plainly_indexed
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import INJECTIVE, REDUCTION, Group, Node
from whet.search_spaces.rules.cpu.loops import (
    cycles_of_chain,
    fused,
    power_below,
    vectorized,
)
from whet.search_spaces.rules.cpu.rows.knobs import (
    Plan,
    column_of,
    is_window,
    knobs_of,
    row_dimensions,
    run_of,
)
from whet.search_spaces.rules.cpu.rows.one_pass import OnePass, in_one_pass, place_blocks
from whet.search_spaces.rules.cpu.sums import (
    ACROSS,
    ALONG,
    ROW_REGISTERS,
    Way,
    attach,
    slide_across,
    sum_across,
    sum_along,
    way_of,
    window_unrolls,
)
from whet.search_spaces.rules.vectors import lanes_of


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
        plan = knobs_of(group, column, lanes)
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
                if outer in stage.op.axis and 0 in row_dimensions(group, node):
                    stage.parallel(outer)


def _last(s: Schedule, group: Group, column: int | None, plan: Plan, lanes: int) -> IterVar | None:
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
        run = run_of(group, node)
        if run:
            extent = prod(node.extents[k] for k in run)
            axis = fused(stage, [axes[k] for k in run])
            assert axis is not None
            _vectors_of(stage, axis, extent, plan, lanes)
    if plan.stream:
        stage.store_nontemporal()
    if plan.is_together:
        rows = _together(stage, rows, axes, plan)
    row = fused(stage, rows)
    if row is not None and plan.parallel:
        stage.parallel(row)
    return row


def _together(
    stage: Stage, rows: Sequence[IterVar], axes: Sequence[IterVar], plan: Plan
) -> list[IterVar]:
    """The loops over rows, with those steps of an axis that are taken together inside of all."""
    own = axes[plan.axis]
    outer, inner = stage.split(own, factor=plan.together)
    rows = [outer if a is own else a for a in rows]
    stage.reorder(*rows, inner)
    return rows


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
    s: Schedule, group: Group, column: int | None, plan: Plan, lanes: int
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
        if is_window(group, group.last, way):
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


def _is_scalar(group: Group, node: Node, lanes: int) -> bool:
    """True for a reduction of a row that finds its neighbours across, and is no window."""
    if node.role != REDUCTION:
        return False
    way = way_of(node, lanes)
    return way.kind == ACROSS and not is_window(group, node, way)


def _last_windows(s: Schedule, group: Group, way: Way, plan: Plan) -> IterVar | None:
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
    s: Schedule, group: Group, node: Node, column: int | None, plan: Plan, lanes: int
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
    elif axes and len(axes) - 1 not in row_dimensions(group, node):
        _vectors_of(stage, axes[-1], node.extents[-1], plan, lanes)
        own_rows = row_dimensions(group, node)
        if plan.is_together and own_rows == set(range(len(own_rows))) and not node.is_output:
            # each row begins with a whole register, as a row's own buffer does
            stage.storage_align(axes[len(own_rows) - 1], lanes, 0)


def _member_across(
    s: Schedule, group: Group, node: Node, way: Way, column: int | None, plan: Plan
) -> None:
    """The loops of a reduction inside of the chain, in lanes across what it keeps."""
    place = way.axes[0]
    if column is None and is_window(group, node, way):
        local, loops = _windows(s, node, way, plan)
        s[local].compute_at(s[node.tensor], loops[-1])
        return
    size = min(plan.vector, power_below(node.extents[place])) if column is None else plan.vector
    if column is None and place in row_dimensions(group, node):
        size = 1
    sum_across(s[node.tensor], place, size, False, 1 if column is None else plan.unroll)


def _windows(s: Schedule, node: Node, way: Way, plan: Plan) -> tuple[Tensor, list[IterVar]]:
    """Windows summed up in registers, and the loops around the vectors of them."""
    unroll = window_unrolls(node)[-1] if plan.unroll > 1 else 1
    return slide_across(s, node.tensor, way.axes[0], plan.vector, unroll)


def _along(s: Schedule, node: Node, way: Way, plan: Plan, lanes: int) -> list[Tensor]:
    size = min(plan.partial, power_below(way.extent))
    return sum_along(s, node.tensor, way.axes, size, lanes, plan.unroll)


def _vectors_of(stage: Stage, axis: IterVar, extent: int, plan: Plan, lanes: int) -> None:
    """As many lanes of an axis as it has; a row that windows are taken of in one piece."""
    if plan.whole and extent <= 2 * ROW_REGISTERS * lanes:
        vectorized(stage, axis, extent)
    else:
        vectorized(stage, axis, power_below(min(plan.vector, extent)), plan.unroll)
