"""The knobs of chains of rows: places, lanes, and how many short rows are computed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.search_spaces.graph.cost import EXPENSIVE
from whet.search_spaces.graph.stages import INJECTIVE, REDUCTION, Group, Node
from whet.search_spaces.rules.cpu.loops import (
    around,
    axes_together,
    define_parallel,
    define_stream,
    even_size,
    is_in_place,
    pin,
    vector_sizes,
)
from whet.search_spaces.rules.cpu.rows.one_pass import exponentials_twice
from whet.search_spaces.rules.cpu.sums import (
    ACROSS,
    Way,
    slides,
    unrolls,
    way_of,
    window_sizes,
)

_BLOCKS_OF_COLUMNS = 4
_STEPS_OF_ROWS = 4
_LONG = 8192  # elements of a row that is in the L1 cache no more: eight registers for its sums
_VECTORS_AT_ONCE = 2  # steps along rows that are unrolled: long rows like less code
_ROWS_AT_ONCE = 4  # steps of a reduction over columns that are unrolled
_STORED_KNOBS = 4  # stages of a chain that may be computed again instead
# Of rows that are computed together: bytes of all, and how many, that a config may have.
_TOGETHER, _MOST_ROWS = 1 << 14, 8
# By default: about how many, bytes of all, and bytes of a result that the caches hold.
_LEAST, _ABOUT, _SHORT, _NEAR = 3, 4, 1 << 13, 8 << 20
_VECTORS, _WIDE = 64, 20  # of one row, by default; where vectors have 512 bits
_SHARES = 8  # of a thread, at least, unless all have as many


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
class Plan:
    """The choices of a config.

    Attributes:
        place: ``"row"``: the members are computed at a row of the last stage; ``"root"``.
        vector, partial: lanes across what is kept, and along what is reduced.
        unroll: steps that are unrolled.
        inlined: names of members that are computed again where they are read.
        stream, parallel: whether the result bypasses the caches, and threads share the rows.
        whole: windows of a whole row of an image are taken at once.
        together, axis: rows whose members are computed before their results, and the axis of the
            last stage along which they lie.
    """

    place: str
    vector: int
    unroll: int
    inlined: frozenset[str]
    stream: bool
    parallel: bool
    partial: int = 1
    whole: bool = False
    together: int = 1
    axis: int = 0

    @property
    def is_together(self) -> bool:
        """True where several rows are at a step of the last stage's loops."""
        return self.together > 1 and self.place == "row"


def knobs_of(group: Group, column: int | None, lanes: int) -> Plan:
    """Define a chain's knobs; what a config chose.

    Args:
        group: a chain of rows.
        column: as :func:`column_of` says.
        lanes: elements in a vector register.
    """

    def lanes_of_axis(name: str, extent: int, most: int, level: int, even: int = 0) -> Any:
        sizes = vector_sizes(extent, lanes, most)
        first = sizes[min(level, len(sizes) - 1)]
        first = even_size(extent, lanes, first, even) if even else first
        sizes = sorted({1, *sizes, first})
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
        sums = max((n.op.num_outputs for n in reductions), default=1)
        even = (24 if group.target.vector_bytes >= 64 else 12) // sums  # three quarters of all
        vector = lanes_of_axis("vector", extent, 8, max(wide, default=1), even)
    else:
        longest = max([*rest, *(x for n in reductions for x in n.reduce_extents), 1])
        # four registers, of short rows fewer: the less is left over
        longest = max([longest, *(way_of(n, lanes).extent for n in reductions)])
        longest = max(longest, prod(group.last.extents[k] for k in run_of(group, group.last)))
        doubled = range(4 if longest >= _LONG else 3)
        some = max(n for n in doubled if n == 0 or (lanes << n) * _STEPS_OF_ROWS <= longest)
        if reductions:
            partial = lanes_of_axis("partial", longest, 8, some)
        windows = [w for n in reductions if is_window(group, n, w := way_of(n, lanes))]
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
    inlined = _inlined(group)
    kept = (n for n in group.members if n.name not in inlined)
    stream = define_stream(group, not any(is_in_place(group, n) for n in kept))
    whole = any(vector == w.extent for w in windows)
    several = define_parallel(group)
    together = (1, 0) if column is not None else _together(group, reductions)
    return Plan(place, vector, unroll, inlined, stream, several, partial, whole, *together)


def _inlined(group: Group) -> frozenset[str]:
    """Define the knobs of what may be computed again; the names of what a config does."""
    inlined: list[str] = []
    count = 0
    for node in group.members:
        again = node.role == INJECTIVE and node.cost >= EXPENSIVE and node.op.num_outputs == 1
        # One number a row is not worth computing again for each of its elements.
        again = again and len(row_dimensions(group, node)) < sum(n > 1 for n in node.extents)
        if again and count < _STORED_KNOBS:
            if not group.choose(
                f"store_{node.name}", [True, False], not exponentials_twice(group, node)
            ):
                inlined.append(node.name)
            count += 1
    return frozenset(inlined)


def _together(group: Group, reductions: Sequence[Node]) -> tuple[int, int]:
    """Define the knob ``rows`` of short rows; how many are taken together, along which axis.

    The last lanes of a row's sum wait for each other; those of several rows do not. The number
    divides the axis: no row is computed twice, as it must not be where the result has the memory of
    what it is made of. Where the innermost axis has no such number, another one of rows may.
    """
    last = group.last
    if not group.rows or not reductions or last.op.reduce_axis or group.blocks:
        return 1, 0
    count = prod(last.extents[k] for k in group.rows)
    stages = (*group.members, group.anchor, *group.consumers)
    row = -(-max(n.steps * dt.itemsize(n.dtype) for n in stages) // count)
    many = min(_TOGETHER // row, _MOST_ROWS)
    sizes = {k: [n for n in range(1, many + 1) if last.extents[k] % n == 0] for k in group.rows}

    def first(k: int) -> int:
        worth = [n for n in sizes[k] if n >= _LEAST and _is_worth(group, n, count, row)]
        return min(worth, key=lambda n: (abs(n - _ABOUT), -n), default=1)

    axis = max(group.rows, key=lambda k: (first(k) > 1, len(sizes[k]) > 1, k))
    if len(sizes[axis]) < 2:
        return 1, 0
    number = group.choose("rows", sizes[axis], first(axis), around(sizes[axis], first(axis)))
    pin(group, ("place", "root"), {"rows": 1})
    return number, axis


def _is_worth(group: Group, number: int, count: int, row: int) -> bool:
    """True if so many of ``count`` rows of ``row`` bytes gain by it, and leave threads shares.

    What a row's sums wait is nothing beside many vectors, or exponentials in float64; with 512 bits
    a processor has the next row's instructions at hand where one sum is all. Rows that come from
    memory and go there are best one after the other.
    """
    shares, target, members = count // number, group.target, group.members
    wide = target.vector_bytes >= 64
    if shares % target.num_threads and shares < _SHARES * target.num_threads:
        return False
    if any(n.cost >= EXPENSIVE and n.steps > count and dt.itemsize(n.dtype) == 8 for n in members):
        return False
    if wide and sum(n.role == REDUCTION for n in members) < 2:
        return False
    short = row <= (_WIDE if wide else _VECTORS) * target.vector_bytes
    return short and number * row <= _SHORT and count * row < _NEAR


def is_window(group: Group, node: Node, way: Way) -> bool:
    """True for windows that move along a dimension of which a row has all steps."""
    if way.kind != ACROSS or not slides(node, way.axes[0]) or len(node.extents) < 2:
        return False
    return way.axes[0] not in row_dimensions(group, node)


def row_dimensions(group: Group, node: Node) -> set[int]:
    """The dimensions of a member of which there is one step in a row."""
    return {d for d, q in enumerate(group.maps[node.index]) if q in group.rows}


def run_of(group: Group, node: Node) -> tuple[int, ...]:
    """The innermost axes of a row that the last stage goes through as through one."""
    rest = [k for k in range(len(node.extents)) if k not in group.rows]
    if not rest or rest[-1] != len(node.extents) - 1:
        return tuple(rest[-1:])
    numbers = {
        m.op  # of which a row has one element
        for m in group.members
        if all(n == 1 or d in row_dimensions(group, m) for d, n in enumerate(m.extents))
    }
    run = tuple(k for k in axes_together(node, numbers)[-1] if k in rest)
    if run[-1] - run[0] < len(run):
        return run
    # loops of one step that rows part from it: together the two would hide where a row begins
    return tuple(k for k in run if node.extents[k] > 1) or run[-1:]
