"""From blocks to plain loops.

    for i, k in T.grid(4, 8):                     for i in range(4):
        with T.block("B"):                            for k in range(8):
            vi, vk = T.axis.remap("SR", [i, k])           if k == 0:
            with T.init():                  ->                B[i] = 0
                B[vi] = 0                                 B[i] = B[i] + A[i, k]
            B[vi] = B[vi] + A[vi, vk]

A function that a schedule made knows its loops already, with first values set before a reduction
begins and buffers of the size that is read: these it becomes. The rewriting here is for functions
whose blocks were written or changed by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from whet.compiler.errors import LowerError
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import COMM_REDUCE, EQ, BufferLoad, PrimExpr, Var, is_int
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    THREAD_BINDING,
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    has_blocks,
    seq,
)
from whet.compiler.tir.visit.buffers import BufferRewriter
from whet.compiler.tir.visit.rewrite import Rewriter, changed, nodes, substitute

F = TypeVar("F", bound=Callable[..., Any])

#: the attribute of a function that a schedule made: what knows its loops
SCHEDULED = "scheduled"


def without_blocks(func: PrimFunc) -> PrimFunc:
    """The function with plain loops in place of its blocks; itself where it has none.

    Raises:
        LowerError: a block stands there without values for its axes.
    """
    if not has_blocks(func.body):
        return func.without_attr(SCHEDULED)
    known = func.attrs.get(SCHEDULED)
    if known is not None and known.body is func.body:
        loops: Stmt = known.loops()
    else:
        loops = Rewriter({BlockRealize: _realized, Block: _refused, BufferStore: _kept})(func.body)
    return func.with_body(loops).without_attr(SCHEDULED)


def of_loops(function: F) -> F:
    """The same function for callers outside: of a function or a module, blocks become loops."""

    @wraps(function)
    def run(func: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(func, PrimFunc):
            func = without_blocks(func)
        elif isinstance(func, IRModule):
            func = func.map(without_blocks)
        return function(func, *args, **kwargs)

    return cast(F, run)


def _kept(n: BufferStore) -> Stmt:
    return n


def _refused(n: Block) -> Stmt:
    raise LowerError(
        f"lower the block {n.name_hint}",
        "its axes have no values",
        "tir.BlockRealize(values, predicate, block) gives them some",
    )


def _realized(n: BlockRealize) -> Stmt:
    """The statements of a block with the values of its axes."""
    values = {a.var: ops.cast(a.dtype, x) for a, x in zip(n.block.iter_vars, n.iter_values)}
    block: Block = substitute(n.block, values)
    body = block.body
    if block.init is not None:
        body = seq(_at_first(n, block.init), body)
    for m in block.match_buffers:
        body = _matched(m, body)
    body = Rewriter({BlockRealize: _realized, Block: _refused, BufferStore: _kept})(body)
    for key, value in block.annotations.items():
        if key.startswith("pragma_"):
            body = AttrStmt(None, key, ops.convert(value), body)
    for b in reversed(block.alloc_buffers):
        body = _allocated(b, body)
    certain = is_int(n.predicate, 1)
    return body if certain else IfThenElse(n.predicate, body, None, likely=True)


def _at_first(n: BlockRealize, init: Stmt) -> Stmt:
    """The first values, set where each reduced axis has its first one."""
    tests = [
        ops.compare(EQ, value, a.domain.min)
        for a, value in zip(n.block.iter_vars, n.iter_values)
        if a.iter_type == COMM_REDUCE
    ]
    return IfThenElse(ops.all_of(*tests), init) if tests else init


def _matched(m: MatchBufferRegion, body: Stmt) -> Stmt:
    """The statement with a part of a buffer used under its own name."""
    source, ranges = m.source.buffer, m.source.region
    lead = len(ranges) - m.buffer.ndim
    starts = [r.min for r in ranges]
    values: dict[Var, PrimExpr] = {}
    for d, step in enumerate(m.buffer.strides):
        if isinstance(step, Var):
            values[step] = source.steps()[lead + d]
    if isinstance(m.buffer.elem_offset, Var):
        values[m.buffer.elem_offset] = source.offset_of(starts)

    def index(old: Buffer, given: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        inner = [ops.add(a, b) for a, b in zip(starts[lead:], given)]
        return (*starts[:lead], *inner)

    def buffer(b: Buffer) -> Buffer:
        return source if b is m.buffer else b

    return substitute(BufferRewriter(buffer, index)(body), values)


def _allocated(b: Buffer, body: Stmt) -> Stmt:
    """The statement with its buffer; threads have memory of their own, blocks of threads theirs."""
    if b.storage_scope != "global":
        if isinstance(body, SeqStmt):
            users = [k for k, s in enumerate(body.seq) if _uses(b, (s,))]
            if len(users) == 1:
                parts = list(body.seq)
                parts[users[0]] = _allocated(b, parts[users[0]])
                return seq(*parts)
        if isinstance(body, For) and body.kind == THREAD_BINDING:
            own = body.thread.startswith("blockIdx") or b.storage_scope == "local"
            return changed(body, body=_allocated(b, body.body)) if own else Allocate(b, body)
    return Allocate(b, body)


def _uses(b: Buffer, parts: Sequence[Any]) -> bool:
    return any(isinstance(n, (BufferLoad, BufferStore)) and n.buffer is b for n in nodes(parts))
