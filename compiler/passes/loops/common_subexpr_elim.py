"""CommonSubexprElimTIR: what a statement computes twice, it computes once.

C[i] = A[i * n + j] * A[i * n + j]     ->     cse_v1 = A[i * n + j]
                                              C[i] = cse_v1 * cse_v1

It is left out by default: the generators here write each operation once, in the outermost loop
where its operands are known, which sees more than single statements. It serves to read loop IR.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from whet.compiler.arith import Analyzer
from whet.compiler.arith.keys import structural_key
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.analysis.effects import is_pure
from whet.compiler.tir.expr import (
    Broadcast,
    BufferLoad,
    BufferView,
    Call,
    Cast,
    Let,
    PrimExpr,
    Ramp,
    Reduce,
    Shuffle,
    Var,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import BufferStore, LetStmt, Stmt
from whet.compiler.tir.visit.rewrite import LEAVES, TABLE, Rewriter, variables

_NEVER = (Ramp, Broadcast, BufferView, Shuffle, Cast)


def common_subexpr_elim(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with a variable for what a store computes several times."""
    names = iter(f"cse_v{k}" for k in range(1, 1 << 30))
    equivalent = config["tir.enable_equiv_terms_in_cse_tir"]
    rewrite = Rewriter({BufferStore: lambda n: _store(n, names, equivalent)})
    return func.with_body(rewrite(func.body))


def _store(n: BufferStore, names: Iterator[str], equivalent: bool) -> Stmt:
    found: list[tuple[Var, PrimExpr]] = []
    while True:
        common = _largest([n.value, *n.indices, *[v for _, v in found]], equivalent)
        if common is None:
            break
        key, value = common
        var = Var(next(names), value.dtype)
        swap = _Swap(key, var, equivalent)
        n = swap.children(n)
        found = [(v, swap(x)) for v, x in found]
        found.insert(_after(found, value), (var, value))
    out: Stmt = n
    for var, value in reversed(found):  # the first of them is the outermost
        out = LetStmt(var, value, out)
    return out


def _after(found: list[tuple[Var, PrimExpr]], value: PrimExpr) -> int:
    """The place behind all variables that a value uses; the parts of larger values come first."""
    used = variables(value)
    return 1 + max((k for k, (var, _) in enumerate(found) if var in used), default=-1)


def _largest(roots: list[PrimExpr], equivalent: bool) -> tuple[Hashable, PrimExpr] | None:
    """The largest expression that is surely computed more than once."""
    counts: dict[Hashable, tuple[int, int, PrimExpr]] = {}

    def visit(n: PrimExpr) -> int:
        """The size of an expression; counts it where it is evaluated in any case."""
        if type(n) in LEAVES:
            return 0
        if isinstance(n, Call) and n.op == "if_then_else":
            return 1 + visit(n.args[0])
        if isinstance(n, (Let, Reduce)):
            return 1
        size = 1 + sum(visit(p) for p in n.parts)
        masked = isinstance(n, BufferLoad) and n.mask is not None
        if dt.lanes(n.dtype) == 1 and not isinstance(n, _NEVER) and not masked and is_pure(n):
            key = _key(n, equivalent)
            times, _, first = counts.get(key, (0, 0, n))
            counts[key] = (times + 1, size, first)
        return size

    for r in roots:
        visit(r)
    repeated = [(size, key, n) for key, (times, size, n) in counts.items() if times > 1]
    return max(repeated, key=lambda x: x[0])[1:] if repeated else None


def _key(n: PrimExpr, equivalent: bool) -> Hashable:
    if equivalent and n.dtype in ("int32", "int64"):
        return (n.dtype, Analyzer().affine(n).key)
    return structural_key(n)


class _Swap(Rewriter):
    """Puts a variable in place of an expression."""

    def __init__(self, key: Hashable, var: Var, equivalent: bool) -> None:
        super().__init__()
        self.key, self.var, self.equivalent = key, var, equivalent
        expressions = [k for k in TABLE if issubclass(k, PrimExpr) and k not in LEAVES]
        self.rules |= {k: self._swap for k in expressions}

    def _swap(self, n: PrimExpr) -> PrimExpr:
        if isinstance(n, (Let, Reduce)):
            return n
        if n.dtype == self.var.dtype and _key(n, self.equivalent) == self.key:
            return self.var
        return self.children(n)
