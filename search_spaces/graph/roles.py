"""The role of each stage of a graph: what is computed in its readers, and what the others are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir.expr import ProducerLoad
from whet.compiler.tir.visit.rewrite import nodes
from whet.search_spaces.graph.cost import EXPENSIVE
from whet.search_spaces.graph.stages import (
    INJECTIVE,
    INLINE,
    OPAQUE,
    REDUCTION,
    TILED,
    Node,
    is_ahead,
)

# An expression of more nodes than this is not put into readers any more: chains of stencils grow
# by a factor with each stage.
_LARGEST = 600
# Loads of cheap values that may be computed again for each element of a reader.
_AGAIN = 16


def roles_of(plain: Sequence[Node]) -> tuple[Node, ...]:
    """Nodes with their roles.

    Args:
        plain: the nodes of a graph, producers first.
    """
    roles = [_own_role(node) for node in plain]
    # How often each stage's expression is evaluated; readers are decided before what they read.
    evaluated = [node.steps for node in plain]
    for node in reversed(plain):
        if roles[node.index] != INJECTIVE:
            continue
        inlined = sum(plain[k].loads[node.op] * evaluated[k] for k in node.readers)
        if _can_inline(node, inlined, [roles[k] for k in node.readers]):
            roles[node.index], evaluated[node.index] = INLINE, inlined
    _keep_small(plain, roles)
    out = []
    for node, role in zip(plain, roles):
        # computed in its readers, without a product of their lengths
        kinds = {roles[k] for k in node.readers}
        inlinable = 0 < len(node.readers) <= 4 and kinds.isdisjoint((OPAQUE, TILED, INLINE))
        out.append(replace(node, role=role, inlinable=inlinable))
    return tuple(out)


def has_reuse(node: Node) -> bool:
    """True if a reduction reads its operands over and over, so that tiles of them pay.

    Every operand that is reduced over is read again for another value of a data axis: the axis does
    not occur in its indices, or slides with the reduction's (a window); and one of them is of the
    first kind. A matrix times a vector has none: the matrix is read once.
    """
    data = {a.var for a, n in zip(node.op.axis, node.extents) if n > 1}
    reduced = {a.var for a in node.op.reduce_axis}
    operands = [a for a in node.reads if a.variables & reduced]
    if len(operands) < 2:
        return False
    missing = [data - a.variables for a in operands]
    slides = [
        any(i is not None and data & set(i.atoms) and reduced & set(i.atoms) for i in a.indices)
        for a in operands
    ]
    return any(missing) and all(m or s for m, s in zip(missing, slides))


def _own_role(node: Node) -> str:
    """The role as the operation alone says it: every injective stage is materialised."""
    op = node.op
    if not isinstance(op, ComputeOp) or 0 in node.extents or 0 in node.reduce_extents:
        return OPAQUE
    if not op.reduce_axis:
        return INJECTIVE
    return TILED if len(op.body) == 1 and has_reuse(node) else REDUCTION


def _can_inline(node: Node, evaluated: int, readers: list[str]) -> bool:
    """True if a stage is better computed in its readers, where it is evaluated so often."""
    if node.is_output or node.op.num_outputs > 1 or not readers or OPAQUE in readers:
        return False
    if is_ahead(node.op):
        return False
    if node.cost == 0 and not node.is_guarded:
        return True
    if TILED in readers:
        return False  # evaluated once for each step of the reduction
    again = evaluated / max(node.points, 1)
    if node.cost >= EXPENSIVE:
        return again <= 1
    return again * node.cost <= _AGAIN


def _keep_small(plain: Sequence[Node], roles: list[str]) -> None:
    """Materialise inlined stages where an expression would grow beyond all bounds."""
    inlined_at = {n.op: n.index for n in plain if roles[n.index] == INLINE}
    size = [0] * len(plain)
    for node in plain:
        if not isinstance(node.op, ComputeOp):
            continue
        own = nodes(node.op.body)
        reads = (n.producer.op for n in own if type(n) is ProducerLoad)
        inlined = [inlined_at[op] for op in reads if op in inlined_at]
        total = len(own) + sum(size[k] for k in inlined)
        if total > _LARGEST:
            for k in inlined:
                roles[k] = INJECTIVE
                inlined_at.pop(plain[k].op, None)
            total = len(own)
        size[node.index] = total
