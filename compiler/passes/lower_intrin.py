"""LowerIntrin: calls of intrinsics that a user has rules for become what the rules say.

B[i] = my_exp(A[i])     ->     B[i] = expf(A[i])
"""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import LowerError, WhetError
from whet.compiler.passes.authoring import changed_functions
from whet.compiler.target import Target
from whet.compiler.tir.expr import Call, PrimExpr
from whet.compiler.tir.function import IRModule
from whet.compiler.tir.ops.intrinsics import LOWERINGS
from whet.compiler.tir.visit.rewrite import Rewriter

#: a rule's result is lowered again, so often
_DEPTH = 32


def lower_intrin(mod: IRModule, target: Target) -> IRModule:
    """The module with the rules of :mod:`tir.intrinsics` applied; itself where there are none.

    Raises:
        LowerError: a rule fails, gives no expression of the call's type, or never comes to an end.
    """
    kinds = ("default", str(target.kind))
    rules = {name: rule for k in kinds for (kind, name), rule in LOWERINGS.items() if kind == k}
    if not rules:
        return mod

    def lowered(n: Call) -> PrimExpr:
        for _ in range(_DEPTH):
            n = rewrite.children(n)
            rule = rules.get(n.op) if type(n) is Call else None
            out = None if rule is None else _applied(rule[1], n)
            if out is None or out is n:
                return n
            if type(out) is not Call:
                return rewrite(out)
            n = out
        raise LowerError(f"lower tir.{n.op}", f"its rule gives calls of itself, {_DEPTH} times")

    rewrite = Rewriter({Call: lowered})

    return changed_functions(mod, lambda _, func: func.with_body(rewrite(func.body)))


def _applied(rule: Any, n: Call) -> PrimExpr | None:
    request = f"lower tir.{n.op} by {getattr(rule, '__name__', 'its rule')}"
    try:
        out = rule(n)
    except WhetError:
        raise
    except Exception as error:
        raise LowerError(request, f"it raised {type(error).__name__}: {error}") from error
    if out is not None and (not isinstance(out, PrimExpr) or out.dtype != n.dtype):
        found = out.dtype if isinstance(out, PrimExpr) else f"a {type(out).__name__}"
        raise LowerError(
            request, f"it gave {found} for a {n.dtype}", "return an expression, or None"
        )
    return out
