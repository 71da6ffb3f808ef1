"""The rule for what is computed element by element: arithmetic, broadcasts, transposes, padding.

Elementwise: all loops are one, in vectors.     Broadcasts: rows, and vectors within a row.

    parallel f:                                     parallel i:
        C[f*8 + ramp(8)] = ...                          for j:
                                                            C[i, j*8 + ramp(8)] = ...

Transposes: blocks that the cache holds, both ways.

    parallel i, j:
        for v in unrolled(8):
            C[i*8 + v, j*8 + ramp(8)] = A[j*8 + ramp(8), i*8 + v]

As many steps as lanes are a square, which the compiler turns in registers (TransposeLoads).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.search_spaces.graph.cost import EXPENSIVE
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import INJECTIVE, Group, Node, extent_of
from whet.search_spaces.rules.cpu.loops import (
    around,
    contiguous,
    define_parallel,
    define_stream,
    fused,
    pin,
    vector_sizes,
    vectorized,
)
from whet.search_spaces.rules.vectors import lanes_of, register_tile

# Rows of this many loops keep all threads busy without cutting rows themselves.
_ROWS_A_THREAD = 4
_TILES = (4, 8, 16, 32, 64)
_LARGEST_TILE = 1024
_LINE = 64  # bytes
# Steps that may be unrolled: elements, or squares.
_MOST_UNROLLED = (16, 4)


class Injective(Rule):
    """Vectors along the contiguous axis; blocks where a read is contiguous along another one."""

    def applies(self, group: Group) -> bool:
        """Stages without a reduction that have a loop at all."""
        return group.role == INJECTIVE and not group.members and group.anchor.points > 1

    def schedule(self, s: Schedule, group: Group) -> None:
        """Split, vectorise, share between threads; or put it into its readers."""
        node = group.anchor
        lanes = lanes_of(group.target, node.dtype)
        crossing = crossing_axis(node)
        if crossing is not None:
            _blocks(s, group, crossing, lanes)
        else:
            (_flat if contiguous(node) else _rows)(s, group, lanes)


def crossing_axis(node: Node) -> int | None:
    """The axis along which a large read is contiguous, if that is not the last axis.

    None for what reads in the order in which it writes.
    """
    axes = node.op.axis
    if len(axes) < 2 or node.extents[-1] < 2:
        return None
    for access in node.reads:
        last = access.stride(axes[-1].var)
        if last is None or abs(last) < 2 or abs(last) < 4 <= node.extents[-1] < 4:
            continue
        for k, axis in enumerate(axes[:-1]):
            if access.stride(axis.var) == 1 and node.extents[k] > 1:
                return k
    return None


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


def _rows(s: Schedule, group: Group, lanes: int) -> None:
    node, stage = group.anchor, s[group.anchor.tensor]
    extent = node.extents[-1]
    sizes = vector_sizes(extent, lanes)
    last = node.op.axis[-1].var
    # neighbours along the last axis may read what nobody can say where it is
    scattered = any(access.stride(last) is None for access in node.reads)
    first = 1 if scattered else sizes[min(1, len(sizes) - 1)]
    sizes = list(dict.fromkeys((1, *sizes)))
    size = group.choose("vector", sizes, first, around(sizes, first))
    unroll = _define_unroll(group, extent, sizes[-1])
    stream = define_stream(group)
    parallel = define_parallel(group)
    if _inlined(s, group, {"vector": 1, "unroll": 1, "parallel": False}):
        return
    *outer, column = stage.op.axis
    row = fused(stage, outer)
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


def _blocks(s: Schedule, group: Group, crossing: int, lanes: int) -> None:
    stage = s[group.anchor.tensor]
    axes = stage.op.axis
    across, along = axes[crossing], axes[-1]
    # the steps and lanes of a square that is transposed in registers; 0: there is none
    fits = dt.itemsize(group.anchor.dtype) in (4, 8) and not group.anchor.is_guarded
    square = lanes if fits and min(extent_of(across), extent_of(along)) >= lanes >= 2 else 0
    plan = _define_blocks(group, extent_of(across), extent_of(along), lanes, square)
    (a, b), way = plan.tile, plan.way
    # rows begin where lines of memory do, if the first one does
    whole_lines = group.last.extents[-1] * dt.itemsize(group.last.dtype) % _LINE == 0
    stream = square > 0 and whole_lines and define_stream(group)
    parallel = define_parallel(group)
    if _inlined(s, group, plan.first):
        return
    ao, ai = stage.split(across, factor=a)
    bo, bi = stage.split(along, factor=b)
    others = [x for x in axes if x is not across and x is not along]
    outer = [ao, bo] if plan.order == "rows" else [bo, ao]
    if way == "turn":
        am, ai = stage.split(ai, factor=square)
        bm, bi = stage.split(bi, factor=square)
        register_tile(stage, [*others, *outer, am, bm], [ai, bi])
        unrolled, steps = bm, b // square
    else:
        inner = (bi, ai) if way == "load" else (ai, bi)
        stage.reorder(*others, *outer, *inner)
        if way != "none" and (a if way == "load" else b) > 1:
            stage.vectorize(inner[1])
        unrolled, steps = inner[0], b if way == "load" else a
    if plan.unroll and steps <= _MOST_UNROLLED[way == "turn"]:
        stage.unroll(unrolled)
    if stream:
        stage.store_nontemporal(align=_LINE)
    loop = fused(stage, [*others, *outer])
    if parallel and loop is not None:
        stage.parallel(loop)


@dataclass(frozen=True)
class _Blocks:
    """The choices of a config for blocks.

    Attributes:
        tile: steps across and along. way: of the vectors. order: of the blocks.
        unroll: whether steps are unrolled.
        first: the first choice of each knob.
    """

    tile: tuple[int, int]
    way: str
    order: str
    unroll: bool
    first: dict[str, Any]


def _define_blocks(group: Group, across: int, along: int, lanes: int, square: int) -> _Blocks:
    """The knobs of blocks."""
    tiles = [(a, b) for a in _fitting(across) for b in _fitting(along) if a * b <= _LARGEST_TILE]
    if square:
        # Two squares write whole lines of each row, four are as fast as they come.
        wanted = (2 * square, 4 * square)
    else:
        # Few lines of a row each are read, and whole lines: caches are not fully associative.
        wanted = (tiles[-1][0], min(lanes, tiles[-1][1]))
    default = wanted if wanted in tiles else tiles[-1]
    quick = [t for t in tiles if t[1] in (default[1], default[1] // 2)]
    ways = ["turn", "store", "load", "none"] if square else ["store", "load", "none"]
    first = {
        "tile": tiles[-1], "vector": ways[0], "order": "columns", "unroll": False, "parallel": False
    }  # fmt: skip
    plan = _Blocks(
        group.choose("tile", tiles, default, quick),
        group.choose("vector", ways, ways[0], ways[:1]),
        # One order reads in order and writes across, the other the other way round.
        group.choose("order", ["columns", "rows"], "columns" if square else "rows"),
        group.choose("unroll", [False, True], bool(square)),
        first,
    )
    if square:
        group.cfg.multi_filter(_Holds(group.knob("tile"), group.knob("vector"), square))
    return plan


@dataclass(frozen=True)
class _Holds:
    """A constraint: a tile whose squares are turned is made of whole ones."""

    tile: str
    way: str
    square: int

    def __call__(self, view: Any) -> bool:
        return view[self.way].val != "turn" or min(view[self.tile].val) >= self.square

    def __repr__(self) -> str:
        return f"{self.tile} is at least {self.square} by {self.square} with {self.way}=turn"


def _fitting(extent: int) -> list[int]:
    """Sizes of tiles of an axis."""
    return [t for t in _TILES if t <= extent] or [1 << (extent.bit_length() - 1)]


def _define_unroll(group: Group, extent: int, lanes: int) -> Any:
    choices = [u for u in (1, 2, 4) if u == 1 or u * lanes <= extent]
    return group.choose("unroll", choices, min(2, choices[-1]), choices[-1:])


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
