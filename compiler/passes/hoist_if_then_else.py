"""HoistIfThenElse: a condition that is the same in each step of a loop is tested once.

    for i in range(n):            if m > 4:
        if m > 4:          ->         for i in range(n):
            C[i] = A[i]                   C[i] = A[i]

The condition must not read what the loop writes. It leaves all loops that it is the whole body of,
innermost first; those bound to GPU threads only with ``support_block_scope_hosting``.
"""

from __future__ import annotations

from whet.compiler.passes.context import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.renew import renewed
from whet.compiler.tir.rewrite import Rewriter, keep, post_order_visit, variables


def hoist_if_then_else(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with invariant conditions outside their loops."""
    threads = config["tir.HoistIfThenElse"]["support_block_scope_hosting"]

    def loop(n: s.For) -> s.Stmt:
        n = rewrite.children(n)
        body = n.body
        if not isinstance(body, s.IfThenElse) or not _invariant(n, body.condition):
            return n
        if n.kind == s.THREAD_BINDING and not threads:
            return n
        if body.else_case is not None and n.kind in (s.PARALLEL, s.THREAD_BINDING):
            return n  # the loop would stand there twice
        other = None if body.else_case is None else renewed(_around(n, body.else_case))
        return s.IfThenElse(body.condition, _around(n, body.then_case), other, body.likely)

    rewrite = Rewriter({s.For: loop, s.BufferStore: keep})
    return func.with_body(rewrite(func.body))


def _around(n: s.For, body: s.Stmt) -> s.For:
    return s.For(n.var, n.min, n.extent, n.kind, body, n.annotations, n.thread)


def _invariant(loop: s.For, condition: e.PrimExpr) -> bool:
    if loop.var in variables(condition) or not is_pure(condition):
        return False
    reads: set[e.Var] = set()
    writes: set[e.Var] = set()
    calls: list[object] = []

    def read(n: object) -> None:
        if isinstance(n, e.BufferLoad):
            reads.add(n.buffer.data)

    def write(n: object) -> None:
        if isinstance(n, s.BufferStore):
            writes.add(n.buffer.data)
        elif isinstance(n, s.Evaluate) and not is_pure(n.value):
            calls.append(n)

    post_order_visit(condition, read)
    if not reads:
        return True
    if not (isinstance(loop.extent, e.IntImm) and loop.extent.value > 0):
        return False  # in no step at all, nothing may be read
    post_order_visit(loop.body, write)
    return not calls and reads.isdisjoint(writes)
