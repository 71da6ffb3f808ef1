"""The rule for what is computed element by element: arithmetic, broadcasts, transposes, padding.

Elementwise: all loops are one, in vectors.     Broadcasts: rows, and vectors within a row.

    parallel f:                                     parallel i:
        C[f*8 + ramp(8)] = ...                          for j:
                                                            C[i, j*8 + ramp(8)] = ...

Transposes: blocks that the cache holds, both ways.

    parallel i, j:
        for v:
            C[i*32 + v, j*8 + ramp(8)] = A[j*8 + ramp(8), i*32 + v]
"""

from __future__ import annotations

from typing import Any

from whet.compiler.target import Target
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.tensor import Tensor
from whet.compiler.tir.expr import IterVar
from whet.search_spaces.define import DefineKnobs
from whet.search_spaces.derived.cost import EXPENSIVE
from whet.search_spaces.derived.graph import INJECTIVE, Group, Node
from whet.search_spaces.derived.loops import (
    around,
    contiguous,
    define_parallel,
    extent_of,
    fused,
    lanes_of,
    pin,
    vector_sizes,
    vectorized,
)

# Rows of this many loops keep all threads busy without cutting rows themselves.
_ROWS_A_THREAD = 4
_TILES = (4, 8, 16, 32, 64)
_LARGEST_TILE = 1024


class Injective:
    """Vectors along the contiguous axis; blocks where a read is contiguous along another one."""

    name = "injective"

    def applies(self, group: Group) -> bool:
        """Stages without a reduction that have a loop at all."""
        return group.role == INJECTIVE and not group.members and group.anchor.points > 1

    def rewrite(self, group: Group, cfg: DefineKnobs, target: Target) -> Tensor | None:
        """Nothing."""
        return None

    def schedule(self, s: Schedule, group: Group, cfg: DefineKnobs, target: Target) -> None:
        """Split, vectorise, share between threads; or put it into its readers."""
        node = group.anchor
        lanes = lanes_of(target, node.dtype)
        crossing = crossing_axis(node)
        if crossing is not None:
            _blocks(s, group, crossing, lanes, cfg, target)
        elif contiguous(node):
            _flat(s, group, lanes, cfg, target)
        else:
            _rows(s, group, lanes, cfg, target)


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


def _flat(s: Schedule, group: Group, lanes: int, cfg: DefineKnobs, target: Target) -> None:
    node, tensor = group.anchor, group.anchor.tensor
    sizes = vector_sizes(node.points, lanes)
    first = sizes[min(1, len(sizes) - 1)]
    cfg.define_knob(group.knob("vector"), sizes, default=first, quick=around(sizes, first))
    _define_unroll(group, node.points, sizes[-1], cfg)
    parallel = define_parallel(cfg, group, target)
    if _inlined(s, group, cfg, {"vector": sizes[0], "unroll": 1, "parallel": False}, target):
        return
    axis = fused(s, tensor, list(s[tensor].op.axis))
    assert axis is not None
    loops = _vectors(s, group, axis, cfg)
    if parallel and len(loops) > 1:
        s[tensor].parallel(loops[0])


def _rows(s: Schedule, group: Group, lanes: int, cfg: DefineKnobs, target: Target) -> None:
    node, tensor = group.anchor, group.anchor.tensor
    extent = node.extents[-1]
    sizes = vector_sizes(extent, lanes)
    first = 1 if _scattered(node) else sizes[min(1, len(sizes) - 1)]
    sizes = list(dict.fromkeys((1, *sizes)))
    cfg.define_knob(group.knob("vector"), sizes, default=first, quick=around(sizes, first))
    _define_unroll(group, extent, sizes[-1], cfg)
    parallel = define_parallel(cfg, group, target)
    if _inlined(s, group, cfg, {"vector": 1, "unroll": 1, "parallel": False}, target):
        return
    *outer, last = s[tensor].op.axis
    row = fused(s, tensor, outer)
    loops = _vectors(s, group, last, cfg)
    if not parallel:
        return
    few = node.points // extent < _ROWS_A_THREAD * target.num_threads
    if row is None or (few and len(loops) > 1):
        row = fused(s, tensor, [loops[0]] if row is None else [row, loops[0]])
        if row is last and len(loops) == 1 and cfg[group.knob("vector")].val > 1:
            return
    assert row is not None
    s[tensor].parallel(row)


def _blocks(
    s: Schedule, group: Group, crossing: int, lanes: int, cfg: DefineKnobs, target: Target
) -> None:
    tensor = group.anchor.tensor
    axes = list(s[tensor].op.axis)
    across, along = axes[crossing], axes[-1]
    tiles = [
        (a, b)
        for a in _fitting(extent_of(across))
        for b in _fitting(extent_of(along))
        if a * b <= _LARGEST_TILE
    ]
    # Few lines of a row each are read, and whole lines of them: caches are not fully associative.
    wanted = (tiles[-1][0], min(lanes, tiles[-1][1]))
    default = wanted if wanted in tiles else tiles[-1]
    quick = [t for t in tiles if t[1] in (default[1], default[1] // 2)]
    cfg.define_knob(group.knob("tile"), tiles, default=default, quick=quick)
    ways = ["store", "load", "none"]
    cfg.define_knob(group.knob("vector"), ways, default="store", quick=["none"])
    cfg.define_knob(group.knob("unroll"), [False, True], default=False)
    parallel = define_parallel(cfg, group, target)
    first = {"tile": tiles[0], "vector": "store", "unroll": False, "parallel": False}
    if _inlined(s, group, cfg, first, target):
        return
    a, b = cfg[group.knob("tile")].val
    stage = s[tensor]
    ao, ai = stage.split(across, factor=a)
    bo, bi = stage.split(along, factor=b)
    others = [x for x in axes if x is not across and x is not along]
    way = cfg[group.knob("vector")].val
    inner = (bi, ai) if way == "load" else (ai, bi)
    stage.reorder(*others, ao, bo, *inner)
    if way != "none" and (a if way == "load" else b) > 1:
        stage.vectorize(inner[1])
    if cfg[group.knob("unroll")].val and (b if way == "load" else a) <= 16:
        stage.unroll(inner[0])
    outer = fused(s, tensor, [*others, ao, bo])
    if parallel and outer is not None:
        stage.parallel(outer)


def _vectors(s: Schedule, group: Group, axis: IterVar, cfg: DefineKnobs) -> list[IterVar]:
    """An axis in vectors of the size and number that were chosen."""
    size, unroll = (cfg[group.knob(name)].val for name in ("vector", "unroll"))
    return vectorized(s, group.anchor.tensor, axis, size, unroll)


def _fitting(extent: int) -> list[int]:
    """Sizes of tiles of an axis."""
    return [t for t in _TILES if t <= extent] or [1 << (extent.bit_length() - 1)]


def _define_unroll(group: Group, extent: int, lanes: int, cfg: DefineKnobs) -> None:
    choices = [u for u in (1, 2, 4) if u == 1 or u * lanes <= extent]
    first = min(2, choices[-1])
    cfg.define_knob(group.knob("unroll"), choices, default=first, quick=[choices[-1]])


def _scattered(node: Node) -> bool:
    """Whether neighbours along the last axis read what nobody can say where it is."""
    last = node.op.axis[-1].var
    return any(access.stride(last) is None for access in node.reads)


def _inlined(
    s: Schedule, group: Group, cfg: DefineKnobs, first: dict[str, Any], target: Target
) -> bool:
    """Put the stage into its readers, where that is a choice and was chosen.

    ``first`` has the first choice of the other knobs, which have no effect then.
    """
    node = group.anchor
    if node.is_output or node.op.num_outputs > 1 or node.cost < EXPENSIVE or not node.inlinable:
        return False
    cfg.define_knob(group.knob("place"), ["root", "inline"], default="root")
    if target.num_threads < 2:
        del first["parallel"]
    pin(cfg, group, ("place", "inline"), first)
    if cfg[group.knob("place")].val == "root":
        return False
    s[node.tensor].compute_inline()
    return True
