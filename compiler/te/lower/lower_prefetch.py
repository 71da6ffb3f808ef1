"""Prefetches of a loop, as attributes in it: InjectPrefetch makes calls of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.threads import is_below
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, IterVar
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import PREFETCH, PREFETCH_SPREAD, AttrStmt, Stmt
from whet.compiler.tir.visit.rewrite import nodes_of

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


def prefetched(
    stage: Stage, leaf: IterVar, buffers: Mapping[tuple[Stage, int], Buffer], body: Stmt
) -> Stmt:
    """The body of the loop ``leaf`` with what ``prefetch`` asked for there.

    Raises:
        LowerError: if the body reads nothing of a tensor, or the tensor is not there ahead.
    """
    attr = stage.attr(leaf)
    asked = zip(attr.prefetch_data, attr.prefetch_offset, attr.prefetch_spread, strict=True)
    for tensor, offset, spread in reversed([*asked]):
        buffer = _buffer(stage, leaf, tensor, offset, buffers, body)
        key = PREFETCH_SPREAD if spread else PREFETCH
        body = AttrStmt(buffer, key, ops.const(offset), body)
    return body


def _buffer(
    stage: Stage,
    leaf: IterVar,
    tensor: Tensor,
    offset: int,
    buffers: Mapping[tuple[Stage, int], Buffer],
    body: Stmt,
) -> Buffer:
    request = f"prefetch({stage.op.name}, {tensor.name}, {leaf.var.name}, {offset})"
    made = stage.schedule.stage_map[tensor.op]
    if made.attach_type == INLINE:
        raise LowerError(
            request,
            f"{tensor.name} is inlined: there is no memory of it",
            f"prefetch what it reads: {', '.join(t.name for t in made.op.input_tensors)}",
        )
    place = stage.leaf_iter_vars.index(leaf)
    if is_below(made, stage, stage.leaf_iter_vars[place:]):
        raise LowerError(
            request,
            f"{tensor.name} is computed in this loop, anew in each iteration",
            f"prefetch what it reads: {', '.join(t.name for t in made.op.input_tensors)}",
        )
    buffer = buffers[(made, tensor.value_index)]
    if not any(n.buffer is buffer for n in nodes_of(body, BufferLoad)):
        raise LowerError(
            request,
            f"the loop {leaf.var.name} of {stage.op.name} reads nothing of {tensor.name}",
            "prefetch in a loop around what reads it",
        )
    return buffer
