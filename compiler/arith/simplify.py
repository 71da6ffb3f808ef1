"""The simplifier: integer expressions become canonical affine forms, conditions are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    COMPARISONS,
    INDEX_ARITHMETIC,
    Add,
    And,
    BinaryOp,
    BufferLoad,
    Call,
    Cast,
    CmpOp,
    Div,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Select,
    Sub,
    Var,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter, changed

if TYPE_CHECKING:
    from whet.compiler.arith.analyzer import Analyzer

_INDICES = ("int32", "int64")
_LOADS = (BufferLoad, ProducerLoad)
_WRAPPING = (Add, Sub, Mul)
_DATA = (BufferLoad, ProducerLoad, Cast, Call, Select)


def _opaque(n: PrimExpr) -> bool:
    """True for an atom with something that the analyzer does not look into, such as a load."""
    if isinstance(n, (Var, IntImm)):
        return False
    return type(n) not in INDEX_ARITHMETIC or _opaque(n.a) or _opaque(n.b)  # type: ignore[attr-defined]


def _computes_with_data(n: BinaryOp) -> bool:
    """True where an operand, or one of an operand, is a load or the like: no index."""
    for x in (n.b, n.a):
        if type(x) in _DATA:
            return True
        if type(x) in INDEX_ARITHMETIC and (type(x.b) in _DATA or type(x.a) in _DATA):  # type: ignore[attr-defined]
            return True
    return False


def _sums_data(n: PrimExpr, known: dict[int, tuple[PrimExpr, bool, bool]]) -> bool:
    """True where a sum or product in an expression has an element among its operands.

    ``known`` keeps the answers for nodes that stand in several places.
    """
    waiting = [n]
    while waiting:
        x = waiting[-1]
        if id(x) in known:
            waiting.pop()
            continue
        parts = () if type(x) in _LOADS else x.parts
        unknown = [p for p in parts if id(p) not in known]
        if unknown:
            waiting += unknown
            continue
        waiting.pop()
        loads = type(x) in _LOADS or any(known[id(p)][1] for p in parts)
        sums = any(known[id(p)][2] for p in parts) or (loads and type(x) in _WRAPPING)
        known[id(x)] = (x, loads, sums)
    return known[id(n)][2]


class Simplifier(Rewriter):
    """Simplifies expressions (:mod:`passes.simplify` does statements) with an analyzer's facts."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(
            {
                **dict.fromkeys((*INDEX_ARITHMETIC, Div, Mod), self._integer),
                **dict.fromkeys(COMPARISONS, self._compare),
                And: self._and,
                Or: self._or,
                Not: lambda n: ops.logical_not(self(n.a)),
                Var: self._var,
                Select: self._select,
                Call: self._call,
                BufferLoad: self._load,
                ProducerLoad: self._load,
            }
        )
        self.analyzer = analyzer
        self._within_index = False
        self._within_value = False
        self._wrapping: dict[int, tuple[PrimExpr, bool, bool]] = {}  # by identity, which it keeps

    def _load(self, n: PrimExpr) -> PrimExpr:
        outside, self._within_index = self._within_index, True
        out = self.children(n)
        self._within_index = outside
        return out

    def _wraps(self, *parts: PrimExpr) -> bool:
        """True where arithmetic on elements is among some parts of a value: it wraps around.

        What the analyzer proves holds without overflow: of indices, which stay in memory.
        """
        return not self._within_index and any(_sums_data(n, self._wrapping) for n in parts)

    def _var(self, n: Var) -> PrimExpr:
        known = self.analyzer.fixed.get(n)
        return n if known is None else known.to_expr(n.dtype)

    def _integer(self, n: BinaryOp) -> PrimExpr:
        if n.dtype not in _INDICES:  # narrow and unsigned arithmetic wraps, so it is not affine
            return self._float(n)
        if _computes_with_data(n) or self._wraps(n):
            return self.children(n)
        form = self.analyzer.affine(n)
        for atom, _ in form.terms.values():
            if type(atom) is not Var and _opaque(atom):  # what is inside is simplified first
                inside = self.children(n)
                return self._in_type(self.analyzer.affine(inside).to_expr(n.dtype), inside)
        return self._in_type(form.to_expr(n.dtype), n)

    def _in_type(self, form: PrimExpr, n: BinaryOp) -> PrimExpr:
        """A canonical form; of a value that it would make wider, what it was before."""
        widened = form.dtype != n.dtype and self._within_value and not self._within_index
        return self.children(n) if widened else form

    def _float(self, n: BinaryOp) -> PrimExpr:
        out = self.children(n)
        if type(out) in (Add, Sub, Mul, Min, Max):
            a, b = out.a, out.b
            if isinstance(b, FloatImm) and b.value == 1.0 and type(out) is Mul:
                return a
            if isinstance(a, FloatImm) and a.value == 1.0 and type(out) is Mul:
                return b
        return out

    def _compare(self, n: CmpOp) -> PrimExpr:
        if n.a.dtype not in _INDICES:
            return self.children(n)
        known = None if self._wraps(n.a, n.b) else self.analyzer.compare(n)
        return self.children(n) if known is None else ops.const(known)

    def _and(self, n: And) -> PrimExpr:
        a = self(n.a)
        if dt.lanes(a.dtype) > 1:
            return ops.logical_and(a, self(n.b))
        if self._wraps(a):
            b = self(n.b)
        else:
            with self.analyzer.assuming(a):
                b = self(n.b)
        return n if a is n.a and b is n.b else ops.logical_and(a, b)

    def _or(self, n: Or) -> PrimExpr:
        a, b = self(n.a), self(n.b)
        return n if a is n.a and b is n.b else ops.logical_or(a, b)

    def _select(self, n: Select) -> PrimExpr:
        c = self(n.condition)
        if isinstance(c, IntImm):
            return self(n.true_value if c.value else n.false_value)
        t, f = self(n.true_value), self(n.false_value)
        return changed(n, condition=c, true_value=t, false_value=f)

    def _call(self, n: Call) -> PrimExpr:
        if n.op != "if_then_else":
            return self.children(n)
        c = self(n.args[0])
        if isinstance(c, IntImm):
            return self(n.args[1] if c.value else n.args[2])
        if self._wraps(c):
            t = self(n.args[1])
        else:
            with self.analyzer.assuming(c):
                t = self(n.args[1])
        return changed(n, args=(c, t, self(n.args[2])))
