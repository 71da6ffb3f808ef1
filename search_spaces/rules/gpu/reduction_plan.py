"""The plan of one reduction on a GPU: its knobs, and their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.search_spaces.graph.stages import Group, Node
from whet.search_spaces.rules.cpu.sums import ACROSS, ALONG, Way
from whet.search_spaces.rules.gpu.hardware.device import processors
from whet.search_spaces.rules.gpu.hardware.lanes import lanes_of

SHARES = (2, 4, 8, 16, 32)
"""Rows of threads that share reductions of columns."""
WIDTH = 32
"""Threads side by side that read neighbours: a warp."""

# Steps of a reduction that are worth sharing among threads: of rows in one warp, and of others.
_SHORT, _LONG = 8, 32
_NARROW, _THREADS = (4, 8, 16), (32, 64, 128, 256, 512)
_ROWS = (1, 2, 4, 8, 16, 32)
_VECTORS = (1, 2, 4, 8)
_UNROLLED = (1, 2, 4, 8)
_PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Elements that a thread should reduce: enough loads at once to wait for memory only once.
_OWN = 32
# Bytes that the memory moves while a second kernel starts: 2.5 us at 2 to 5 TB/s.
_START = 8 << 20
# The share of all multiprocessors that takes what the memory gives.
_ENOUGH = 2 / 3


@dataclass(frozen=True)
class Plan:
    """The choices of a config.

    Attributes:
        threads: that share a reduction (along), or neighbours of a block (across, alone).
        rows: elements of a block (along), or threads that share a reduction (across: 2 at least).
        vector: elements that a thread reads at once, of one reduction or (across) each of another.
        parts: of the reduction that different blocks reduce.
        unroll: reads that are unrolled.
    """

    threads: int
    rows: int = 1
    vector: int = 1
    parts: int = 1
    unroll: int = 1


def plan_of(group: Group, way: Way) -> Plan:
    """Define the knobs of a reduction, and read what the config says.

    Args:
        group: with the reduction as its anchor.
        way: how its memory is read in order.
    """
    if not is_shared(group.anchor, way):
        return Plan(group.choose("threads", (64, 128, 256), 128))
    plan = (_along if way.kind == ALONG else _across)(group, way, processors(group.target))
    group.cfg.multi_filter(_AtMost(group.knob("rows"), group.knob("threads")))
    return plan


def is_shared(node: Node, way: Way) -> bool:
    """True if threads share a reduction: a short one of rows, too, where a warp has several rows.

    Args:
        node: the reduction.
        way: how its memory is read in order.
    """
    steps = prod(node.reduce_extents)
    if way.kind == ALONG and _is_narrow(node):
        return steps >= _SHORT
    return way.kind in (ALONG, ACROSS) and steps >= _LONG


def _is_narrow(node: Node) -> bool:
    """True if warps may have several rows: all of them have as many."""
    return node.points % _ROWS[-1] == 0


def threads_for(threads: Sequence[int], length: int, vector: int, own: int) -> int:
    """Threads of a row of a length: so many that none has more than ``own`` elements of it.

    Two loads a thread of short rows: neighbours read neighbours, and exchange few sums.
    """
    some = min(WIDTH, length // (2 * vector))
    least = max(t for t in threads if t == threads[0] or t <= some)
    return next((t for t in threads if t >= least and t * own >= length), threads[-1])


def _along(group: Group, way: Way, multiprocessors: int) -> Plan:
    node = group.anchor
    dtype = next((a.tensor.dtype for a in node.reads), node.dtype)
    most = min(_VECTORS[-1], lanes_of(dtype, node.reduce_extents[way.axes[-1]]))
    parts = _parts(node, node.reduce_extents[0])
    part = min(parts, key=lambda p: _moved(node, p, p * node.points, multiprocessors))
    own = -(-prod(node.reduce_extents) // part)
    every = (*_NARROW, *_THREADS) if _is_narrow(node) else _THREADS
    threads = [t for t in every if t == every[0] or t < 2 * own // most]
    best = threads_for(threads, own, most, _OWN)
    each = [r for r in _ROWS if node.points % r == 0]
    return Plan(
        parts=group.choose("parts", parts, part),
        threads=group.choose("threads", threads, best),
        rows=group.choose("rows", each, max(r for r in each if r == 1 or r * best <= 128)),
        vector=group.choose("vector", [v for v in _VECTORS if v <= most], most),
        unroll=group.choose("unroll", _UNROLLED, 4),
    )


def _across(group: Group, way: Way, multiprocessors: int) -> Plan:
    node = group.anchor
    vectors = _neighbours(node, way)
    parts = _parts(node, prod(node.reduce_extents))
    part, vector, rows = _wanted(node, way, parts, vectors, multiprocessors)
    return Plan(
        parts=group.choose("parts", parts, part),
        vector=group.choose("vector", vectors, vector),
        threads=group.choose("threads", (WIDTH, 64, 128), WIDTH),
        rows=group.choose("rows", SHARES, rows),
        unroll=group.choose("unroll", _UNROLLED, 8 if vector == 1 else 4),
    )


def _neighbours(node: Node, way: Way) -> list[int]:
    """The vector lengths of a thread: one load at most, and work for all threads of a warp."""
    axis = way.axes[0]
    reads = [a for a in node.reads if a.stride(node.op.axis[axis].var) == 1]
    if not reads:
        return [1]
    read = max(reads, key=lambda a: a.size).tensor
    extent = node.extents[axis]
    most = min(lanes_of(kind, extent, int(read.shape[-1])) for kind in (read.dtype, node.dtype))
    return [v for v in _VECTORS if v == 1 or (v <= most and v * WIDTH < 2 * extent)]


def _wanted(
    node: Node, way: Way, parts: Sequence[int], vectors: Sequence[int], multiprocessors: int
) -> tuple[int, int, int]:
    """The parts of a reduction of columns, a thread's neighbours, and the threads that share them.

    Blocks are as large as fills the multiprocessors.
    """
    extent, steps = node.extents[way.axes[0]], prod(node.reduce_extents)

    def blocks(part: int, vector: int) -> int:
        return part * (node.points // extent) * -(-extent // (vector * WIDTH))

    part, vector = min(
        ((p, v) for p in parts for v in reversed(vectors)),
        key=lambda c: _moved(node, c[0], blocks(*c), multiprocessors),
    )
    room = 2 * multiprocessors * SHARES[-1] // blocks(part, vector)
    most = min(steps // part // 4, max(room, 8))
    return part, vector, max(r for r in SHARES if r == SHARES[0] or r <= most)


def _moved(node: Node, parts: int, blocks: int, multiprocessors: int) -> float:
    """Bytes that the memory could move in the time of a reduction by so many blocks."""
    size = max([dt.itemsize(a.tensor.dtype) for a in node.reads], default=1)
    again = _START + 2 * parts * node.points * size if parts > 1 else 0
    busy = min(1.0, blocks / (_ENOUGH * multiprocessors))
    return prod(node.reduce_extents) * node.points * size / busy + again


def _parts(node: Node, extent: int) -> list[int]:
    """Into how many parts axes of a reduction may be cut, so that each is worth a block."""
    most = prod(node.reduce_extents) // (8 * _LONG) if node.op.num_outputs == 1 else 1
    return [p for p in _PARTS if p == 1 or (extent % p == 0 and p <= most)]


@dataclass(frozen=True)
class _AtMost:
    """A constraint: a block has at most 1024 threads."""

    rows: str
    threads: str

    def __call__(self, view: Any) -> bool:
        return view[self.rows].val * view[self.threads].val <= 1024

    def __repr__(self) -> str:
        return f"{self.rows} times {self.threads} is at most 1024"
