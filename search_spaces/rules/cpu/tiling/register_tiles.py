"""Register tiles of any reduction: which are worth trying, the best guess first.

A tile has one vectorised axis, its lanes, and up to two more axes above 1. Its accumulators, the
vectors of one operand and one scalar must fit the vector registers. Its guess counts the cycles of
one vector operation: two are done in a cycle, two loads too, and a sum is ready after four or five.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product
from math import prod

from whet.search_spaces.rules.cpu.tiling.spec import Operand, TiledSpec

Tile = tuple[int, tuple[int, ...]]  # the vectorised axis, and the size of each data axis

_VECTORS = (1, 2, 3, 4, 6, 7)
_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 28)
#: a tile that a guess puts at three times the best is never the answer
_WORST = 3.0
#: lanes at most so far apart are read as whole vectors
_STRIDES = 4
#: of one vectorised axis
_MOST_TILES = 160


@lru_cache(maxsize=256)
def register_tiles(spec: TiledSpec) -> tuple[Tile, ...]:
    """Tiles that fit the registers, of each axis that can be vectorised, the best guess first."""
    found: list[tuple[float, Tile]] = []
    for lane in lane_axes(spec):
        rated = sorted((tile_cost(spec, t), t) for t in _tiles(spec, lane))
        found += rated[:_MOST_TILES]
    found.sort()
    best = found[0][0]
    return tuple(tile for cost, tile in found if cost <= _WORST * best)


@lru_cache(maxsize=256)
def lane_axes(spec: TiledSpec) -> tuple[int, ...]:
    """The data axes that may be vectorised: the result's last, and at most one other.

    That must be one that an operand is contiguous in, or that an operand does not depend on where
    the last axis is short or part of a window.
    """
    last = spec.last
    short = spec.data[last] < 2 * spec.lanes or any(o.coupled(last) for o in spec.operands)
    enough = min(spec.lanes, 4)
    others: list[tuple[bool, int, int]] = []
    for a, extent in enumerate(spec.data):
        if a == last or extent < enough or any(o.coupled(a) for o in spec.operands):
            continue
        unit = any(o.stride(a) == 1 for o in spec.operands)
        alone = any(not o.depends(a) for o in spec.operands)
        if unit or (alone and short):
            others.append((not unit, -extent, a))
    return (last, *(a for _, _, a in sorted(others)[:1]))


def _tiles(spec: TiledSpec, lane: int) -> list[Tile]:
    free = [a for a in spec.reuse if a != lane]
    # the last axes are nearest in memory; those before a third are seldom worth a part of a tile
    moved = [o for o in spec.operands if o.depends(lane)]  # which may stay where they are
    free = sorted(free, key=lambda a: (all(o.depends(a) for o in moved), -a))[:3]
    found: set[Tile] = set()
    for chosen in (*combinations(free, 2), *((a,) for a in free), ()):
        for v in _VECTORS:
            if v > 1 and (v - 1) * spec.lanes >= spec.data[lane]:
                continue
            choices = [[t for t in _SIZES if t <= spec.data[a]] for a in chosen]
            for sizes in product(*choices):
                if v * prod(sizes) + 2 > spec.registers:
                    continue
                tile = [1] * len(spec.data)
                tile[lane] = v * spec.lanes
                for a, t in zip(chosen, sizes, strict=True):
                    tile[a] = t
                # the values of one operand stay in registers, those of the others pass by
                kept = min(values_of(spec, o, (lane, tuple(tile))) for o in spec.operands)
                if v * prod(sizes) + kept + 1 <= spec.registers:
                    found.add((lane, tuple(tile)))
    return sorted(found)


def tile_cost(spec: TiledSpec, tile: Tile) -> float:
    """A guess at the cycles of one vector operation that is not wasted."""
    lane, sizes = tile
    vectors = -(-sizes[lane] // spec.lanes)
    tall = prod(t for a, t in enumerate(sizes) if a != lane)
    loads = sum(_loads(spec, k, tile) for k in range(len(spec.operands)))
    waste = 1.0
    for a, t in enumerate(sizes):
        waste *= -(-spec.data[a] // t) * t / spec.data[a]
    each = loads / (vectors * tall)
    turned = 0.1 if lane != spec.last else 0.0
    # vectors end where the axis does: one of 7 lanes is loaded in three pieces
    extent = spec.data[lane]
    pieces = 2.0 if sizes[lane] > extent and extent & (extent - 1) else 1.0
    return (max(1.0, each * pieces, 10 / (vectors * tall)) + each / 4 + turned) * pieces * waste


def values_of(spec: TiledSpec, operand: Operand, tile: Tile) -> int:
    """Vectors and scalars of an operand in one step of the reduction."""
    lane, sizes = tile
    count = 1
    for d in operand.dims:
        steps = prod(sizes[a] for a in d.axes if a < len(spec.data) and a != lane)
        # a quotient, as the group of a channel, mostly stays where it is
        count *= steps if d.affine else max(1, steps // 2)
    return count * -(-sizes[lane] // spec.lanes) if operand.depends(lane) else count


def _loads(spec: TiledSpec, k: int, tile: Tile) -> float:
    """Loads of an operand in one step, if it is copied where that helps."""
    lane, operand = tile[0], spec.operands[k]
    count = values_of(spec, operand, tile)
    if not operand.depends(lane):
        return count
    apart = [abs(c) for d in operand.dims for a, c in d.terms if a == lane and d.affine]
    step = apart[0] if len(apart) == 1 else 0
    if not spec.packable(k):
        step = operand.stride(lane) or 1  # one element for all lanes is one load, too
    return count * _pieces(step, spec.lanes)


def _pieces(step: int, lanes: int) -> int:
    """Loads and shuffles that make a vector of lanes ``step`` elements apart; below 1: unknown."""
    if step == 1:
        return 1
    # whole-vector loads, one fewer shuffles, the last load across two cache lines
    return min(2 * step, lanes) if 2 <= step <= _STRIDES else lanes
