"""The regions of buffers that a statement reads and writes, as a block names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, IntImm, PrimExpr, Range, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import BufferRegion, BufferStore, For, LetStmt
from whet.compiler.tir.visit.rewrite import nodes, variables

Accesses = dict[Buffer, list[tuple[PrimExpr, ...] | None]]


def accesses(
    parts: Sequence[Any], inside: Sequence[Buffer] = ()
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """The regions that some statements read, and those that they write.

    Args:
        parts: statements over a block's axes.
        inside: buffers that exist within, and do not count.

    Returns:
        A region for each buffer, in the order of their first use. Along a dimension it is one
        element, a run of known length, or all, where the indices are not known.
    """
    read: Accesses = {}
    written: Accesses = {}
    own: set[Var] = set()
    for n in nodes(parts):
        if isinstance(n, (For, LetStmt)):
            own.add(n.var)
        if isinstance(n, BufferLoad):
            read.setdefault(n.buffer, []).append(n.indices)
        elif isinstance(n, BufferView):
            read.setdefault(n.buffer, []).append(None)
        elif isinstance(n, BufferStore):
            written.setdefault(n.buffer, []).append(n.indices)
    for b in inside:
        read.pop(b, None)
        written.pop(b, None)
    analyzer = Analyzer()
    return (
        tuple(_region(analyzer, b, many, own) for b, many in read.items()),
        tuple(_region(analyzer, b, many, own) for b, many in written.items()),
    )


def _region(
    analyzer: Analyzer, b: Buffer, many: Sequence[tuple[PrimExpr, ...] | None], own: set[Var]
) -> BufferRegion:
    ranges = []
    for d, extent in enumerate(b.shape):
        indices = [None if x is None else x[d] for x in many]
        span = _span(analyzer, indices, own)
        whole = Range.from_min_extent(ops.const(0, extent.dtype), extent)
        ranges.append(span or whole)
    return BufferRegion(b, tuple(ranges))


def _span(analyzer: Analyzer, indices: Sequence[PrimExpr | None], own: set[Var]) -> Range | None:
    """The indices as a range; None where they are not constants apart."""
    first = indices[0]
    if first is None:
        return None
    low, high = 0, 0
    least = first
    for i in indices:
        if i is None or variables(i) & own or any(isinstance(n, BufferLoad) for n in nodes((i,))):
            return None
        step = analyzer.affine(i) - analyzer.affine(first)
        if not step.is_const:
            return None
        least = i if step.const < low else least
        low, high = min(low, step.const), max(high, step.const)
    return Range.from_min_extent(least, IntImm(first.dtype, high - low + 1))
