"""The rule for one reduction without reuse: row and column sums, maxima, pooling, running sums.

It reads memory once, in order: that order decides whether the lanes of a vector sum up parts of a
row, or neighbouring elements (:mod:`sums`). Where there are few elements to keep threads busy, the
reduction itself is cut into chunks. Running sums and products are statements of their own
(:mod:`scans`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, inf, prod
from typing import Any

from whet.compiler.te.lang.tensor import ComputeOp, ExternOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, TILED, Group, extent_of
from whet.search_spaces.rules.cpu.conv.rule import form_of as conv_of
from whet.search_spaces.rules.cpu.gemm.costs import costs_of
from whet.search_spaces.rules.cpu.gemm.rule import form_of, is_packed
from whet.search_spaces.rules.cpu.loops import (
    around,
    fused,
    pin,
    vector_sizes,
    vectorized,
    worth_threads,
)
from whet.search_spaces.rules.cpu.scans import in_vectors, is_scan
from whet.search_spaces.rules.cpu.sums import (
    ACROSS,
    ALONG,
    Way,
    attach,
    first_of,
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

# An operand that is read so often is not worth tiles, or copies.
_FEW_READS = 4
# Cycles of rows of a matrix that are added up: of a vector at a step, and of its store.
_STEP, _VECTOR = 1.3, 4.0
_LINE = 64  # bytes
# Fewer elements than this for each thread: the reduction is cut into chunks.
_FEW = 4
_LONG = 64  # steps of a reduction that is worth cutting


class Reduction(Rule):
    """Partial sums in lanes, or lanes across what is kept; chunks for threads."""

    def applies(self, group: Group) -> bool:
        """A reduction that is not a part of a chain of rows, nor of a form that is tiled."""
        return is_scan(group) or (group.role in (REDUCTION, TILED) and not group.members)

    def competes(self, group: Group) -> bool:
        """Operands that are read a few times only, or windows that slide over registers."""
        node = group.anchor
        if node.op.num_outputs > 1 or not isinstance(node.op, ComputeOp):
            return False
        form = form_of(group)
        if form is not None:  # whose operands lie along the sum is the rule's for skinny ones
            return node.few_reads(_FEW_READS) and not (form.size.transpose_b and form.size.K > 1)
        way = way_of(node, lanes_of(group.target, node.dtype))
        windows = way.kind == ACROSS and slides(node, way.axes[0])
        return conv_of(group) is None and (windows or node.few_reads(_FEW_READS))

    def cycles(self, group: Group) -> float | None:
        """Of rows times a matrix: a step of each, and the matrix once for each row."""
        form = form_of(group)
        if form is None:
            return None
        g, target = form.size, group.target
        steps = g.batch * g.N * -(-g.M // lanes_of(target, g.dtype))
        matrix = g.batch * g.M * g.K * dt.itemsize(g.dtype)
        costs = costs_of(target)
        first = inf if is_packed(group, form) else matrix
        moved = (g.N - 1) * matrix / costs.caches.rate(matrix) + matrix / costs.caches.rate(first)
        step = _STEP + costs.split * _crossing(g.M * dt.itemsize(g.dtype), target.vector_bytes)
        total = costs.overlapped(steps * (step * g.K + _VECTOR), moved)
        return total / (target.num_threads if worth_threads(group) else 1)

    def rewrite(self, group: Group) -> Tensor | None:
        """A running reduction as statements in vectors; others stay as they are."""
        return in_vectors(group) if is_scan(group) else None

    def schedule(self, s: Schedule, group: Group) -> None:
        """Choose the lanes, the steps that are unrolled, chunks and threads."""
        if isinstance(group.anchor.op, ExternOp):
            return  # a scan, whose statements are scheduled already
        node = group.anchor
        lanes = lanes_of(group.target, node.dtype)
        way = way_of(node, lanes)
        plan = _knobs(group, way, lanes)
        tensor, chunked = node.tensor, plan.chunks > 1
        if chunked:
            # pieces of the outermost axis, a thread each at a time
            outer, _ = s[tensor].split(s[tensor].op.reduce_axis[0], nparts=plan.chunks)
            tensor = first_of(s.rfactor(tensor, outer, factor_axis=0))
        if way.kind == ACROSS:
            _across(s, group, tensor, way, plan, chunked)
        else:
            if way.kind == ALONG:
                run = way.axes
                if chunked:  # the axis that was cut comes last among those that are left
                    count = len(s[tensor].op.reduce_axis)
                    run = tuple(count - 1 if k == 0 else k - 1 for k in run)
                attach(s, tensor, sum_along(s, tensor, run, plan.size, lanes, plan.unroll))
            if chunked:
                s[tensor].parallel(s[tensor].op.axis[0])
            _rows(s, group, plan)


@dataclass(frozen=True)
class _Plan:
    """The choices of a config; the defaults stand where a group has no such knob.

    Attributes:
        size: lanes; 1: no vectors. unroll: steps that are unrolled.
        rows: whether a row is done before the next step of the reduction.
        chunks: pieces of the reduction, 1 for none. parallel: whether threads share the rows.
    """

    size: int = 1
    unroll: int = 1
    rows: bool = False
    chunks: int = 1
    parallel: bool = False


def _knobs(group: Group, way: Way, lanes: int) -> _Plan:
    """Define the group's knobs; the choices in force."""
    node = group.anchor
    plan: dict[str, Any] = {}
    window = prod(node.reduce_extents)
    worth = worth_threads(group)
    few = node.points // (way.extent if way.kind == ACROSS else 1)
    window_moves = way.kind == ACROSS and slides(node, way.axes[0])

    def define(name: str, choices: list, default: Any, quick: list | None = None) -> None:
        plan[name] = group.choose(name, choices, default, quick)

    if window_moves:
        sizes = window_sizes(way.extent, lanes, vector_sizes(way.extent, lanes, 8))
        first = sizes[-1] if way.extent in sizes else sizes[min(2, len(sizes) - 1)]
        every = list(dict.fromkeys((1, *sizes)))
        plan["size"] = group.choose("windows", every, first, around(sizes, first))
        steps = window_unrolls(node)
        define("unroll", steps, steps[-1], [1, steps[-1]])
    elif way.kind != "plain":
        sizes = vector_sizes(way.extent, lanes, 8)
        # A row that is longer than the registers are is read as a whole: memory likes long reads.
        rows = way.kind == ACROSS and window >= _LONG and way.extent > sizes[-1]
        first = sizes[-1] if rows else sizes[min(2, len(sizes) - 1)]
        sizes = list(dict.fromkeys((1, *sizes)))
        define("size", sizes, first, around(sizes, first))
        last = node.reduce_extents[-1] if way.kind == ACROSS else way.extent // sizes[-1]
        # Rows that are added up together are read side by side, and the sums stored once for all.
        steps = unrolls(last)
        # What is left over would be as much code again, behind masks: 14 x 14 in steps of 8 takes
        # 7 times as long as in steps of 7.
        written = _divisor(last) if rows else min(4, steps[-1])
        steps = sorted({*steps, written})
        written = written if way.kind == ACROSS else 1
        define("unroll", steps, written, [1, written])
        if way.kind == ALONG:  # without lanes there is nothing but the plain loop
            pin(group, ("size", 1), {"unroll": 1})
        if way.kind == ACROSS and window >= _LONG:
            define("rows", [False, True], rows)
    threads = group.target.num_threads
    if threads < 2:
        return _Plan(**plan)
    cut = few < _FEW * threads and window >= _LONG
    if cut:
        define("chunks", [1, threads, 4 * threads], threads if worth else 1)
    if node.points > 1:
        define("parallel", [False, True], worth and not cut)
        if cut:  # chunks run on all threads already
            for chunks in (threads, 4 * threads):
                pin(group, ("chunks", chunks), {"parallel": False})
    return _Plan(**plan)


def _crossing(row: int, vector: int) -> float:
    """The share of a matrix' vectors that lie across two lines, by bytes of a row and a vector."""
    starts = range(0, _LINE, gcd(row, _LINE))
    return sum(start + vector > _LINE for start in starts) / len(starts)


def _divisor(extent: int) -> int:
    """The most steps, 8 at most, that go into an extent without a rest."""
    return max(n for n in range(1, 9) if extent % n == 0)


def _rows(s: Schedule, group: Group, plan: _Plan) -> None:
    """The loops over what is kept, shared between threads."""
    last = s[group.last.tensor]
    axes = last.op.axis
    if not axes:
        return
    if group.consumers:
        row = fused(last, axes)
        assert row is not None
        s[group.anchor.tensor].compute_at(last, row)
        if plan.parallel:
            last.parallel(row)
    elif plan.parallel:
        last.parallel(max(axes, key=extent_of))


def _across(
    s: Schedule, group: Group, tensor: Tensor, way: Way, plan: _Plan, chunked: bool
) -> None:
    axis, last = way.axes[0], s[tensor]
    if slides(group.anchor, axis) and not (chunked or group.consumers) and len(last.op.axis) > 1:
        local, loops = slide_across(s, tensor, axis, plan.size, plan.unroll)
        loop = fused(last, loops)
        assert loop is not None
        s[local].compute_at(last, loop)
        if plan.parallel:
            last.parallel(loop)
        return
    others, over = sum_across(last, axis + chunked, plan.size, plan.rows, plan.unroll)
    if chunked:
        last.parallel(others[0])
    if chunked or group.consumers:
        # the stage that stores the sum of the chunks, or what is computed of the sums
        last = s[group.last.tensor]
        axes = last.op.axis
        others = [a for k, a in enumerate(axes) if k != axis]
        *over, lane = vectorized(last, axes[axis], plan.size)
        last.reorder(*others, *over, *last.op.reduce_axis, lane)
    loop = fused(last, others if plan.rows else [*others, *over])
    if group.consumers and loop is not None:
        s[group.anchor.tensor].compute_at(last, loop)
    if plan.parallel and loop is not None:
        last.parallel(loop)
