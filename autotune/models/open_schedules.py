"""Schedules that hold for any extents.

Derived spaces are of known extents: a tile is chosen for the loop that it is of. Here a tile is of
whole vectors of columns, where they are known, and of as many rows as registers hold; where rows
are left over, the last one is computed again. Where columns are open, a tile is a vector wide and
four deep, and a guard does what is left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import gcd, prod
from typing import Any

from whet.compiler import te
from whet.compiler.abi.extent import evaluate
from whet.compiler.abi.extent_expr import from_expr
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te import ComputeOp, Operation, Schedule, Stage, Tensor
from whet.compiler.te.lang.graph import post_order
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import IntImm, PrimExpr, ProducerLoad, Var
from whet.compiler.tir.visit.rewrite import nodes
from whet.search_spaces.rules.vectors import vector_registers

PANELS, OF_PANELS = "panels", "of_panels"
"""The attributes of a stage that packs weights ahead of a kernel's calls, and of what reads it in
the order of the weights: lanes and vectors of a panel."""
_LEAST_LANES = 4  # of the vectors of tiles that registers hold
_THREADS = 128  # of a block of a GPU
_DEPTH = 4  # rows of a contraction's tile
_MOST_DEEP = 14  # rows of one whose sums are in registers
_MANY_WEIGHTS = 1 << 19  # bytes


def scheduled(outputs: Sequence[Tensor], target: Target, tops: Mapping[Any, int]) -> Schedule:
    """A schedule that holds for any extents.

    Args:
        outputs: what is computed.
        target: canonical.
        tops: the sizes in extents -> the greatest number of each.
    """
    s = te.create_schedule([t.op for t in outputs])
    every = post_order([t.op for t in outputs])
    ops = [op for op in every if isinstance(op, ComputeOp)]
    kept = {t.op for t in outputs}
    kept |= {t.op for op in every if op not in ops for t in op.input_tensors}  # statements' reads
    readers: dict[Operation, list[ComputeOp]] = {}
    for op in ops:
        for t in op.input_tensors:
            readers.setdefault(t.op, []).append(op)
    for op in ops:
        if op in kept:
            continue
        again = any(r.reduce_axis for r in readers.get(op, ())) and not _only_moves(op)
        if not op.reduce_axis and op.num_outputs == 1 and not again and PANELS not in op.attrs:
            s[op].compute_inline()
        else:
            kept.add(op)
    tiled: set[Operation] = set()
    for op in ops:
        if op in kept and target.kind.row.has_threads:
            _threads(s[op], op)
        elif op in kept and op.axis and (tile := _tile(op, target, tops)):
            reader = _reader(op, readers, kept, {t.op for t in outputs})
            _tiled(s, op, reader, tile, target)
            tiled |= {op} if reader is None else {op, reader}
        elif op in kept and op.axis and op not in tiled:
            _loops(s[op], op, target)
        if PANELS in op.attrs:
            s[op].compute_ahead()
    return s


def _tile(op: ComputeOp, target: Target, tops: Mapping[Any, int]) -> tuple[int, int, int] | None:
    """Lanes, vectors and rows of a tile of sums that registers hold.

    None where the last axis is open or not of whole vectors, or nothing is read again along the
    one in front.
    """
    if not op.reduce_axis or op.num_outputs > 1 or len(op.axis) < 2 or _along(op, op.axis[-1].var):
        return None
    if op.output_dtype(0) == "bool":
        return None
    *outer, last = (a.domain.extent for a in op.axis)
    if not isinstance(last, IntImm) or all(isinstance(d, IntImm) for d in outer):
        return None
    packed = [t.op.attrs[OF_PANELS] for t in op.input_tensors if OF_PANELS in t.op.attrs]
    (lanes, vectors), *_ = packed or [_panel(last.value, op.output_dtype(0), target)]
    if lanes < _LEAST_LANES and not packed:
        return None
    deep = (vector_registers(target) - vectors - 1) // vectors
    most = max(1, _greatest(op.axis[-2].domain.extent, tops))
    pieces = -(-most // min(deep, _MOST_DEEP))
    return lanes, vectors, -(-most // pieces)


def _greatest(extent: PrimExpr, tops: Mapping[Any, int]) -> int:
    """An extent where the sizes in it are greatest."""
    symbols = {v: v.name for v in tops}
    return evaluate(from_expr(extent, lambda v: symbols[v]), {v.name: n for v, n in tops.items()})


def padded_panel(columns: int, dtype: str, target: Target) -> tuple[int, int]:
    """Lanes and vectors of a tile of packed weights of so many columns; some may hang over.

    A tile that hangs over is one of several: of the only one, the sums would end where columns do,
    and have masks.
    """
    widest = max(1, target.vector_bytes // dt.itemsize(dtype))
    lanes = min(widest, 1 << max(columns - 1, 0).bit_length())
    if lanes > columns:
        return lanes // 2, 1
    many = -(-columns // lanes)
    vectors = next(n for n in (2, 3, 1) if many % n == 0)
    return lanes, 1 if vectors == many and columns % lanes else vectors


def _panel(columns: int, dtype: str, target: Target) -> tuple[int, int]:
    """Lanes and vectors of a tile of so many columns in all: none of it hangs over."""
    lanes = gcd(columns, max(1, target.vector_bytes // dt.itemsize(dtype)))
    return lanes, next(n for n in (2, 3, 1) if columns // lanes % n == 0)


def _tiled(
    s: Schedule,
    op: ComputeOp,
    reader: ComputeOp | None,
    tile: tuple[int, int, int],
    target: Target,
) -> None:
    """Sums in registers, a tile at a time, stored by what reads them, else as they are."""
    lanes, vectors, deep = tile
    if reader is None:
        sums, stage = s.cache_write(op.output(0), "local"), s[op]
    else:
        sums, stage = op.output(0), s[reader]
        s[sums].set_scope("local")
    *outer, row, last = stage.op.axis
    place, inside = stage.split(row, deep)
    block, part = stage.split(last, lanes * vectors)
    part, lane = stage.split(part, lanes)
    # of many weights a panel stays in the caches for all rows; of few all panels do for a row
    of_panels = _weights(op) > _MANY_WEIGHTS
    around = [block, *outer] if of_panels else [*outer, block]
    stage.reorder(*around, place, inside, part, lane)
    stage.unroll(inside)
    stage.unroll(part)
    stage.vectorize(lane)
    if target.num_threads != 1:
        shared = outer if outer and not of_panels else [block]
        stage.parallel(stage.fuse(*shared) if len(shared) > 1 else shared[0])
    s[sums].compute_at(stage, place)
    *rest, row, last = s[sums].op.axis
    part, lane = s[sums].split(last, lanes)
    s[sums].reorder(*rest, *s[sums].op.reduce_axis, row, part, lane)
    s[sums].unroll(row)
    s[sums].unroll(part)
    s[sums].vectorize(lane)


def _weights(op: ComputeOp) -> int:
    """The bytes of one operand of sums whose steps are all of known number; else 0."""
    extents = [a.domain.extent for a in (*op.reduce_axis, op.axis[-1])]
    known = [d.value for d in extents if isinstance(d, IntImm)]
    return prod(known) * dt.itemsize(op.output_dtype(0)) if len(known) == len(extents) else 0


def _reader(
    op: ComputeOp,
    readers: Mapping[Operation, Sequence[ComputeOp]],
    kept: Collection[Operation],
    outputs: Collection[Operation],
) -> ComputeOp | None:
    """The one stage to which all that is made of sums goes, element by element; None: none is."""
    ends: set[ComputeOp] = set()
    ahead, seen = [op], {op}
    while ahead:
        at = ahead.pop()
        if at in outputs:
            return None
        for one in readers.get(at, ()):
            if not _in_place(at, one, op):
                return None
            if one in kept:
                ends.add(one)
            elif one not in seen:
                seen.add(one)
                ahead.append(one)
    return ends.pop() if len(ends) == 1 else None


def _in_place(op: ComputeOp, reader: ComputeOp, sums: ComputeOp) -> bool:
    """True where a stage reads each element of another one for its own, of as many bytes."""
    if reader.reduce_axis or reader.num_outputs > 1 or len(reader.axis) != len(sums.axis):
        return False
    if dt.itemsize(reader.output_dtype(0)) != dt.itemsize(sums.output_dtype(0)):
        return False
    reads = [n for n in nodes(reader.body) if type(n) is ProducerLoad and n.producer.op is op]
    places = [a.var for a in reader.axis]
    return all(x is v for n in reads for x, v in zip(n.indices, places, strict=True))


def _only_moves(op: ComputeOp) -> bool:
    """True for a stage that copies elements, those along its last axis in the order of memory.

    A contraction that read through a transpose would have no vectors: it reads a copy.
    """
    reads = [b for b in op.body if isinstance(b, ProducerLoad) and b.indices]
    if not op.axis or len(reads) < len(op.body):
        return False
    last = op.axis[-1].var
    return all(any(x is last for x in nodes((b.indices[-1],))) for b in reads)


def _threads(stage: Stage, op: ComputeOp) -> None:
    """A GPU's thread for each element, which sums by itself."""
    every = list(op.axis)
    if not every:
        raise ArgumentError(f"{op.name}", "a result without dimensions has no threads")
    whole = stage.fuse(*every) if len(every) > 1 else every[0]
    block, thread = stage.split(whole, _THREADS)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))


def _loops(stage: Stage, op: ComputeOp, target: Target) -> None:
    """Blocks of the outer axes for the threads, vectors along the last one."""
    axes = list(op.axis)
    lanes = max(1, target.vector_bytes // dt.itemsize(op.output_dtype(0)))
    last = axes.pop()
    contraction = op.reduce_axis and not _along(op, last.var)
    if (op.reduce_axis and not contraction) or op.output_dtype(0) == "bool" or op.num_outputs > 1:
        outer = [*axes, last]
    else:
        block, lane = stage.split(last, lanes)
        if contraction and axes:
            row, deep = stage.split(axes.pop(), _DEPTH)
            stage.reorder(*axes, row, block, *op.reduce_axis, deep, lane)
            stage.unroll(deep)
            outer = [*axes, row]
        else:
            if contraction:
                stage.reorder(block, *op.reduce_axis, lane)
            outer = [*axes, block]
        stage.vectorize(lane)
    if target.num_threads != 1 and outer:
        stage.parallel(stage.fuse(*outer) if len(outer) > 1 else outer[0])


def _along(op: ComputeOp, last: Var) -> bool:
    """True for a reduction along memory: what it reads does not move with its last axis there."""
    reads = [n for n in nodes(op.body) if type(n) is ProducerLoad and n.indices]
    return not any(any(x is last for x in nodes((n.indices[-1],))) for n in reads)
