"""The rule for what is computed element by element: arithmetic, broadcasts, transposes, padding.

Elementwise: all loops are one, in vectors.     Broadcasts: rows, and vectors within a row.

    parallel f:                                     parallel i:
        C[f*8 + ramp(8)] = ...                          for j:
                                                            C[i, j*8 + ramp(8)] = ...

Phases, ``A[x % 2, x // 2]``: vectors of each, interleaved as they are stored.

Transposes: blocks that the cache holds, both ways (:mod:`transposes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import FloorDiv, FloorMod, IntImm, PrimExpr, Var
from whet.search_spaces.graph.access import affine, bounded, places
from whet.search_spaces.graph.cost import EXPENSIVE
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import INJECTIVE, Group, Node
from whet.search_spaces.rules.cpu.loops import (
    around,
    axes_together,
    contiguous,
    define_parallel,
    define_stream,
    fused,
    pin,
    vector_sizes,
    vectorized,
)
from whet.search_spaces.rules.cpu.transposes import blocks, crossing_of
from whet.search_spaces.rules.vectors import lanes_of

# Rows of this many loops keep all threads busy without cutting rows themselves.
_ROWS_A_THREAD = 4
_PHASES = (2, 3, 4)  # steps that InterleaveLanes puts together
_PHASE_BYTES = 32
# Columns that a gather goes down together: the part of its table that they point into stays in the
# caches, and its rows of indices and results are still read and written in long runs.
_GATHERED, _GATHERED_CHOICES = 256, (64, 128, 256, 512)
_LARGE_TABLE = 1 << 20  # bytes, from which on blocks are worth their longer loops
_PICKED = 16  # lanes that are put together one by one, at most


class Injective(Rule):
    """Vectors along the contiguous axis; blocks where a read is contiguous along another one."""

    def applies(self, group: Group) -> bool:
        """Stages without a reduction that have a loop at all."""
        return group.role == INJECTIVE and not group.members and group.anchor.points > 1

    def schedule(self, s: Schedule, group: Group) -> None:
        """Split, vectorise, share between threads; or put it into its readers."""
        node = group.expanded or group.anchor
        lanes = lanes_of(group.target, node.dtype)
        crossing = crossing_of(node)
        if crossing is not None:
            blocks(s, group, crossing, lanes, lambda first: _inlined(s, group, first))
        elif contiguous(node):
            _flat(s, group, lanes)
        else:
            _rows(s, group, node, lanes)


def _flat(s: Schedule, group: Group, lanes: int) -> None:
    node, stage = group.anchor, s[group.anchor.tensor]
    sizes = vector_sizes(node.points, lanes)
    first = sizes[min(1, len(sizes) - 1)]
    size = group.choose("vector", sizes, first, around(sizes, first))
    unroll = _define_unroll(group, node.points, sizes[-1])
    stream = define_stream(group)
    parallel = define_parallel(group)
    if _inlined(s, group, {"vector": sizes[0], "unroll": 1, "parallel": False}):
        return
    axis = fused(stage, stage.op.axis)
    assert axis is not None
    loops = vectorized(stage, axis, size, unroll)
    if stream:
        stage.store_nontemporal()
    if parallel and len(loops) > 1:
        stage.parallel(loops[0])


def _rows(s: Schedule, group: Group, node: Node, lanes: int) -> None:
    """Vectors along rows.

    Args:
        s: the schedule.
        group: its anchor is scheduled.
        node: the anchor with inlined producers in it.
        lanes: elements in a vector register.
    """
    stage = s[group.anchor.tensor]
    run = len(group.once("together", lambda: axes_together(node))[-1])
    extent = prod(node.extents[-run:])
    sizes = vector_sizes(extent, lanes)
    # neighbours along the last axis may read what nobody can say where it is
    scattered = group.once("scattered", lambda: _is_scattered(node))
    table = group.once("table", lambda: _gathered_bytes(node)) if scattered else 0
    first = 1 if scattered else sizes[min(1, len(sizes) - 1)]
    if table and sizes[0] <= _PICKED:  # indices and results are vectors, elements are picked
        first = sizes[0]
    sizes = list(dict.fromkeys((1, *sizes)))
    size = group.choose("vector", sizes, first, around(sizes, first))
    down = _column_blocks(extent, table) if run < len(node.extents) else []
    several = 4 if table and (not down or down[0] == 0) else 2
    unroll = _define_unroll(group, extent, sizes[-1], several)
    steps = group.once("phases", lambda: _phases(node)) if first == 1 else 0
    phases = _define_phases(group, steps, lanes) if steps else 0
    columns = group.choose("columns", sorted(down), down[0], down[:2]) if down else 0
    stream = define_stream(group)
    parallel = define_parallel(group)
    plain = {"phases": 0} if steps else {}
    plain |= {"columns": 0} if down else {}
    if _inlined(s, group, {"vector": 1, "unroll": 1, "parallel": False} | plain):
        return
    if phases:
        _interleaved(s, group, steps, phases, parallel)
        return
    row = fused(stage, stage.op.axis[:-run])
    column = fused(stage, stage.op.axis[-run:])
    assert column is not None
    if columns and row is not None:
        block, column = stage.split(column, factor=columns, tail="shift")
        stage.reorder(block, row, column)
        row = fused(stage, [block, row])
    loops = vectorized(stage, column, size, unroll)
    if stream:
        stage.store_nontemporal()
    if not parallel:
        return
    few = node.points // extent < _ROWS_A_THREAD * group.target.num_threads
    if row is None or (few and len(loops) > 1):
        row = fused(stage, [loops[0]] if row is None else [row, loops[0]])
        if row is column and len(loops) == 1 and size > 1:
            return
    assert row is not None
    stage.parallel(row)


def _phases(node: Node) -> int:
    """The s of reads at ``x // s`` and ``x % s`` of the last axis and of nothing else of it; or 0.

    So are the phases of a transposed convolution, and a pixel shuffle: neighbours of each remainder
    are neighbours in what is read.
    """
    assert isinstance(node.op, ComputeOp)
    analyzer = bounded(node.op.axis)
    # as it stands, or without clamps that never hold
    for body in (node.op.body, tuple(map(analyzer.simplify, node.op.body))):
        steps = _steps_of_phases(body, node.op.axis[-1].var)
        if steps in _PHASES and node.extents[-1] >= 2 * steps:
            return steps
    return 0


def _steps_of_phases(body: Sequence[PrimExpr], last: Var) -> int:
    """The one divisor of ``last + a number`` in expressions that have it nowhere else; or 0."""
    found: set[int] = set()

    def without_phases(n: Any) -> bool:
        if n is last:
            return False
        if isinstance(n, FloorDiv | FloorMod) and isinstance(n.b, IntImm):
            place = affine(n.a)
            if place is not None and last in place.atoms:
                found.add(n.b.value if place.coefficient(last) == 1 else 0)
                return True
        return all(map(without_phases, n.parts))

    return found.pop() if all(map(without_phases, body)) and len(found) == 1 else 0


def _define_phases(group: Group, steps: int, lanes: int) -> int:
    """The lanes of a phase that are taken at once; 0: the elements in their order.

    Two half registers, interleaved, are one: 512 bits waste more at the ends of rows.
    """
    node = group.anchor
    sizes = [n for n in (lanes // 4, lanes // 2, lanes, 2 * lanes) if n > 1]
    sizes = [n for n in sizes if n * steps <= node.extents[-1]] or [2]
    half = [n for n in sizes if n * dt.itemsize(node.dtype) <= _PHASE_BYTES]
    phases = int(group.choose("phases", [0, *sizes], half[-1] if half else sizes[0]))
    for size in sizes:
        pin(group, ("phases", size), {"vector": 1, "unroll": 1})
    return phases


def _interleaved(s: Schedule, group: Group, steps: int, size: int, parallel: bool) -> None:
    """Vectors of each phase, whose lanes are interleaved as they are stored.

    for x:
        for b in unrolled(2):
            C[x*16 + b + ramp(8, step 2)] = A[b, x*8 + ramp(8)]
    """
    stage = s[group.anchor.tensor]
    *rows, x = stage.op.axis
    outer, inner = stage.split(x, factor=steps * size)
    lane, phase = stage.split(inner, factor=steps)
    stage.reorder(*rows, outer, phase, lane)
    stage.unroll(phase)
    stage.vectorize(lane)
    row = fused(stage, rows or [outer])
    if parallel and row is not None:
        stage.parallel(row)


def _is_scattered(node: Node) -> bool:
    """True where neighbours along the last axis read elements at no known distance.

    Quotients and remainders by which another shape is read are none where they cancel.
    """
    last = node.op.axis[-1].var
    assert isinstance(node.op, ComputeOp)
    if all(access.stride(last) is not None for access in node.reads):
        return False
    found = places(node.op.body, bounded(node.op.axis))
    return any(place.without(last).mentions({last}) for place in found)


def _gathered_bytes(node: Node) -> int:
    """Bytes of the largest table whose rows are data, and whose columns the last axis goes along.

    0 where there is none: neighbours of what is picked along the last axis are in one row.
    """
    last, most = node.op.axis[-1].var, 0
    for access in node.reads:
        along = access.indices[-1] if access.indices else None
        if None in access.indices and along is not None and last in along.atoms:
            most = max(most, access.size * dt.itemsize(access.tensor.dtype))
    return most


def _column_blocks(extent: int, table: int) -> list[int]:
    """Columns that a gather may go down together, the default first; 0: row by row.

    In vectors, 2000 rows of 1024 out of 4000 take 0.6 of the time of a row after the other, element
    by element; 500 of 512 out of 1000 0.8, out of 12, without blocks, 0.8 (Zen 4).
    """
    sizes = [n for n in _GATHERED_CHOICES if n < extent]
    if not table or not sizes:
        return []
    large = table > _LARGE_TABLE and extent > _GATHERED
    return [_GATHERED, 0, *(n for n in sizes if n != _GATHERED)] if large else [0, *sizes]


def _define_unroll(group: Group, extent: int, lanes: int, several: int = 2) -> Any:
    choices = [u for u in (1, 2, 4) if u == 1 or u * lanes <= extent]
    return group.choose("unroll", choices, min(several, choices[-1]), choices[-1:])


def _inlined(s: Schedule, group: Group, first: dict[str, Any]) -> bool:
    """Put the stage into its readers, where that is a choice and was chosen.

    ``first`` has the first choice of the other knobs, which have no effect then.
    """
    node = group.anchor
    if node.is_output or node.op.num_outputs > 1 or node.cost < EXPENSIVE or not node.inlinable:
        return False
    place = group.choose("place", ["root", "inline"], "root")
    if group.target.num_threads < 2:
        del first["parallel"]
    pin(group, ("place", "inline"), first)
    if place == "root":
        return False
    s[node.tensor].compute_inline()
    return True
