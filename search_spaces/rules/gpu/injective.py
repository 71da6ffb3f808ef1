"""The rule for what is computed element by element on a GPU: arithmetic, broadcasts, transposes.

In order: each thread computes some vectors that stand a block apart.

    bind b, t:
        for u in unrolled(2):
            C[b*2048 + u*1024 + t*4 + ramp(4)] = A[...] + B[...]

Across: a tile is read in the order in which it lies in memory, and written in the result's.

    bind b:
        bind y, t:  S[y, t] = A[...]                    in shared memory
        bind y, t:  C[..., t] = S[t, y]
"""

from __future__ import annotations

from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import Cast
from whet.compiler.tir.visit.rewrite import nodes
from whet.search_spaces.graph.access import Access
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import INJECTIVE, Group, Node
from whet.search_spaces.rules.cpu.transposes import crossing_axis
from whet.search_spaces.rules.gpu.hardware.lanes import lanes_of
from whet.search_spaces.rules.gpu.hardware.threads import (
    Block,
    bind,
    bind_blocks,
    bind_fused,
    cooperative_load,
    split_lanes,
)

_THREADS = (64, 128, 256, 512, 1024)
_VECTORS = (1, 2, 4, 8)
_TILES = (16, 32, 64)


class GpuInjective(Rule):
    """Vectors of 16 bytes, neighbours by neighbouring threads; tiles where a read crosses."""

    def applies(self, group: Group) -> bool:
        """Stages without a reduction that have a loop at all."""
        return group.role == INJECTIVE and not group.members

    def schedule(self, s: Schedule, group: Group) -> None:
        """Bind all loops."""
        crossing = crossing_axis(group.anchor)
        read = None if crossing is None else _crossing_read(group.anchor, crossing)
        if crossing is None or read is None:
            _in_order(s, group)
        else:
            _tiled(s, group, crossing, read)


def _in_order(s: Schedule, group: Group) -> None:
    node, stage = group.anchor, s[group.anchor.tensor]
    extent = node.extents[-1] if node.extents else 1
    # what is computed in float32 is converted four at a time
    most = lanes_of("float32" if _converts(node) else node.dtype, extent)
    vectors = [v for v in _VECTORS if v <= most]
    vector = group.choose("vector", vectors, vectors[-1])
    threads = group.choose("threads", _THREADS, 256)
    steps = group.choose("unroll", (1, 2, 4), 2 if node.points >= 1 << 22 else 1)
    if not stage.op.axis:
        bind_fused(stage)
        return
    *outer, last = stage.op.axis
    last, lanes = split_lanes(stage, last, vector)
    whole = stage.fuse(*outer, last)
    block, rest = stage.split(whole, factor=threads * steps)
    step, thread = stage.split(rest, factor=threads)
    bind(stage, block=block, x=thread)
    stage.unroll(step)
    for lane in lanes:
        stage.vectorize(lane)


def _converts(node: Node) -> bool:
    """True if an element is computed in another type than it is stored in."""
    waiting, seen = [node.op], set()
    while waiting:
        op = waiting.pop()
        if op in seen or not isinstance(op, ComputeOp):
            continue
        seen.add(op)
        if any(isinstance(n, Cast) and dt.is_float(n.dtype) for n in nodes(op.body)):
            return True
        waiting.extend(t.op for t in op.input_tensors)
    return False


def _crossing_read(node: Node, crossing: int) -> Access | None:
    """The one read that is contiguous along ``crossing``, if a tile of it is a box."""
    along, across = node.op.axis[-1].var, node.op.axis[crossing].var
    found = [a for a in node.reads if a.is_affine and a.stride(across) == 1]
    if len(found) != 1 or node.is_guarded:
        return None
    reads = [a for a in node.reads if a.tensor == found[0].tensor]
    plain = all(i is not None and len(i.terms) <= 1 for i in found[0].indices)
    return found[0] if plain and len(reads) == 1 and found[0].stride(along) else None


def _tiled(s: Schedule, group: Group, crossing: int, read: Access) -> None:
    """A tile is read as it lies in memory, and written as the result does."""
    node, tensor = group.anchor, group.anchor.tensor
    sizes = [
        (a, b)
        for a in _TILES
        for b in _TILES
        if (a < 2 * node.extents[crossing] or a == _TILES[0])
        and (b < 2 * node.extents[-1] or b == _TILES[0])
    ]
    a, b = group.choose("tile", sizes, sizes[-1])
    threads = group.choose("threads", (128, 256, 512), 256)
    shared = s.cache_read(read.tensor, "shared", [tensor])
    stage = s[tensor]
    across, along = stage.op.axis[crossing], stage.op.axis[-1]
    others = [x for x in stage.op.axis if x is not across and x is not along]
    ao, ai = stage.split(across, factor=a)
    bo, bi = stage.split(along, factor=b)
    stage.reorder(*others, ao, bo, ai, bi)
    counts = [-(-node.extents[crossing] // a), -(-node.extents[-1] // b)]
    blocks = list(zip((ao, bo), counts, strict=True))
    if others:
        front = stage.fuse(*others)
        many = node.points // (node.extents[crossing] * node.extents[-1])
        blocks.insert(0, (front, many))
    bind_blocks(stage, blocks)
    # the loop of blocks that the tile is read in is the innermost one that is left of them
    outer = stage.leaf_iter_vars[stage.leaf_iter_vars.index(ai) - 1]
    block = Block(b, max(threads // b, 1))
    step, row = stage.split(ai, factor=block.y)
    bind(stage, y=row, x=bi)
    stage.unroll(step)
    s[shared].compute_at(stage, outer)
    _read_tile(s, shared, read, node, crossing, (a, b), block)


def _read_tile(
    s: Schedule,
    shared: Tensor,
    read: Access,
    node: Node,
    crossing: int,
    tile: tuple[int, int],
    block: Block,
) -> None:
    """The threads of a block copy a tile: neighbours along the axis that lies side by side."""
    stage, axes = s[shared], node.op.axis
    of = {v: k for k, index in enumerate(read.indices) if index is not None for v in index.atoms}
    inner, outer = (stage.op.axis[of[axes[k].var]] for k in (crossing, len(axes) - 1))
    rest = [x for x in stage.op.axis if x is not inner and x is not outer]
    stage.reorder(*rest, outer, inner)
    # one element more a row: a column's elements are in different banks
    stage.storage_align(outer, 32, 1)
    step, _ = cooperative_load(stage, (outer, inner), (tile[1], tile[0]), block)
    stage.unroll(step)
