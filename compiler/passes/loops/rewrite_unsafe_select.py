"""RewriteUnsafeSelect: a choice between values that may not both be read becomes a branch.

C[i] = select(i > 0, A[i - 1], 0)     ->     C[i] = if_then_else(i > 0, A[i - 1], 0)

``select`` evaluates both values. It stays where all that it reads is surely in range.
"""

from __future__ import annotations

from whet.compiler.passes.contract.facts import FactsRewriter
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.expr import DIVISIONS, BufferLoad, Call, IntImm, PrimExpr, Select
from whet.compiler.tir.function import PrimFunc


def rewrite_unsafe_select(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function whose choices read nothing out of range."""

    def choose(n: Select) -> PrimExpr:
        if dt.lanes(n.condition.dtype) > 1 or (safe(n.true_value) and safe(n.false_value)):
            return rewrite.children(n)
        n = rewrite.children(n)
        return Call(n.dtype, "if_then_else", (n.condition, n.true_value, n.false_value))

    def safe(n: PrimExpr) -> bool:
        """True if a value may be computed though it is not wanted."""
        if isinstance(n, BufferLoad) and not rewrite.in_range(n.buffer, n.indices):
            return False
        if isinstance(n, DIVISIONS) and not dt.is_float(n.dtype) and not _is_number(n.b):
            return False
        if isinstance(n, Call):
            if n.op == "if_then_else":  # its values are guarded by its condition
                return safe(n.args[0])
            if not is_pure(n):
                return False
        return all(safe(p) for p in n.parts)

    rewrite = FactsRewriter({Select: choose})
    return func.with_body(rewrite(func.body))


def _is_number(n: PrimExpr) -> bool:
    return isinstance(n, IntImm) and n.value != 0
