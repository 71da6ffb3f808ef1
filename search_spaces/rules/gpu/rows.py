"""The rule for chains of rows on a GPU: softmax, normalisation, and what is made of them.

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

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from whet.compiler.target import Target
from whet.compiler.te import Stage
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import IterVar
from whet.search_spaces.graph.compute_graph import INJECTIVE, REDUCTION, Group, Node
from whet.search_spaces.rules.cpu.sums import ALONG, way_of
from whet.search_spaces.rules.gpu.elementwise_fallback import spread
from whet.search_spaces.rules.gpu.lanes import lanes_of
from whet.search_spaces.rules.gpu.row_reads import read_alike, read_straight
from whet.search_spaces.rules.gpu.threads import bind
from whet.search_spaces.space.define import DefineKnobs

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


class GpuRows:
    """All stages of a row by the same threads, each of which has the same part of every stage."""

    name = "gpu rows"

    def applies(self, group: Group) -> bool:
        """A group with members whose rows blocks can hold, or the registers of a thread."""
        if not group.members or group.role not in (REDUCTION, INJECTIVE):
            return False
        length = row_length(group)
        if length is None:
            return _fits_threads(group)
        return length <= _LONG or _rows(group) > _FEW

    def rewrite(self, group: Group, cfg: DefineKnobs, target: Target) -> Tensor | None:
        """Nothing."""
        return None

    def schedule(self, s: Schedule, group: Group, cfg: DefineKnobs, target: Target) -> None:
        """Place the stages, bind the rows and what is in them."""
        length = row_length(group)
        if length is None:
            _by_threads(s, group, cfg)
        else:
            _by_blocks(s, group, length, cfg)


def row_length(group: Group) -> int | None:
    """The elements of a row that all stages go through in the same order; None: they do not."""
    last = group.last
    rest = [k for k in range(len(last.extents)) if k not in group.rows]
    stages = (*group.members, group.anchor, last)
    lengths = {prod(n.reduce_extents) for n in stages if n.role == REDUCTION}
    if last.role != REDUCTION and rest:
        lengths.add(prod(last.extents[k] for k in rest))
    if len(lengths) != 1 or rest != list(range(len(group.rows), len(last.extents))):
        return None
    (length,) = lengths
    for node in stages:
        wide = prod(node.extents[k] for k in wide_axes(group, node))
        if node.role == REDUCTION and (wide > 1 or way_of(node, 1).kind != ALONG):
            return None
        if wide not in (1, length) or not _trailing(group, node):
            return None
    return length if length > 1 else None


def _rows(group: Group) -> int:
    """How many rows there are."""
    return prod(group.last.extents[k] for k in group.rows)


def _fits_threads(group: Group) -> bool:
    """Whether a thread can have a row: its registers hold it, and it is soon done or one of many
    neighbours."""
    stages = (*group.members, group.anchor, group.last)
    held = (prod(n.extents[k] for k in wide_axes(group, n)) for n in stages if n is not group.last)
    many, steps = _rows(group), max(n.steps for n in stages)
    neighbours = len(group.last.extents) - 1 in group.rows and many >= _MANY
    return sum(held) <= _MOST_OWN and (neighbours or steps <= many * _MOST_OWN)


def wide_axes(group: Group, node: Node) -> list[int]:
    """The axes of a stage that are not rows."""
    own = group.maps[node.index] if node.index in group.maps else tuple(range(len(node.extents)))
    return [k for k, q in enumerate(own) if q not in group.rows]


def _trailing(group: Group, node: Node) -> bool:
    """Whether the axes of a stage are those of the rows, in order, and then the others."""
    own = group.maps[node.index] if node.index in group.maps else tuple(range(len(node.extents)))
    wide = wide_axes(group, node)
    rows = [q for q in own if q in group.rows]
    return wide == list(range(len(node.extents) - len(wide), len(node.extents))) and rows == list(
        group.rows
    )


def _by_threads(s: Schedule, group: Group, cfg: DefineKnobs) -> None:
    """A row for each thread; neighbours have neighbouring rows."""
    cfg.define_knob(group.knob("threads"), [32, 64, 128, 256], default=64)
    stage = s[group.last.tensor]
    axes = list(stage.op.axis)
    rows = [axes[k] for k in group.rows]
    stage.reorder(*rows, *[a for a in axes if a not in rows])
    thread = spread(stage, rows, cfg[group.knob("threads")].val)
    for node in (*group.members, group.anchor):
        if node is not group.last:
            s[node.tensor].compute_at(stage, thread)


@dataclass(frozen=True)
class _Shares:
    """How a row is shared: vectors of ``vector`` elements to ``threads`` threads in turns.

    Attributes:
        threads, vector: of a row.
        written: whether the turns are written out.
        kept: whether a thread's part of a stage fits its registers; else it is computed anew for
            each stage that reads it.
        scope: of a stage of which each thread has a part: PrivatizeShared makes registers of it.
    """

    threads: int
    vector: int
    written: bool
    kept: bool
    scope: str

    def bound(self, stage: Stage, axes: list[IterVar], vectors: bool) -> IterVar:
        """Share a stage's innermost loops; returns the one over threads.

        Args:
            stage: the stage.
            axes: its loops over a row, or of its reduction, adjacent.
            vectors: whether a vector is read and written at once; else one after the other.
        """
        whole = stage.fuse(*axes)
        lanes = None
        if self.vector > 1:
            whole, lanes = stage.split(whole, factor=self.vector)
        turn, thread = stage.split(whole, factor=self.threads)
        bind(stage, thread, "threadIdx.x")
        if self.written:
            stage.unroll(turn)
        if lanes is None:
            return thread
        if vectors:
            stage.vectorize(lanes)
        else:
            stage.unroll(lanes)
        return thread


def _by_blocks(s: Schedule, group: Group, length: int, cfg: DefineKnobs) -> None:
    """A row for each block, or for some of its threads."""
    rows, shares, keep = _knobs(s, group, length, cfg)
    last, stage = group.last, s[group.last.tensor]
    if last.role == REDUCTION:
        axes, inner = list(stage.op.axis), list(stage.op.reduce_axis)
    else:
        axes = [stage.op.axis[k] for k in group.rows]
        inner = [a for a in stage.op.axis if a not in axes]
    outer, row = stage.split(axes[-1], factor=rows)
    stage.reorder(*axes[:-1], outer, row, *inner)
    bind(stage, stage.fuse(*axes[:-1], outer), "blockIdx.x")
    bind(stage, row, "threadIdx.y")
    kept = kept_inputs(s, group) if keep else []
    for node in (*group.members, group.anchor):
        if node is not last:
            _member(s, group, node, stage, row, shares)
    for tensor in kept:
        s[tensor].set_scope(shares.scope)
        s[tensor].compute_at(stage, row)
        shares.bound(s[tensor], list(s[tensor].op.axis)[len(group.rows) :], True)
    if inner:
        shares.bound(stage, inner, last.role != REDUCTION)


def _member(
    s: Schedule, group: Group, node: Node, parent: Stage, row: IterVar, shares: _Shares
) -> None:
    stage = s[node.tensor]
    wide = [stage.op.axis[k] for k in wide_axes(group, node)]
    whole = prod(node.extents[k] for k in wide_axes(group, node)) > 1
    if whole and node.role != REDUCTION and not shares.kept:
        stage.compute_inline()
        return
    stage.set_scope(shares.scope if whole else "local")
    stage.compute_at(parent, row)
    if node.role == REDUCTION:
        thread = shares.bound(stage, list(stage.op.reduce_axis), False)
        if shares.vector > 1:
            _read_vectors(s, stage, thread)
        return
    if whole:
        shares.bound(stage, wide, True)


def _read_vectors(s: Schedule, stage: Stage, thread: IterVar) -> None:
    """Read what a reduction takes from memory in vectors, of which it takes one element at a time.

    Args:
        s, stage: the reduction, its loops shared.
        thread: its loop over threads.
    """
    length = [int(a.dom.extent) for a in stage.op.reduce_axis if a.dom is not None]
    for t in stage.op.input_tensors:
        if isinstance(t.op, ComputeOp) or not t.ndim or [int(t.shape[-1])] != length:
            continue
        read = s.cache_read(t, "local", [stage.op.output(0)])
        s[read].compute_at(stage, thread)
        s[read].vectorize(s[read].op.axis[-1])


def _knobs(s: Schedule, group: Group, length: int, cfg: DefineKnobs) -> tuple[int, _Shares, bool]:
    last = group.last
    count = last.extents[group.rows[-1]]
    # what is computed in float32 is converted four at a time
    kinds = [last.dtype, *(n.dtype for n in group.members)]
    most = min(length // 2, *(lanes_of(kind, length) for kind in kinds))  # a row is two threads'
    vectors = [v for v in (1, 2, 4, 8) if v <= most]
    wide = [n.tensor for n in group.members if wide_axes(group, n)]
    # what lanes read of each other is in shared memory, and a row has a block
    alone = not all(read_straight(s, group, x) for x in (*wide, *_inputs(s, group)))
    each = [r for r in _ROWS if count % r == 0 and (r == 1 or not alone)]
    every = (*_NARROW, *_THREADS) if each[-1] == _ROWS[-1] else _THREADS
    threads = [t for t in every if t == every[0] or t < 2 * length // vectors[-1]]
    # a part of more elements is not written out, and has no registers
    threads = [t for t in threads if length <= 2 * t * _MOST_OWN] or threads[-1:]
    # two loads a thread of short rows: neighbours read neighbours, and exchange little
    some = min(_WARP, length // (2 * vectors[-1]))
    least = max(t for t in threads if t == threads[0] or t <= some)
    wanted = next((t for t in threads if t >= least and t * _OWN >= length), threads[-1])
    each = each if threads[0] <= _WARP else [1]
    cfg.define_knob(group.knob("vector"), vectors, default=vectors[-1])
    cfg.define_knob(group.knob("threads"), threads, default=wanted)
    cfg.define_knob(
        group.knob("rows"),
        each,
        default=max(r for r in each if r == 1 or (wanted <= _WARP and r * wanted <= _BLOCK)),
    )
    cfg.define_knob(group.knob("keep"), [True, False], default=length <= wanted * _OWN)
    cfg.multi_filter(_Holds(group.knob("rows"), group.knob("threads")))
    cfg.multi_filter(_Kept(group.knob("keep"), group.knob("threads"), length))
    vector, own, rows, keep = (
        cfg[group.knob(name)].val for name in ("vector", "threads", "rows", "keep")
    )
    scope = "warp" if rows > 1 else "shared"
    written, kept = length <= 2 * own * _MOST_OWN, keep or length <= own * _MOST_OWN
    return rows, _Shares(own, vector, written, kept, scope), keep


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


def _inputs(s: Schedule, group: Group) -> list[Tensor]:
    """The tensors of whole rows that the stages of a group read from memory."""
    shape = group.last.extents if group.last.role != REDUCTION else None
    found: dict[Tensor, None] = {}
    for _, tensor, _ in _reads(s, group):
        extents = tuple(int(d) for d in tensor.shape)
        if shape is None or extents == shape:
            found[tensor] = None
    return list(found)


def _reads(s: Schedule, group: Group) -> Iterator[tuple[Node, Tensor, ComputeOp]]:
    """What each stage of a group reads from outside, and the operation that does: its own or one
    that is computed in it."""
    stored = {n.op for n in (*group.members, group.anchor, group.last)}
    nodes = {n.index: n for n in (*group.members, group.anchor, group.last)}
    for node in nodes.values():
        waiting = [node.op]
        seen = set()
        while waiting:
            op = waiting.pop()
            if op in seen or not isinstance(op, ComputeOp):
                continue
            seen.add(op)
            for t in op.input_tensors:
                if t.op in stored:
                    continue
                if s[t].attach_type == INLINE:
                    waiting.append(t.op)
                else:
                    yield node, t, op


def kept_inputs(s: Schedule, group: Group) -> list[Tensor]:
    """Rows that several stages read, as stages in registers."""
    readers: dict[Tensor, tuple[set[Node], dict[ComputeOp, None]]] = {}
    for node, tensor, op in _reads(s, group):
        stages, ops = readers.setdefault(tensor, (set(), {}))
        stages.add(node)
        ops[op] = None
    found = []
    wide = _inputs(s, group)
    for tensor, (stages, ops) in readers.items():
        if len(stages) < 2 or tensor not in wide or not read_alike(s, group, tensor, stages):
            continue
        (first, *others) = ops
        if not others and _is_cast(first) and first not in {n.op for n in stages}:
            found.append(first.output(0))
        else:
            found.append(s.cache_read(tensor, "local", [op.output(0) for op in ops]))
    return found


def _is_cast(op: ComputeOp) -> bool:
    """Whether an operation reads one element for each of its own, of another type."""
    (read,) = op.input_tensors if len(op.input_tensors) == 1 else (None,)
    return read is not None and tuple(map(int, read.shape)) == tuple(map(int, op.output_shape(0)))
