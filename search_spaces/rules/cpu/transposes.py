"""The schedule of what reads across: blocks that the caches hold, both ways.

    parallel i, j:                                          # blocks of a by b
        for im, jm:                                         # squares, in either order
            for v in unrolled(16):
                C[i*a + im*16 + v, j*b + jm*16 + ramp(16)] = A[j*b + jm*16 + ramp(16), i*a + ...]

A square has as many steps as lanes, and is transposed in registers (TransposeLoads). Where the size
is no multiple, the last block begins earlier (``tail="shift"``): no masks, no scalar tail. Axes
that lie side by side in what is read and in what is written count as one.

Rows whose distance is a multiple of the cache's (2 KiB and more) fall onto each other in it: then
a block is transposed into a buffer, which is copied row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from whet.compiler.te import Stage
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import IterVar
from whet.search_spaces.graph.stages import Group, Node
from whet.search_spaces.rules.cpu.loops import (
    axes_together,
    define_parallel,
    define_stream,
    fused,
    pin,
    vectorized,
)
from whet.search_spaces.rules.vectors import register_tile

_TILES = (4, 8, 16, 32, 64, 128, 256)
_MOST_ACROSS = 64
_LARGEST_TILE = 16384  # bytes
_LARGEST_PLAIN = 1024  # elements of blocks without squares
_LINE = 64  # bytes
_LARGEST_SQUARE = 16  # rows that registers hold
_LEAST_ROW = 16  # bytes of a square's row, within which shuffles are quick
# Rows that are so many bytes apart share two sets of the L1 cache, or one.
_CONFLICT = 2048
# Results of so many bytes come from and go to memory.
_HUGE = 8 << 20
# Rows that are read side by side from as many pages.
_MANY_ROWS = 2048
# Steps that may be unrolled: elements, or squares.
_MOST_UNROLLED = (16, 4)
# What elements of squares of 4 cost beside those of larger ones.
_SMALL_SQUARE = 1.3

Inlined = Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class Crossing:
    """How a stage reads across.

    Attributes:
        pieces: the places of axes that count as one loop, outermost first.
        across, along: the piece along which a large read is contiguous, and the last one.
        extents: of these two.
        pitches: elements from row to row: of the read along ``along``, of the result along
            ``across``.
    """

    pieces: tuple[tuple[int, ...], ...]
    across: int
    along: int
    extents: tuple[int, int]
    pitches: tuple[int, int]


def crossing_axis(node: Node) -> int | None:
    """The axis along which a large read is contiguous, if that is not the last axis.

    None for what reads in the order in which it writes.
    """
    axes = node.op.axis
    if len(axes) < 2 or node.extents[-1] < 2:
        return None
    for access in node.reads:
        last = access.stride(axes[-1].var)
        if last is None or abs(last) < 2:
            continue
        for k, axis in enumerate(axes[:-1]):
            if access.stride(axis.var) == 1 and node.extents[k] > 1:
                return k
    return None


def crossing_of(node: Node) -> Crossing | None:
    """How a stage reads across; None for what reads in the order in which it writes."""
    k = crossing_axis(node)
    if k is None:
        return None
    last, own = node.op.axis[-1].var, node.op.axis[k].var
    steps = [r.stride(last) for r in node.reads if r.stride(own) == 1]
    pieces = axes_together(node)
    across = next(p for p, piece in enumerate(pieces) if k in piece)
    sizes = [prod(node.extents[axis] for axis in piece) for piece in pieces]
    pitches = (max(abs(step) for step in steps if step is not None), prod(sizes[across + 1 :]))
    return Crossing(pieces, across, len(pieces) - 1, (sizes[across], sizes[-1]), pitches)


def blocks(s: Schedule, group: Group, crossing: Crossing, lanes: int, inlined: Inlined) -> None:
    """Define the knobs of blocks, and make their loops.

    Args:
        s: the schedule.
        group: its anchor reads across.
        crossing: how.
        lanes: elements in a vector register.
        inlined: puts the stage into its readers where that was chosen, and says so; takes the first
            choice of each knob.
    """
    node, stage = group.anchor, s[group.anchor.tensor]
    plan = _define(group, crossing, lanes)
    # rows begin where lines of memory do, if the first one does
    whole_lines = group.last.extents[-1] * dt.itemsize(group.last.dtype) % _LINE == 0
    stream = bool(plan.squares) and whole_lines and define_stream(group)
    parallel = define_parallel(group)
    if inlined(plan.first):
        return
    local = s.cache_write(node.tensor, "global") if plan.buffer else None
    loops = _pieces_as_loops(stage, crossing)
    across, along = loops[crossing.across], loops[crossing.along]
    others = [x for x in loops if x is not across and x is not along]
    ao, ai = stage.split(across, factor=plan.tile[0], tail="shift")
    bo, bi = stage.split(along, factor=plan.tile[1], tail="shift")
    outer = [*others, ao, bo] if plan.order == "rows" else [*others, bo, ao]
    if local is not None:
        stage.reorder(*outer, ai, bi)
        vectorized(stage, bi, min(lanes * 2, plan.tile[1]), 1)
    else:
        _inside(stage, plan, outer, ai, bi)
    if stream:
        stage.store_nontemporal(align=_LINE)
    loop = fused(stage, outer)
    assert loop is not None
    if local is not None:
        s[local].compute_at(stage, loop)
        inner = s[local]
        again = _pieces_as_loops(inner, crossing)
        rest = [x for k, x in enumerate(again) if k not in (crossing.across, crossing.along)]
        _inside(inner, plan, rest, again[crossing.across], again[crossing.along])
    if parallel:
        stage.parallel(loop)


def _pieces_as_loops(stage: Stage, crossing: Crossing) -> list[IterVar]:
    axes = list(stage.op.axis)
    loops = [fused(stage, [axes[k] for k in piece]) for piece in crossing.pieces]
    return [x for x in loops if x is not None]


def _inside(stage: Stage, plan: _Plan, outer: list[IterVar], ai: IterVar, bi: IterVar) -> None:
    """The loops of a block."""
    a, b = plan.tile
    if plan.way == "turn":
        am, ai = stage.split(ai, factor=plan.square)
        bm, bi = stage.split(bi, factor=plan.square)
        by_rows = plan.inner == "rows"
        register_tile(stage, [*outer, *((am, bm) if by_rows else (bm, am))], [ai, bi])
        unrolled, steps = (bm, b // plan.square) if by_rows else (am, a // plan.square)
    else:
        inner = (bi, ai) if plan.way == "load" else (ai, bi)
        stage.reorder(*outer, *inner)
        if plan.way != "none" and (a if plan.way == "load" else b) > 1:
            stage.vectorize(inner[1])
        unrolled, steps = inner[0], b if plan.way == "load" else a
    if plan.unroll and steps <= _MOST_UNROLLED[plan.way == "turn"]:
        stage.unroll(unrolled)


@dataclass(frozen=True)
class _Plan:
    """The choices of a config for blocks.

    Attributes:
        tile: steps across and along. way: of the vectors. square: the steps and lanes of one.
        order, inner: of the blocks, and of the squares in one.
        buffer: whether a block is transposed into a buffer first.
        unroll: whether steps are unrolled.
        squares: the sizes that there are.
        first: the first choice of each knob.
    """

    tile: tuple[int, int]
    way: str
    square: int
    order: str
    inner: str
    buffer: bool
    unroll: bool
    squares: tuple[int, ...]
    first: dict[str, Any]


def _define(group: Group, crossing: Crossing, lanes: int) -> _Plan:
    """The knobs of blocks."""
    squares = _squares(group.expanded or group.anchor, crossing, lanes)
    default, quick = _default(group, crossing, squares, lanes)
    most = _LARGEST_TILE // dt.itemsize(group.anchor.dtype) if squares else _LARGEST_PLAIN
    across, along = _tile_sizes(crossing)
    tiles = [(a, b) for a in across for b in along if a * b <= most]
    tile = group.choose("tile", tiles, default["tile"], quick)
    ways = ["turn", "store", "load", "none"] if squares else ["store", "load", "none"]
    way = group.choose("vector", ways, default["vector"], [default["vector"]])
    orders = ["columns", "rows"]
    order = group.choose("order", orders, default["order"])
    unroll = group.choose("unroll", [False, True], default["unroll"])
    square, inner, buffer = 0, "rows", False
    if squares:
        square = group.choose("square", squares, default["square"])
        inner = group.choose("inner", orders, default["inner"])
        if group.anchor.op.num_outputs == 1:
            buffer = group.choose("buffer", [False, True], default["buffer"])
        group.cfg.multi_filter(_Holds(*(group.knob(x) for x in ("tile", "vector", "square"))))
        own = {"square": squares[0], "inner": orders[0]}
        if group.anchor.op.num_outputs == 1:
            own["buffer"] = False
        for other in ways[1:]:
            pin(group, ("vector", other), own)
    first: dict[str, Any] = {"tile": tiles[-1], "vector": ways[0], "order": "columns"}
    first |= {"unroll": False, "parallel": False}
    if squares:
        first["square"] = next(q for q in squares if min(tiles[-1]) % q == 0)
        first |= {"inner": "columns"} | ({"buffer": False} if "buffer" in own else {})
    return _Plan(tile, way, square, order, inner, buffer, unroll, tuple(squares), first)


def _squares(node: Node, crossing: Crossing, lanes: int) -> list[int]:
    """The squares that are transposed in registers: of whole vectors, and smaller ones."""
    size = dt.itemsize(node.dtype)
    if dt.is_bool(node.dtype) or node.is_guarded:
        return []
    fits = [n for n in (lanes, lanes // 2, lanes // 4) if n <= _LARGEST_SQUARE]
    least = max(_LEAST_ROW // size, _TILES[0])
    return [n for n in fits if least <= n <= min(crossing.extents)]


def _default(
    group: Group, crossing: Crossing, squares: list[int], lanes: int
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """What is estimated to be best, and the tiles of a quick space.

    Measured on Zen 5 with 256 and 512 bits: blocks of 128 bytes both ways; rows that fall onto each
    other in the cache by a buffer of 64 by 256 bytes, but for results past the caches.
    """
    node = group.anchor
    size = dt.itemsize(node.dtype)
    across, along = _tile_sizes(crossing)
    if not squares:
        return _plain_default(crossing, lanes)
    huge = node.points * size >= _HUGE and node.is_output
    streams = huge and node.extents[-1] * size % _LINE == 0
    shared = any(gcd(pitch * size, 2 * _CONFLICT) >= _CONFLICT for pitch in crossing.pitches)
    large = min(crossing.extents) * size >= 4 * _LINE
    buffer = shared and large and not huge and node.op.num_outputs == 1
    # down the result, which is then written row by row, where it is much longer than wide, or past
    # the caches and of more rows than the pages that are remembered
    down = buffer or (streams and crossing.extents[1] >= _MANY_ROWS)
    down = down or (not huge and crossing.extents[0] >= 16 * crossing.extents[1])
    if buffer or (huge and not streams):
        lines = (1, 4)
    else:
        lines = (4, 1) if down and not shared else (2, 2)
    wanted = (lines[0] * _LINE // size, lines[1] * _LINE // size)

    def waste(extent: int, tile: int) -> float:
        return -(-extent // tile) * tile / extent

    def nearest(extent: int, tiles: list[int], want: int, square: int) -> int:
        whole = [t for t in tiles if t % square == 0 and t <= max(2 * want, square)]
        return min(whole, key=lambda t: (round(waste(extent, t), 1), abs(t - want)))

    def cost(q: int) -> tuple[float, int]:
        a = nearest(crossing.extents[0], across, wanted[0], q)
        b = nearest(crossing.extents[1], along, wanted[1], q)
        work = waste(crossing.extents[0], a) * waste(crossing.extents[1], b)
        return round(work * (_SMALL_SQUARE if q < 8 < lanes else 1.0), 2), -q

    square = min(squares, key=cost)
    tile = (
        nearest(crossing.extents[0], across, wanted[0], square),
        nearest(crossing.extents[1], along, wanted[1], square),
    )
    # rows of 16 bytes: four in turn fill a line of the result
    parts = square * size < _LINE // 2
    order = "columns" if down or parts else "rows"
    inner = "rows" if (huge or down or parts) and not buffer else "columns"
    default = {
        "tile": tile, "square": square, "order": order, "inner": inner, "buffer": buffer,
        "vector": "turn", "unroll": True,
    }  # fmt: skip
    near = [tile, (tile[0] * 2, tile[1]), (tile[0], tile[1] * 2), (tile[0] // 2, tile[1] // 2)]
    fit = [t for t in near if t[0] in across and t[1] in along]
    return default, [t for t in fit if t[0] * t[1] * size <= _LARGEST_TILE]


def _plain_default(crossing: Crossing, lanes: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The same without squares: types of few lanes, padding, two or three channels.

    Few lines of a row each are read, and whole lines: caches are not fully associative.
    """
    across, along = _tile_sizes(crossing)
    few = lanes < _TILES[0]  # too few for squares: down the result
    tile, way = (across[-1], min(lanes, along[-1])), "store"
    if few:
        tile = (min(_TILES[1], across[-1]), min(_TILES[2], along[-1]))
    elif across[-1] < _TILES[0]:  # all of it, in whole vectors (InterleaveLanes)
        tile = (across[-1], max(n for n in along if n <= lanes))
    elif along[-1] < _TILES[0]:
        tile, way = (max(n for n in across if n <= lanes), along[-1]), "load"
    tiles = [(a, b) for a in across for b in along if a * b <= _LARGEST_PLAIN]
    tile = tile if tile in tiles else tiles[-1]
    quick = [t for t in tiles if t[1] in (tile[1], tile[1] // 2)]
    order, unroll = "columns" if few else "rows", few or min(tile) < _TILES[0]
    return {"tile": tile, "order": order, "vector": way, "unroll": unroll}, quick


def _tile_sizes(crossing: Crossing) -> tuple[list[int], list[int]]:
    """Steps of a block across and along; not many across: each is a row to be written."""
    across, along = (_fitting(n) for n in crossing.extents)
    return [n for n in across if n <= _MOST_ACROSS], along


def _fitting(extent: int) -> list[int]:
    """Sizes of tiles of an axis; all of a short one."""
    return [t for t in _TILES if t <= extent] if extent >= _TILES[0] else [extent]


@dataclass(frozen=True)
class _Holds:
    """A constraint: a tile whose squares are transposed is made of whole ones."""

    tile: str
    way: str
    square: str

    def __call__(self, view: Any) -> bool:
        if view[self.way].val != "turn":
            return True
        return all(n % view[self.square].val == 0 for n in view[self.tile].val)

    def __repr__(self) -> str:
        return f"{self.tile} is made of whole squares of {self.square} with {self.way}=turn"
