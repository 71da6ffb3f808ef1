"""SkipAssert: assertions are taken for granted.

assert n > 0, "..."     ->     C[0] = A[0]
C[0] = A[0]
"""

from __future__ import annotations

from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import AssertStmt, BufferStore
from whet.compiler.tir.visit.rewrite import Rewriter, keep


def skip_assert(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function without assertions."""
    rewrite = Rewriter({AssertStmt: lambda n: rewrite(n.body), BufferStore: keep})
    return func.with_body(rewrite(func.body))
