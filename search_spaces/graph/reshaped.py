"""Reads of another shape: indices made of quotients and remainders, that are simple in the end.

A group's mean, read by the channels of an image that was split into groups:

    mean[(((n * 128 + c) * 56 + y) * 56 + x) // 12544 % 32]     ->     mean[c // 4]
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from whet.compiler.arith import Analyzer
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir.expr import FloorDiv, IntImm, PrimExpr, ProducerLoad, Var
from whet.compiler.tir.visit.rewrite import Rewriter, nodes
from whet.search_spaces.graph.access import affine, bounded
from whet.search_spaces.graph.stages import Node

Indices = tuple[PrimExpr, ...]


def read_at(node: Node, inlined: Collection[Operation], op: Operation) -> list[Indices]:
    """The indices, simplified, of each read of a stage.

    Args:
        node: the reader.
        inlined: the operations that are computed in their readers.
        op: the stage's.
    """
    analyzer = bounded(node.op.axis)
    reads = [n for n in nodes(expanded(node.op, inlined)) if type(n) is ProducerLoad]
    return [_simple(n.indices, analyzer) for n in reads if n.producer.op is op]


def quotient(index: PrimExpr) -> tuple[Var | None, int]:
    """The variable of an index ``v`` or ``v // 4``, and the steps of it that see the same one."""
    if isinstance(index, FloorDiv) and isinstance(index.b, IntImm):
        return (index.a, index.b.value) if isinstance(index.a, Var) else (None, 1)
    return (index, 1) if isinstance(index, Var) else (None, 1)


def plainly_indexed(
    node: Node, inlined: Collection[Operation], members: Collection[Operation]
) -> ComputeOp:
    """A stage with simple indices, where it reads one of some stages in another shape.

    Loops that are split later leave them simple: ``(c.outer * 4 + c.inner) // 4``.

    Args:
        node: an injective stage.
        inlined: the operations that are computed in their readers.
        members: the stages.

    Returns:
        Its operation; the same one where it reads all of them plainly.
    """
    assert isinstance(node.op, ComputeOp)
    body = expanded(node.op, inlined)
    reads = [n for n in nodes(body) if type(n) is ProducerLoad and n.producer.op in members]
    if all(affine(i) is not None for n in reads for i in n.indices):
        return node.op
    return simply_indexed(replace(node.op, body=body))


def expanded(op: Operation, inlined: Collection[Operation]) -> tuple[PrimExpr, ...]:
    """What an operation computes, with what is computed in it in the place of its reads."""
    # a process that only finds a config waits for each module
    from whet.compiler.te.lower.inlining import Inlining

    assert isinstance(op, ComputeOp)
    return tuple(map(Inlining({o: o for o in inlined}.get).expanded, op.body))


def simply_indexed(op: ComputeOp) -> ComputeOp:
    """An operation with simple indices."""
    analyzer: Analyzer = bounded((*op.axis, *op.reduce_axis))

    def moved(n: ProducerLoad) -> PrimExpr:
        n = rewrite.children(n)
        return ProducerLoad(n.producer, _simple(n.indices, analyzer), n.dtype)

    rewrite = Rewriter({ProducerLoad: moved}, once=True)
    return replace(op, body=tuple(map(rewrite, op.body)))


def _simple(indices: Indices, analyzer: Analyzer) -> Indices:
    """Indices without the quotients and remainders that cancel."""
    return tuple(analyzer.affine(i).to_expr(i.dtype) for i in indices)
