"""The choices of a tiled reduction before anything was measured: the best of a small model.

The model counts cycles: vector operations of the tile, what runs between the caches, and what
copies cost. It starts from the tile of the best guess and changes one knob at a time while that
helps.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any

from whet.compiler.target import Target
from whet.search_spaces.rules.cpu.tiling.pack_layout import pack_layout
from whet.search_spaces.rules.cpu.tiling.plan import Plan, is_valid, knobs, pack_names, plan_of
from whet.search_spaces.rules.cpu.tiling.register_tiles import tile_cost
from whet.search_spaces.rules.cpu.tiling.spec import Operand, TiledSpec
from whet.search_spaces.rules.processors import is_intel_server

#: usable bytes of a cache, and the bytes that come out of the one behind it in a cycle
_CACHES = ((24_000, 32.0), (600_000, 12.0), (16_000_000, 5.0))
_CACHES_OF_INTEL_SERVERS = ((40_000, 40.0), (1_600_000, 8.0), (100_000_000, 4.0))
_PERIOD = 4096  # bytes after which the sets of the first cache begin anew
_TILES_TRIED = 16
_TILE_CYCLES = 12.0  # to start and to store a register tile
_STEP_CYCLES = 0.5  # of a loop
_FORK_CYCLES = 30_000.0  # until the threads of a target have begun and ended
_EXPOSED = 0.15  # the share of the caches' work that the core waits for
_MOST_WRITTEN_OUT = 1024  # vector operations in a loop's body

Loop = tuple[int, int, int]
"""An axis, the trips of its loop, and how far the axis moves in one."""


def caches_of(target: Target) -> tuple[tuple[float, float], ...]:
    """Usable bytes of each cache, and the bytes that come out of the one behind it in a cycle."""
    return _CACHES_OF_INTEL_SERVERS if is_intel_server(target) else _CACHES


@lru_cache(maxsize=256)
def default_choices(spec: TiledSpec) -> dict[str, Any]:
    """The choices of the default config."""
    choices = dict(_start(spec))
    best = cycles(spec, plan_of(spec, choices))
    for _ in range(3):
        before = best
        for change in _changes(spec):
            tried = {**choices, **change}
            if tried == choices or not is_valid(spec, tried):
                continue
            cost = cycles(spec, plan_of(spec, tried))
            if cost < best * 0.995:
                best, choices = cost, tried
        if best == before:
            break
    return choices


def _changes(spec: TiledSpec) -> Iterator[dict[str, Any]]:
    """One knob's choices after the other; blocks also with copies for each, and with threads."""
    for name, values in knobs(spec):
        for value in values[:_TILES_TRIED] if name == "tile" else values:
            yield {name: value}
    blocks = [(name, values) for name, values in knobs(spec) if name.startswith("blocks_")]
    if spec.threads > 1:
        yield from ({"parallel": True, name: value} for name, some in blocks for value in some[1:])
    for _, pack in pack_names(spec):
        for name, values in blocks:
            for value in values[1:]:
                yield {pack: "block", name: value}


def _start(spec: TiledSpec) -> dict[str, Any]:
    """Valid choices: the best tile, everything whole, copies where lanes need them."""
    choices = {name: values[0] for name, values in knobs(spec)}
    for index, name in pack_names(spec):
        for how in ("none", "whole"):
            choices[name] = how
            if is_valid(spec, choices) and not (how == "none" and spec.operands[index].produced):
                break
    return choices


def cycles(spec: TiledSpec, plan: Plan) -> float:
    """A guess at the cycles that a plan takes on one core."""
    covered = plan.covered(spec)
    parts_of_k = -(-spec.extents[plan.long] // plan.steps) if plan.long >= 0 else 1
    loops = _loops(spec, plan, covered, parts_of_k)
    outer = loops[: len(plan.outer_loops(spec)) + (plan.long >= 0)]
    vectors = -(-plan.tile[plan.lane] // spec.lanes)
    accumulators = vectors * prod(t for a, t in enumerate(plan.tile) if a != plan.lane)
    operations = prod(covered) / prod(plan.tile) * accumulators
    written = prod(u for _, u in plan.unroll)
    steps = operations / accumulators
    cost = _tile_cost(spec, plan, vectors, accumulators)
    total = operations * cost / 2 + steps / written * _STEP_CYCLES
    if accumulators * written > _MOST_WRITTEN_OUT:
        total *= 1.5
    if plan.long >= 0 and any(n % t for n, t in zip(spec.data, plan.tile, strict=True)):
        total *= 1.5  # guards stand inside the loops
    tiles = prod(covered[: len(spec.data)]) / prod(plan.tile) * parts_of_k
    total += tiles * (_TILE_CYCLES + 2 * accumulators)
    moved = _moved(spec, plan, covered, loops, parts_of_k)
    # the caches work ahead while the core computes, if never for nothing
    total = max(total, *moved) + _EXPOSED * (sum(moved) + min(total, max(moved)))
    blocks, whole = _copies(spec, plan, covered, outer)
    total += blocks
    if plan.parallel:
        trips = prod(n for a, n, _ in outer if a != plan.long)
        total = total * -(-trips // spec.threads) / trips + _FORK_CYCLES
    return total + whole


def _tile_cost(spec: TiledSpec, plan: Plan, vectors: int, accumulators: int) -> float:
    """Cycles of a vector operation, counted for two a cycle; what is not copied may cost more.

    Args:
        vectors: along the lanes of the tile. accumulators: of the tile.
    """
    cost = _base_cost(spec, plan.lane, plan.tile)
    for o, how in zip(spec.operands, plan.packs, strict=True):
        if how != "none":
            continue
        if o.costly:
            cost += 4.0 * spec.lanes
        elif o.depends(plan.lane):
            loads = vectors * prod(
                t for a, t in enumerate(plan.tile) if a != plan.lane and o.depends(a)
            )
            # the lanes of a ragged tile are clamped one by one, in the whole loop
            ragged = spec.data[plan.lane] % plan.tile[plan.lane] != 0
            if ragged or o.stride(plan.lane) not in (0, 1):
                cost += spec.lanes * loads / accumulators
    return cost


@lru_cache(maxsize=1024)
def _base_cost(spec: TiledSpec, lane: int, tile: tuple[int, ...]) -> float:
    waste = 1.0
    for n, t in zip(spec.data, tile, strict=True):
        waste *= -(-n // t) * t / n
    return tile_cost(spec, (lane, tile)) / waste


def _loops(spec: TiledSpec, plan: Plan, covered: tuple[int, ...], parts_of_k: int) -> list[Loop]:
    """The loops outside a tile, outermost first."""
    out: list[Loop] = []
    for a in plan.outer:
        size = plan.blocks[a] * plan.tile[a]
        out.append((a, covered[a] // size, size))
    if plan.long >= 0:
        out.append((plan.long, parts_of_k, plan.steps))
    out += [(a, plan.blocks[a], plan.tile[a]) for a in plan.inner]
    for r in plan.reduce:
        out.append((r, plan.steps if r == plan.long else spec.extents[r], 1))
    return [loop for loop in out if loop[1] > 1]


def _moved(
    spec: TiledSpec, plan: Plan, covered: tuple[int, ...], loops: list[Loop], parts_of_k: int
) -> list[float]:
    """Cycles that the operands take from behind each cache."""
    boxes = [covered]
    for a, _, size in loops:
        inside = list(boxes[-1])
        inside[a] = min(inside[a], size)
        boxes.append(tuple(inside))
    result = [spec.itemsize * prod(box[: len(spec.data)]) for box in boxes]
    out = []
    for number, (capacity, rate) in enumerate(spec.caches):
        sizes = [
            [
                _bytes(o, plan.packs[k], box, number == 0, len(spec.data))
                for k, o in enumerate(spec.operands)
            ]
            for box in boxes
        ]
        level = next(
            (k for k in range(len(boxes)) if sum(sizes[k]) + result[k] <= capacity),
            len(boxes) - 1,
        )
        total = result[0] * parts_of_k / rate if level else 0.0
        for k, o in enumerate(spec.operands):
            far = _far(spec, plan, k) if level else 1.0
            total += far * sizes[level][k] * _times(o, loops[:level]) / rate
        out.append(total)
    return out


def _times(o: Operand, loops: list[Loop]) -> int:
    """How often loops bring an operand in: one that it stays in place for does not, if inside."""
    trips, stays = 1, True
    for a, count, _ in reversed(loops):
        stays = stays and not o.depends(a)
        trips *= 1 if stays else count
    return trips


def _bytes(o: Operand, how: str, box: tuple[int, ...], first: bool, data: int) -> float:
    """Bytes that an operand takes in a box: of the first cache, or of one behind it."""
    spans = [d.span(box) for d in o.dims]
    size = float(prod(spans)) * o.itemsize
    if how != "none" or not spans or spans[-1] == o.dims[-1].extent:
        return size
    if any(a >= data for a in o.dims[-1].axes):
        return size  # the loops of the reduction walk along the rows
    stride = min(o.dims[-1].extent * o.itemsize, _PERIOD)
    lines = -(-spans[-1] * o.itemsize // 64)
    size = float(prod(spans[:-1])) * lines * 64
    # rows a power of two apart fall on the same sets
    conflict = first and prod(spans[:-1]) > 8 and _PERIOD % stride == 0
    return size * max(1.0, stride / (64 * lines)) if conflict else size


def _far(spec: TiledSpec, plan: Plan, k: int) -> float:
    """How much slower an operand comes that is walked through in steps of a page."""
    o = spec.operands[k]
    moving = [r for r in plan.reduce if spec.extents[r] > 1 and o.depends(r)]
    if plan.packs[k] != "none" or not moving:
        return 1.0
    step = abs(o.stride(moving[-1])) * o.itemsize
    if step and step % _PERIOD == 0:
        return 6.0  # on one set after the other, and on a page of its own
    return 2.0 if step >= _PERIOD // 4 else 1.0


def _copies(
    spec: TiledSpec, plan: Plan, covered: tuple[int, ...], outer: list[Loop]
) -> tuple[float, float]:
    """Cycles that copies take to be made: those of blocks, and whole ones.

    Args:
        outer: the loops over blocks.
    """
    total = {"block": 0.0, "whole": 0.0}
    for k, (o, how) in enumerate(zip(spec.operands, plan.packs, strict=True)):
        if how == "none":
            continue
        layout = pack_layout(spec, k, plan.lane, plan.tile, plan.reduce)
        size = prod(d.span(covered) for d in o.dims)
        in_order = layout.parts[-1].dim == len(o.dims) - 1
        each = 1.5 / spec.lanes if in_order else 1.2
        again = 1
        if how == "block":
            inside = [n for n, (a, _, _) in enumerate(outer) if o.depends(a)]
            again = prod(
                c for a, c, _ in outer[: inside[-1] + 1 if inside else 0] if not o.depends(a)
            )
        bytes_moved = size * o.itemsize
        (_, _), (second, near), (_, far) = spec.caches
        leaves = bytes_moved / far if how == "whole" and bytes_moved > second else 0.0
        total[how] += size * each * again + leaves + bytes_moved / near
    return total["block"], total["whole"]
