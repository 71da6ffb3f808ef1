"""The rule for chains of rows on a GPU: softmax, normalisation, and their epilogues.

A row belongs to a block, to a warp of one or to a part of a warp; each thread keeps its part of the
row in registers:

    bind row:
        bind t, for u, v:  R[u*T*4 + t*4 + v] = X[row, ..]         read once, 16 bytes at a time
        top = max over t, u, v of R[..]                            across the threads
        bind t, for u, v:  E[..] = exp(R[..] - top)
        total = sum of E[..]
        bind t, for u, v:  Y[row, ..] = E[..] / total

Of a row too long for registers, R and E are read and computed anew where they are needed.
Where a row does not lie side by side (a softmax over columns), it belongs to one thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from whet.compiler.te import Stage
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import IterVar
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, Group, int_extent
from whet.search_spaces.rules.cpu.sums import ALONG, way_of
from whet.search_spaces.rules.gpu.hardware.lanes import lanes_of
from whet.search_spaces.rules.gpu.hardware.threads import (
    attach,
    bind,
    bind_fused,
    split_lanes,
    vectorize_last,
)
from whet.search_spaces.rules.gpu.reduction_plan import threads_for
from whet.search_spaces.rules.gpu.row_group import (
    common_length,
    kept_inputs,
    read_straight,
    row_count,
    rows_in_order,
    stages_of,
    whole_rows,
    wide_axes,
    width,
)

_WARP = 32
_NARROW, _THREADS = (4, 8, 16), (_WARP, 64, 128, 256, 512, 1024)
_ROWS = (1, 2, 4, 8, 16, 32)
# Elements of a row that a thread should have, and may have at most, in registers.
_OWN, _MOST_OWN = 32, 64
_BLOCK = 128
# Longer rows of which there are no more are few blocks' work for too long.
_LONG, _FEW = 1 << 15, 32
# Neighbouring rows of so many keep all multiprocessors busy, a thread each.
_MANY = 1 << 15


class GpuRows(Rule):
    """All stages of a row by the same threads, each of which has the same part of every stage."""

    def applies(self, group: Group) -> bool:
        """A group with members whose rows blocks can hold, or the registers of a thread."""
        if not group.is_chain:
            return False
        length = row_length(group)
        if length is None:
            return _fits_threads(group)
        return length <= _LONG or row_count(group) > _FEW

    def schedule(self, s: Schedule, group: Group) -> None:
        """Place the stages, bind the rows and what is in them."""
        length = row_length(group)
        if length is None:
            _by_threads(s, group)
        else:
            _by_blocks(s, group, length)


def row_length(group: Group) -> int | None:
    """The elements of a row that all stages go through in the same order; None: they do not."""
    length = common_length(group)
    if length is None or sorted(group.rows) != list(range(len(group.rows))):
        return None
    for node in stages_of(group):
        wide = width(group, node)
        if node.role == REDUCTION and (wide > 1 or way_of(node, 1).kind != ALONG):
            return None
        # its axes are those of the rows, in order, and then the others
        own, rank = wide_axes(group, node), len(node.extents)
        trailing = own == list(range(rank - len(own), rank)) and rows_in_order(group, node)
        if wide not in (1, length) or not trailing:
            return None
    return length if length > 1 else None


def _fits_threads(group: Group) -> bool:
    """True if a thread can have a row: its registers hold it, and it is soon done or one of many
    neighbours."""
    held = (width(group, n) for n in group.inner)
    many, steps = row_count(group), max(n.steps for n in stages_of(group))
    neighbours = len(group.last.extents) - 1 in group.rows and many >= _MANY
    return sum(held) <= _MOST_OWN and (neighbours or steps <= many * _MOST_OWN)


def _by_threads(s: Schedule, group: Group) -> None:
    """A row for each thread; neighbours have neighbouring rows."""
    threads = group.choose("threads", (32, 64, 128, 256), 64)
    stage = s[group.last.tensor]
    axes = list(stage.op.axis)
    rows = [axes[k] for k in group.rows]
    stage.reorder(*rows, *[a for a in axes if a not in rows])
    thread = bind_fused(stage, rows, threads)
    for node in group.inner:
        s[node.tensor].compute_at(stage, thread)


@dataclass(frozen=True)
class _Shares:
    """The sharing of a row: vectors of ``vector`` elements to ``threads`` threads in turns.

    Attributes:
        threads, vector: of a row.
        unrolled: whether the turns are unrolled.
        kept: whether a thread's part of a stage fits its registers; else it is computed anew for
            each stage that reads it.
        scope: of a stage of which each thread has a part: PrivatizeShared makes registers of it.
    """

    threads: int
    vector: int
    unrolled: bool
    kept: bool
    scope: str

    def bound(self, stage: Stage, axes: list[IterVar], vectors: bool) -> IterVar:
        """Share a stage's innermost loops; returns the one over threads.

        Args:
            stage: the stage.
            axes: its loops over a row, or of its reduction, adjacent.
            vectors: whether a vector is read and written at once; else one after the other.
        """
        whole, lanes = split_lanes(stage, stage.fuse(*axes), self.vector)
        turn, thread = stage.split(whole, factor=self.threads)
        bind(stage, x=thread)
        if self.unrolled:
            stage.unroll(turn)
        for lane in lanes:
            (stage.vectorize if vectors else stage.unroll)(lane)
        return thread


def _by_blocks(s: Schedule, group: Group, length: int) -> None:
    """A row for each block, or for some of its threads."""
    rows, shares, keep = _knobs(s, group, length)
    last, stage = group.last, s[group.last.tensor]
    if last.role == REDUCTION:
        axes, inner = list(stage.op.axis), list(stage.op.reduce_axis)
    else:
        axes = [stage.op.axis[k] for k in group.rows]
        inner = [a for a in stage.op.axis if a not in axes]
    outer, row = stage.split(axes[-1], factor=rows)
    stage.reorder(*axes[:-1], outer, row, *inner)
    bind(stage, block=stage.fuse(*axes[:-1], outer), y=row)
    kept = kept_inputs(s, group) if keep else []
    for node in group.inner:
        member, whole = s[node.tensor], width(group, node) > 1
        if whole and node.role != REDUCTION and not shares.kept:
            member.compute_inline()
            continue
        attach(member, stage, row, shares.scope if whole else "local")
        if node.role == REDUCTION:
            thread = shares.bound(member, list(member.op.reduce_axis), False)
            if shares.vector > 1:
                _read_vectors(s, member, thread)
        elif whole:
            shares.bound(member, [member.op.axis[k] for k in wide_axes(group, node)], True)
    for tensor in kept:
        attach(s[tensor], stage, row, shares.scope)
        shares.bound(s[tensor], list(s[tensor].op.axis)[len(group.rows) :], True)
    if inner:
        shares.bound(stage, inner, last.role != REDUCTION)


def _read_vectors(s: Schedule, stage: Stage, thread: IterVar) -> None:
    """Read what a reduction takes from memory in vectors, of which it takes one element at a time.

    Args:
        s, stage: the reduction, its loops shared.
        thread: its loop over threads.
    """
    length = [int_extent(a) for a in stage.op.reduce_axis]
    for t in stage.op.input_tensors:
        if isinstance(t.op, ComputeOp) or not t.ndim or [int(t.shape[-1])] != length:
            continue
        read = s.cache_read(t, "local", [stage.op.output(0)])
        s[read].compute_at(stage, thread)
        vectorize_last(s[read])


def _knobs(s: Schedule, group: Group, length: int) -> tuple[int, _Shares, bool]:
    last = group.last
    count = last.extents[group.rows[-1]]
    # what is computed in float32 is converted four at a time
    kinds = [last.dtype, *(n.dtype for n in group.members)]
    most = min(length // 2, *(lanes_of(kind, length) for kind in kinds))  # a row is two threads'
    vectors = [v for v in (1, 2, 4, 8) if v <= most]
    wide = [n.tensor for n in group.members if wide_axes(group, n)]
    # what lanes read of each other is in shared memory, and a row has a block
    alone = not all(read_straight(s, group, x) for x in (*wide, *whole_rows(s, group)))
    each = [r for r in _ROWS if count % r == 0 and (r == 1 or not alone)]
    every = (*_NARROW, *_THREADS) if each[-1] == _ROWS[-1] else _THREADS
    threads = [t for t in every if t == every[0] or t < 2 * length // vectors[-1]]
    # the loop over a part of more elements is not unrolled, and the part has no registers
    threads = [t for t in threads if length <= 2 * t * _MOST_OWN] or threads[-1:]
    wanted = threads_for(threads, length, vectors[-1], _OWN)
    each = each if threads[0] <= _WARP else [1]
    several = max(r for r in each if r == 1 or (wanted <= _WARP and r * wanted <= _BLOCK))
    vector = group.choose("vector", vectors, vectors[-1])
    own = group.choose("threads", threads, wanted)
    rows = group.choose("rows", each, several)
    keep = group.choose("keep", (True, False), length <= wanted * _OWN)
    group.cfg.multi_filter(_Holds(group.knob("rows"), group.knob("threads")))
    group.cfg.multi_filter(_Kept(group.knob("keep"), group.knob("threads"), length))
    scope = "warp" if rows > 1 else "shared"
    unrolled, kept = length <= 2 * own * _MOST_OWN, keep or length <= own * _MOST_OWN
    return rows, _Shares(own, vector, unrolled, kept, scope), keep


@dataclass(frozen=True)
class _Holds:
    """A constraint: rows of a block are shared by a warp or less; others have a block alone."""

    rows: str
    threads: str

    def __call__(self, view: object) -> bool:
        rows, threads = view[self.rows].val, view[self.threads].val  # type: ignore[index]
        return rows == 1 or threads <= _WARP

    def __repr__(self) -> str:
        return f"{self.rows} is 1 unless {self.threads} is at most {_WARP}"


@dataclass(frozen=True)
class _Kept:
    """A constraint: a thread keeps no more of a row than its registers hold."""

    keep: str
    threads: str
    length: int

    def __call__(self, view: object) -> bool:
        keep, threads = view[self.keep].val, view[self.threads].val  # type: ignore[index]
        return not keep or self.length <= 2 * _MOST_OWN * threads

    def __repr__(self) -> str:
        return f"{self.keep} has at most {2 * _MOST_OWN} elements a thread"
