"""The knobs of a tiled reduction, their constraints, and the plan that a choice of them makes.

for blocks of the data axes:                # "blocks_<axis>" of them, in the order "outer"
    for ko:                                 # "blocks_<k>" of the longest reduction axis
        for register tiles of the block:    # in the order "inner"
            for the reduction axes:         # in the order "reduce", unrolled by "unroll"
                for the tile's rows, unrolled:
                    for its lanes, vectorised:  # "tile": which axis has the lanes, and sizes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import Any

from whet.compiler.tir.tracing.traced import least
from whet.search_spaces.rules.cpu.tiling.pack_layout import pack_layout
from whet.search_spaces.rules.cpu.tiling.register_tiles import lane_axes, register_tiles
from whet.search_spaces.rules.cpu.tiling.spec import TiledSpec

Choices = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Constraint:
    """A condition on choices, as ``multi_filter`` takes it.

    Attributes:
        text: what it says, for people.
        admits: from choices to whether they meet it; reads few knobs, so that it is cheap to
            tabulate.
        prefix: of the knobs' names in the view.
    """

    text: str
    admits: Callable[[Choices], bool]
    prefix: str = ""

    def __call__(self, view: Any) -> bool:
        return self.admits(_Values(view, self.prefix))

    def __repr__(self) -> str:
        return self.prefix + self.text


class _Values(dict):
    """The values behind a view of entities, by the names of a group's knobs."""

    def __init__(self, view: Any, prefix: str) -> None:
        super().__init__()
        self.view = view
        self.prefix = prefix

    def __missing__(self, name: str) -> Any:
        return self.view[self.prefix + name].val


#: axes that have a knob for their blocks
_MOST_BLOCKED = 3
_MOST_COPIED = 3  # operands that have a knob for a copy
_SMALL = 7  # a reduction axis up to this extent is a window
_SHORTEST_BLOCK = 64  # steps of a blocked reduction axis


@dataclass(frozen=True)
class Plan:
    """The schedule of a reduction in numbers.

    Attributes:
        lane: the vectorised data axis.
        tile: sizes of the register tile, one for each data axis.
        blocks: register tiles in a block, one for each data axis.
        outer: data axes in the order of the loops over blocks; inner: over the tiles of a block.
        reduce: reduction axes in the order of their loops, numbered behind the data axes.
        long: the reduction axis that is cut into blocks, -1 for none; steps: of one block.
        unroll: the unroll factor of each reduction axis, as ``(axis, steps)``.
        packs: for each operand ``"none"``, ``"block"`` or ``"whole"``.
        parallel: whether the loops over blocks run on the threads of the target.
    """

    lane: int
    tile: tuple[int, ...]
    blocks: tuple[int, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    reduce: tuple[int, ...]
    long: int
    steps: int
    unroll: tuple[tuple[int, int], ...]
    packs: tuple[str, ...]
    parallel: bool

    def covered(self, spec: TiledSpec) -> tuple[int, ...]:
        """How far the loops go on each axis: the extents, rounded up to whole blocks."""
        out = []
        for a, n in enumerate(spec.data):
            size = self.blocks[a] * self.tile[a]
            out.append(-(-n // size) * size)
        return (*out, *spec.reduce)

    def outer_loops(self, spec: TiledSpec) -> tuple[int, ...]:
        """The data axes that have more than one block, in the order of their loops."""
        return tuple(a for a in self.outer if self.blocks[a] * self.tile[a] < spec.data[a])


@lru_cache(maxsize=256)
def blocked_axes(spec: TiledSpec) -> tuple[int, ...]:
    """The data axes with a knob for their blocks, in the order of the axes."""
    lanes = lane_axes(spec)
    rest = [a for a in reversed(spec.reuse) if a not in lanes]
    return tuple(sorted([*lanes, *rest][:_MOST_BLOCKED]))


@lru_cache(maxsize=256)
def long_axis(spec: TiledSpec) -> int:
    """The reduction axis that may be cut into blocks; -1 where all are short."""
    data = len(spec.data)
    longest = max(range(len(spec.reduce)), key=lambda k: spec.reduce[k])
    return data + longest if spec.reduce[longest] >= 2 * _SHORTEST_BLOCK else -1


@lru_cache(maxsize=256)
def knobs(spec: TiledSpec) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Each knob's name and its choices."""
    names = spec.names
    tiles = register_tiles(spec)
    shown = _tile_axes(spec)
    out: dict[str, tuple[Any, ...]] = {
        "tile": tuple((names[lane], *(sizes[a] for a in shown)) for lane, sizes in tiles)
    }
    blocked = blocked_axes(spec)
    for a in blocked:
        smallest = min(sizes[a] for _, sizes in tiles)
        out[f"blocks_{names[a]}"] = _parts(-(-spec.data[a] // smallest))
    if len(blocked) > 1:
        out["outer"] = out["inner"] = tuple(permutations(names[a] for a in blocked))
    k = long_axis(spec)
    if k >= 0:
        parts = tuple(p for p in (1, 2, 4, 8, 16, 32) if spec.extents[k] // p >= _SHORTEST_BLOCK)
        out[f"blocks_{names[k]}"] = parts
    steps = _reduce_orders(spec)
    if len(steps) > 1:
        out["reduce"] = tuple(tuple(names[r] for r in order) for order in steps)
    out["unroll"] = _unrolls(spec)
    for _, name in pack_names(spec):
        out[name] = ("none", "block", "whole")
    if spec.threads > 1:
        out["parallel"] = (False, True)
    return tuple(out.items())


@lru_cache(maxsize=256)
def pack_names(spec: TiledSpec) -> tuple[tuple[int, str], ...]:
    """The operands that may be copied, and the name of each one's knob."""
    out: list[tuple[int, str]] = []
    found = [k for k in range(len(spec.operands)) if spec.packable(k)]
    kept = sorted(found, key=lambda k: not spec.operands[k].costly)[:_MOST_COPIED]
    for k in sorted(kept):
        o = spec.operands[k]
        name = f"pack_{o.name}"
        taken = sum(n == name or n.startswith(name + "#") for _, n in out)
        out.append((k, f"{name}#{taken + 1}" if taken else name))
    return tuple(out)


def plan_of(spec: TiledSpec, choices: Choices) -> Plan:
    """The plan that choices make."""
    names = spec.names
    lane, tile = _tile(spec, choices["tile"])
    blocked = blocked_axes(spec)
    counts = [-(-n // t) for n, t in zip(spec.data, tile, strict=True)]
    blocks = [
        -(-n // choices[f"blocks_{names[a]}"]) if a in blocked else 1 for a, n in enumerate(counts)
    ]
    plain = [a for a in range(len(counts)) if a not in blocked]
    by_name = {n: a for a, n in enumerate(names)}
    given = [names[a] for a in blocked]
    outer, inner = ([by_name[n] for n in choices.get(k, given)] for k in ("outer", "inner"))
    order = _reduce_orders(spec)[0]
    if "reduce" in choices:
        order = tuple(by_name[n] for n in choices["reduce"])
    k = long_axis(spec)
    parts = choices[f"blocks_{names[k]}"] if k >= 0 else 1
    steps = _steps(spec, k, parts)
    packs = ["none"] * len(spec.operands)
    for index, name in pack_names(spec):
        packs[index] = choices[name]
    return Plan(
        lane=lane,
        tile=tile,
        blocks=tuple(blocks),
        outer=(*plain, *outer),
        inner=(*plain, *inner),
        reduce=order,
        long=k if parts > 1 else -1,
        steps=steps if parts > 1 else 0,
        unroll=_unrolled(spec, order, k if parts > 1 else -1, steps, choices["unroll"]),
        packs=tuple(packs),
        parallel=bool(choices.get("parallel", False)),
    )


def constraints(spec: TiledSpec) -> list[Constraint]:
    """The conditions on choices, so that no two of them are one program if it can be helped."""
    names = spec.names
    blocked = blocked_axes(spec)
    out: list[Constraint] = [_distinct_blocks(spec, a) for a in blocked]
    if len(blocked) > 1:
        out.append(_first_order(spec, blocked))
    out.append(_distinct_unroll(spec))
    out += [_useful_pack(spec, k, name) for k, name in pack_names(spec)]
    out += [_placed_pack(spec, k, name) for k, name in pack_names(spec)]
    if spec.threads > 1:
        counts = [f"blocks_{names[a]}" for a in blocked]
        plain = prod(n for a, n in enumerate(spec.data) if a not in blocked) > 1
        out.append(
            Constraint(
                "parallel needs blocks",
                lambda v: not v["parallel"] or plain or any([v[name] > 1 for name in counts]),
            )
        )
    return out


def is_valid(spec: TiledSpec, choices: Choices) -> bool:
    """True if choices meet every constraint."""
    return all(c.admits(choices) for c in constraints(spec))


# -- the constraints


def _distinct_blocks(spec: TiledSpec, axis: int) -> Constraint:
    """No two counts of blocks that make blocks of one size."""
    name = f"blocks_{spec.names[axis]}"
    every = dict(knobs(spec))[name]

    def distinct(v: Choices) -> bool:
        parts, (_, tile) = v[name], _tile(spec, v["tile"])
        count = -(-spec.data[axis] // tile[axis])
        size = -(-count // parts)
        return not any(p < parts and -(-count // p) == size for p in every)

    return Constraint(f"{name} makes blocks of another size than fewer would", distinct)


def _first_order(spec: TiledSpec, blocked: tuple[int, ...]) -> Constraint:
    """An axis of one block has no loop: of the orders that are alike the first is taken."""
    orders = list(permutations(spec.names[a] for a in blocked))
    labels = [(spec.names[a], f"blocks_{spec.names[a]}") for a in blocked]

    def first(v: Choices) -> bool:
        many = {n for n, label in labels if v[label] > 1}
        wanted = [n for n in v["outer"] if n in many]
        return next(o for o in orders if [n for n in o if n in many] == wanted) == v["outer"]

    return Constraint("outer is the first of the orders that are alike", first)


def _distinct_unroll(spec: TiledSpec) -> Constraint:
    k = long_axis(spec)
    orders, every = _reduce_orders(spec), _unrolls(spec)
    by_name = {n: a for a, n in enumerate(spec.names)}

    def distinct(v: Choices) -> bool:
        order = tuple(by_name[n] for n in v["reduce"]) if len(orders) > 1 else orders[0]
        parts = v[f"blocks_{spec.names[k]}"] if k >= 0 else 1
        cut, steps = (k if parts > 1 else -1), _steps(spec, k, parts)
        made = _unrolled(spec, order, cut, steps, v["unroll"])
        return not any(
            u < v["unroll"] and _unrolled(spec, order, cut, steps, u) == made for u in every
        )

    return Constraint("unroll writes out more steps than fewer would", distinct)


def _useful_pack(spec: TiledSpec, operand: int, name: str) -> Constraint:
    """A copy must differ from the original; lanes that a load cannot read need one."""
    o = spec.operands[operand]
    unit = {lane: o.stride(lane) in (0, 1) for lane in lane_axes(spec)}

    def useful(v: Choices) -> bool:
        lane, tile = _tile(spec, v["tile"])
        order = tuple(range(len(spec.data), len(spec.extents)))
        layout = pack_layout(spec, operand, lane, tile, order)
        if v[name] == "none":
            return unit[lane] or not layout.unit_lanes
        return o.produced or layout.changed

    return Constraint(f"{name} changes how lanes are read", useful)


def _placed_pack(spec: TiledSpec, operand: int, name: str) -> Constraint:
    """A copy for each block needs blocks of what it depends on."""
    o = spec.operands[operand]
    blocked = blocked_axes(spec)
    plain = [a for a in range(len(spec.data)) if a not in blocked and spec.data[a] > 1]
    always = any(o.depends(a) for a in plain)
    labels = [f"blocks_{spec.names[a]}" for a in blocked if o.depends(a)]
    k = long_axis(spec)
    if k >= 0 and o.depends(k):
        labels.append(f"blocks_{spec.names[k]}")

    def placed(v: Choices) -> bool:
        return v[name] != "block" or always or any([v[label] > 1 for label in labels])

    return Constraint(f"{name}=block needs blocks of what it reads", placed)


# -- the choices


@lru_cache(maxsize=256)
def _tile_axes(spec: TiledSpec) -> tuple[int, ...]:
    """The data axes that some tile is above 1 in."""
    tiles = register_tiles(spec)
    return tuple(a for a in range(len(spec.data)) if any(sizes[a] > 1 for _, sizes in tiles))


def _tile(spec: TiledSpec, choice: tuple[Any, ...]) -> tuple[int, tuple[int, ...]]:
    sizes = [1] * len(spec.data)
    for a, t in zip(_tile_axes(spec), choice[1:], strict=True):
        sizes[a] = t
    return spec.names.index(choice[0]), tuple(sizes)


def _parts(tiles: int) -> tuple[int, ...]:
    """How many blocks an axis may be cut into."""
    out = [1]
    while out[-1] < tiles and len(out) < 12:
        out.append(out[-1] * 2)
    return tuple(out)


def _steps(spec: TiledSpec, axis: int, parts: int) -> int:
    """Steps of a block of the long axis, a multiple of 8 where that divides it as well."""
    if axis < 0:
        return 0
    steps = -(-spec.extents[axis] // parts)
    return least(-(-steps // 8) * 8, spec.extents[axis])


@lru_cache(maxsize=256)
def _reduce_orders(spec: TiledSpec) -> tuple[tuple[int, ...], ...]:
    data = len(spec.data)
    order = range(data, data + len(spec.reduce))
    one = [r for r in order if spec.extents[r] == 1]
    small = [r for r in order if 1 < spec.extents[r] <= _SMALL]
    large = [r for r in order if spec.extents[r] > _SMALL]
    return tuple(dict.fromkeys([(*one, *large, *small), (*one, *small, *large)]))


@lru_cache(maxsize=256)
def _unrolls(spec: TiledSpec) -> tuple[int, ...]:
    """The unroll factors of the reduction, all axes multiplied."""
    found = {1, 2, 4, 8}
    for order in _reduce_orders(spec):
        steps = 1
        for r in reversed(order):
            steps *= spec.extents[r]
            if steps > 32 or spec.extents[r] > _SMALL:
                break
            found.add(steps)
    total = prod(spec.reduce)
    made: dict[tuple[Any, ...], int] = {}
    for u in sorted(u for u in found if u <= total):
        key = tuple(_unrolled(spec, order, -1, 0, u) for order in _reduce_orders(spec))
        made.setdefault(key, u)
    return tuple(made.values())


def _unrolled(
    spec: TiledSpec, order: tuple[int, ...], long: int, steps: int, unroll: int
) -> tuple[tuple[int, int], ...]:
    """How ``unroll`` steps are shared out, from the innermost axis outwards."""
    out: list[tuple[int, int]] = []
    left = unroll
    for r in reversed(order):
        ragged = r == long and spec.extents[r] % steps != 0
        extent = steps if r == long else spec.extents[r]
        if extent <= left and not ragged:
            out.append((r, extent))
            left //= extent
            continue
        if 8 % left == 0 and extent % left == 0:
            part = left
        else:
            part = next((u for u in (8, 4, 2) if u <= left and extent % u == 0), 1)
        if part > 1 and not ragged:
            out.append((r, part))
        break
    return tuple((r, u) for r, u in out if u > 1)
