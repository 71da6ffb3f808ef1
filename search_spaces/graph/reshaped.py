"""Reads of another shape: indices made of quotients and remainders, that are simple in the end.

A group's mean, read by the channels of an image that was split into groups:

    mean[(((n * 128 + c) * 56 + y) * 56 + x) // 12544 % 32]     ->     mean[c // 4]
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from whet.compiler.arith import Analyzer
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
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
    simple = _simplified(node.op)
    reads = [n for n in nodes(_expanded(node.op, inlined)) if type(n) is ProducerLoad]
    return [simple(n.indices) for n in reads if n.producer.op is op]


def quotient(index: PrimExpr) -> tuple[Var | None, int]:
    """The variable of an index ``v`` or ``v // 4``, and the steps of it that see the same one."""
    if isinstance(index, FloorDiv) and isinstance(index.b, IntImm):
        return (index.a, index.b.value) if isinstance(index.a, Var) else (None, 1)
    return (index, 1) if isinstance(index, Var) else (None, 1)


def plainly_indexed(
    node: Node, inlined: Collection[Operation], members: Collection[Operation]
) -> Tensor | None:
    """A stage with simple indices, where it reads one of some stages in another shape.

    Loops that are split later leave them simple: ``(c.outer * 4 + c.inner) // 4``.

    Args:
        node: an injective stage.
        inlined: the operations that are computed in their readers.
        members: the stages.

    Returns:
        Its tensor; None where it reads all of them plainly.
    """
    body = _expanded(node.op, inlined)
    reads = [n for n in nodes(body) if type(n) is ProducerLoad and n.producer.op in members]
    if all(affine(i) is not None for n in reads for i in n.indices):
        return None
    simple = _simplified(node.op)

    def moved(n: ProducerLoad) -> PrimExpr:
        return ProducerLoad(n.producer, simple(n.indices), n.dtype)

    assert isinstance(node.op, ComputeOp)
    new = tuple(map(Rewriter({ProducerLoad: moved}, once=True), body))
    return replace(node.op, body=new).output(0)


def _expanded(op: Operation, inlined: Collection[Operation]) -> tuple[PrimExpr, ...]:
    # a process that only finds a config waits for each module
    from whet.compiler.te.lower.inlining import Inlining

    assert isinstance(op, ComputeOp)
    return tuple(map(Inlining({o: o for o in inlined}.get).expanded, op.body))


def _simplified(op: Operation) -> Callable[[Indices], Indices]:
    analyzer: Analyzer = bounded(op.axis)
    return lambda indices: tuple(analyzer.affine(i).to_expr() for i in indices)
