"""RemoveNoOp: no loops, branches or buffers that nothing needs.

T = allocate([64])
for i in range(n):       ->  pass
    pass
"""

from __future__ import annotations

from whet.compiler.passes.context import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.rewrite import Rewriter, keep, post_order_visit


def remove_no_op(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function without statements that have no effect."""
    used = set()

    def visit(n: object) -> None:
        if type(n) in (e.BufferLoad, s.BufferStore):
            used.add(id(n.buffer))  # type: ignore[attr-defined]

    post_order_visit(func.body, visit)

    def loop(n: s.For) -> s.Stmt:
        n = rewrite.children(n)
        none = isinstance(n.extent, e.IntImm) and n.extent.value <= 0
        return s.nothing() if none or s.is_nothing(n.body) else n

    def branch(n: s.IfThenElse) -> s.Stmt:
        n = rewrite.children(n)
        empty = n.else_case is None or s.is_nothing(n.else_case)
        return s.nothing() if empty and s.is_nothing(n.then_case) else n

    def allocate(n: s.Allocate) -> s.Stmt:
        n = rewrite.children(n)
        return n.body if id(n.buffer) not in used or s.is_nothing(n.body) else n

    rewrite = Rewriter(
        {s.For: loop, s.IfThenElse: branch, s.Allocate: allocate, s.BufferStore: keep}
    )
    return func.with_body(rewrite(func.body))
