"""NarrowDataType: loops that count in 64 bits count in 32, where no index needs more.

for i: int64 in range(16):     ->     for i: int32 in range(16):
    C[i * 4] = A[i]                       C[i * 4] = A[i]

A loop stays as it is where an index that it is part of may not fit, or mixes it with a 64-bit
argument.
"""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir.expr import (
    ARITHMETIC,
    COMPARISONS,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Cast,
    CmpOp,
    IntImm,
    Let,
    PrimExpr,
    Ramp,
    Var,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import BufferStore, For, LetStmt, Stmt
from whet.compiler.tir.visit.rewrite import Rewriter, statements_of

_MOST = 2**31 - 1


def narrow_data_type(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with 32-bit loops and indices."""
    analyzer = Analyzer()
    narrow: set[Var] = set()
    _collect(func.body, analyzer, narrow)
    # an index that is too large keeps its variables wide, and with them other indices
    while wide := narrow and narrow & _too_wide(func.body, analyzer, narrow):
        narrow -= wide
    return func.with_body(_Narrow(narrow)(func.body)) if narrow else func


def _collect(n: Stmt | PrimExpr, analyzer: Analyzer, narrow: set[Var]) -> None:
    """The 64-bit loop variables that fit by themselves; the analyzer learns all ranges."""
    if isinstance(n, For):
        analyzer.bind_loop(n.var, n.min, n.extent)
        low, high = analyzer.bounds(Affine({n.var: (n.var, 1)}, 0))
        fits = low is not None and high is not None and low >= -_MOST and high < _MOST
        if fits and n.var.dtype == "int64":
            narrow.add(n.var)
    for p in statements_of(n):
        _collect(p, analyzer, narrow)


def _too_wide(body: Stmt, analyzer: Analyzer, narrow: set[Var]) -> set[Var]:
    """The variables of expressions that do not fit, or that something wide takes part in."""
    out: set[Var] = set()

    def visit(n: Stmt | PrimExpr) -> tuple[set[Var], bool]:
        """The narrow variables whose 64-bit value goes into a node, and whether it fits."""
        if isinstance(n, Var):
            return ({n}, True) if n in narrow else (set(), n.dtype != "int64")
        if isinstance(n, IntImm):
            return set(), abs(n.value) <= _MOST
        parts = [visit(p) for p in n.parts]
        used = set().union(*[u for u, _ in parts]) if parts else set()
        fits = all(ok for _, ok in parts)
        if isinstance(n, ARITHMETIC) and n.dtype == "int64":
            low, high = analyzer.bounds(analyzer.affine(n))
            fits = fits and low is not None and high is not None
            fits = fits and low >= -_MOST and high <= _MOST  # type: ignore[operator]
            if not fits:
                out.update(used)
            return used, fits
        if isinstance(n, BufferStore) and n.value.dtype == "int64":
            out.update(parts[0][0])  # it is data, of the type that the buffer has
        if isinstance(n, (Let, LetStmt)) or (isinstance(n, For) and n.var not in narrow):
            out.update(used)
        if isinstance(n, (CmpOp, Ramp, Broadcast, For)) and not fits:
            out.update(used)
            return set(), True
        if not isinstance(n, (CmpOp, Cast, BufferLoad, Stmt)):
            out.update(used)  # an operation whose type is that of its operands
        return set(), not isinstance(n, PrimExpr) or n.dtype != "int64"

    visit(body)
    return out


class _Narrow(Rewriter):
    def __init__(self, narrow: set[Var]) -> None:
        super().__init__(
            {
                For: self._for,
                **dict.fromkeys((*ARITHMETIC, *COMPARISONS), self._binary),
                Var: lambda v: self.fresh.get(v, v),
                Ramp: self._vector,
                Broadcast: self._vector,
            }
        )
        self.narrow = narrow
        self.fresh: dict[Var, Var] = {}

    def _for(self, n: For) -> For:
        if n.var not in self.narrow:
            return self.children(n)
        var = self.fresh[n.var] = Var(n.var.name, "int32")
        first, extent = _int32(self(n.min)), _int32(self(n.extent))
        return replace(n, var=var, min=first, extent=extent, body=self(n.body))

    def _binary(self, n: BinaryOp) -> PrimExpr:
        a, b = self(n.a), self(n.b)
        if a is n.a and b is n.b:
            return n
        if "int32" in (a.dtype, b.dtype) and a.dtype != b.dtype:
            a, b = _int32(a), _int32(b)
        return type(n)(a, b, n.dtype if isinstance(n, CmpOp) else a.dtype)

    def _vector(self, n: Ramp | Broadcast) -> PrimExpr:
        n = self.children(n)
        (inner,) = n.parts
        kind = f"{inner.dtype}x{n.lanes}"
        return n if kind == n.dtype else replace(n, dtype=kind)


def _int32(n: PrimExpr) -> PrimExpr:
    if n.dtype != "int64":
        return n
    if isinstance(n, IntImm):
        return IntImm("int32", n.value)
    if isinstance(n, ARITHMETIC):  # all of it fits, it was only made of constants
        return type(n)(_int32(n.a), _int32(n.b), "int32")
    return Cast("int32", n)
