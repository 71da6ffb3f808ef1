"""The kind of a node, as its loops show it: what may be fused with what follows from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from whet.compiler.graph.ir import Node, Value
from whet.compiler.graph.operators import computed
from whet.compiler.graph.operators.equal import of_equal_nodes
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.tir.expr import IntImm, Mul, ProducerLoad, Var
from whet.compiler.tir.visit.rewrite import nodes


class Kind(IntEnum):
    """The kinds of loops of nodes, from the easiest to fuse."""

    ELEMENTWISE = 0  # each element from those at its place
    BROADCAST = 1  # some operands lack some dimensions
    INJECTIVE = 2  # each element from elements anywhere
    REDUCTION = 3  # whole axes, each element read once: sums, norms, softmax, pools
    CONTRACTION = 4  # sums of products in which elements are read over and over
    OPAQUE = 5  # never fused


def kind_of(node: Node) -> Kind:
    """The kind of a node."""
    return of_equal_nodes(_kind, node.operator, node.inputs, node.attrs)


def stores_all(node: Node) -> bool:
    """True if one operation makes several of a node's outputs: a kernel stores all of them."""
    return of_equal_nodes(_stores_all, node.operator, node.inputs, node.attrs)


def _kind(made: Sequence[Tensor]) -> Kind:
    if len(made) != 1 or any(isinstance(d, IntImm) and d.value == 0 for d in made[0].shape):
        return Kind.OPAQUE
    stages = [op for op in post_order([t.op for t in made]) if op.input_tensors or op.axis]
    return max((_of_stage(op) for op in stages), default=Kind.OPAQUE)


def _stores_all(made: Sequence[Tensor]) -> bool:
    return any(t.op.num_outputs > 1 for t in made)


def _of_stage(op: Operation) -> Kind:
    if not isinstance(op, ComputeOp):
        return Kind.OPAQUE
    if op.reduce_axis:
        return Kind.CONTRACTION if _sums_products(op) else Kind.REDUCTION
    axes = [a.var for a in op.axis]
    kinds = [_of_read(n, axes) for n in nodes(op.body) if type(n) is ProducerLoad]
    return max(kinds, default=Kind.ELEMENTWISE)


def _of_read(n: ProducerLoad, axes: Sequence[Var]) -> Kind:
    """How an element is read for the one at ``axes``."""
    if len(n.indices) == len(axes) and all(i is a for i, a in zip(n.indices, axes)):
        return Kind.ELEMENTWISE
    left = iter(axes)
    for i in n.indices:
        if isinstance(i, IntImm) and i.value == 0:
            continue
        if not any(i is a for a in left):  # in their order, each at most once
            return Kind.INJECTIVE
    return Kind.BROADCAST


def _sums_products(op: ComputeOp) -> bool:
    """True for a sum over products of two operands."""
    products = [n for n in nodes(op.body) if type(n) is Mul]
    return any(
        len({r.producer.op for r in nodes((n,)) if type(r) is ProducerLoad}) > 1 for n in products
    )


def tensors_of(group: Sequence[Node], given: Mapping[Value, Tensor]) -> dict[Value, Tensor]:
    """The values that some nodes make, as tensors.

    Args:
        group: the nodes, producers first.
        given: what they read of others.
    """
    known = dict(given)
    made: dict[Value, Tensor] = {}
    for node in group:
        operands = [None if v is None else known[v] for v in node.inputs]
        for v, t in zip(node.outputs, computed(node.operator, operands, node.attrs)):
            known[v] = made[v] = t
    return made
