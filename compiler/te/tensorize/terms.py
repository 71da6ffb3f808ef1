"""Expressions as terms that are alike where their meaning is.

Integers are told by their values: an operation or a conversion that cannot overflow has no type,
so that ``(a.astype("int16") * b.astype("int16")).astype("int32")`` of two int8 is what
``a.astype("int32") * b.astype("int32")`` is. Sums and products of integers are flat, in any order;
operands of commutative operations are, too. Floats keep the order in which they are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    CmpOp,
    FloatImm,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Select,
    Sub,
    Var,
)  # fmt: skip
from whet.compiler.tir.visit.rewrite import nodes, substitute

Interval = tuple[int, int]

# bits of the integers that a float holds exactly
_EXACT = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
# float -> those that hold all its values
_WIDER = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"),
          "float32": ("float64",)}  # fmt: skip
_COMMUTATIVE = {"add", "mul", "min", "max", "eq", "ne", "and", "or",
                "bitwise_and", "bitwise_or", "bitwise_xor"}  # fmt: skip
_NAMES: dict[type, str] = {
    Add: "add", Mul: "mul", Min: "min", Max: "max", And: "and", Or: "or", Not: "not",
    EQ: "eq", NE: "ne", LT: "lt", LE: "le",
}  # fmt: skip
_TURNED: dict[type, str] = {GT: "lt", GE: "le"}
_INTEGERS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "mul": lambda a, b: _hull([x * y for x in a for y in b]),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}


def _hull(values: list[int]) -> Interval:
    return min(values), max(values)


@dataclass(slots=True, eq=False, frozen=True)
class Term:
    """A part of an expression.

    Attributes:
        op: ``"load"``, ``"index"``, ``"int"``, ``"float"``, ``"var"``, or an operation's name.
        args: its operands.
        dtype: of the value; empty for integers that cannot overflow.
        expr: the expression that it stands for, for errors.
        span: the least and the greatest value of an integer.
        what: a load's tensor, a constant's value, a variable, an index's form.
        indices: a load's forms.
    """

    op: str
    args: tuple[Term, ...]
    dtype: str
    expr: PrimExpr
    span: Interval | None = None
    what: Any = None
    indices: tuple[Affine, ...] = ()

    @property
    def commutes(self) -> bool:
        """True if the order of the operands says nothing."""
        return self.op in _COMMUTATIVE


class Terms:
    """Makes terms of expressions.

    Args:
        analyzer: knows the ranges of loops.
        values: variables of axes -> what stands for them.
    """

    def __init__(self, analyzer: Analyzer, values: Mapping[Var, PrimExpr]) -> None:
        self.analyzer = analyzer
        self.values = dict(values)
        self.axes = set(values)

    def __call__(self, n: PrimExpr) -> Term:
        if isinstance(n, Let):
            return self(substitute(n.body, {n.var: n.value}))
        if isinstance(n, ProducerLoad):
            forms = tuple(self.form(i) for i in n.indices)
            tensor = n.producer
            assert isinstance(tensor, Tensor)
            return Term("load", (), n.dtype, n, _span_of(n.dtype), tensor, forms)
        if self._is_index(n):
            form = self.form(n)
            if form.is_const:
                return Term("int", (), "", n, (form.const, form.const), form.const)
            span = self.analyzer.bounds(form)
            known = span if None not in span else _span_of(n.dtype)
            return Term("index", (), "", n, known, form)  # type: ignore[arg-type]
        if isinstance(n, IntImm):
            return Term("int", (), "", n, (n.value, n.value), n.value)
        if isinstance(n, FloatImm):
            return Term("float", (), n.dtype, n, None, n.value)
        if isinstance(n, Var):
            return Term("var", (), n.dtype, n, _span_of(n.dtype), n)
        if isinstance(n, Cast):
            return self._cast(n)
        return self._operation(n)

    def form(self, n: PrimExpr) -> Affine:
        """An index as an affine form over the loops."""
        return self.analyzer.affine(substitute(n, self.values))

    def _is_index(self, n: PrimExpr) -> bool:
        """True for integers made of axes, sizes and numbers, which are compared as forms."""
        if not dt.is_int(n.dtype) or dt.lanes(n.dtype) > 1 or isinstance(n, IntImm):
            return False
        seen = nodes((n,))
        plain = all(isinstance(x, (BinaryOp, Cast, IntImm, Var)) for x in seen)
        whole = all(dt.is_int(x.dtype) for x in seen if isinstance(x, PrimExpr))
        return plain and whole and any(x in self.axes for x in seen if isinstance(x, Var))

    def _cast(self, n: Cast) -> Term:
        x = self(n.value)
        if dt.is_int(n.dtype) and x.span is not None:
            low, high = dt.int_range(dt.element(n.dtype))
            if low <= x.span[0] and x.span[1] <= high:
                return x
        if dt.is_float(n.dtype):
            # what was converted without rounding before
            while x.op == "cast" and _exact(x.args[0], x.dtype):
                x = x.args[0]
            if x.dtype == n.dtype:
                return x
        return Term("cast", (x,), n.dtype, n, _span_of(n.dtype))

    def _operation(self, n: PrimExpr) -> Term:
        if isinstance(n, Sub) and dt.is_int(n.dtype):
            minus = Term("int", (), "", n.b, (-1, -1), -1)
            return self._made("add", [self(n.a), self._made("mul", [minus, self(n.b)], n)], n)
        if isinstance(n, CmpOp) and type(n) in _TURNED:
            return self._made(_TURNED[type(n)], [self(n.b), self(n.a)], n)
        if isinstance(n, Call):
            if n.op == "likely":
                return self(n.args[0])
            name = "select" if n.op == "if_then_else" else str(n.op)
            return self._made(name, [self(a) for a in n.args], n)
        if isinstance(n, Select):
            return self._made("select", [self(p) for p in n.parts], n)
        name = _NAMES.get(type(n), type(n).__name__)
        return self._made(name, [self(p) for p in n.parts], n)

    def _made(self, op: str, args: list[Term], n: PrimExpr) -> Term:
        spans = [x.span for x in args]
        span, dtype = _span_of(n.dtype), n.dtype
        if dt.is_int(n.dtype) and op in _INTEGERS and all(s is not None for s in spans):
            exact = _INTEGERS[op](spans[0], spans[1])  # type: ignore[arg-type]
            if span is not None and span[0] <= exact[0] and exact[1] <= span[1]:
                span, dtype = exact, ""
        if op in ("add", "mul") and dt.is_int(n.dtype):
            args = _flat(op, dtype, args, n)
            if len(args) == 1:
                return args[0]
        return Term(op, tuple(args), dtype, n, span)


def _flat(op: str, dtype: str, args: list[Term], n: PrimExpr) -> list[Term]:
    """The operands of a sum or a product of integers, its constants as one."""
    flat: list[Term] = []
    for x in args:
        flat += x.args if x.op == op and x.dtype in ("", dtype) else (x,)
    known = [x.what for x in flat if x.op == "int"]
    total = sum(known) if op == "add" else 1
    for k in known if op == "mul" else ():
        total *= k
    rest = [x for x in flat if x.op != "int"]
    neutral = 0 if op == "add" else 1
    if total != neutral or not rest:
        rest.append(Term("int", (), "", n, (total, total), total))
    return rest


def _span_of(dtype: str) -> Interval | None:
    name = dt.element(dtype)
    if dt.is_bool(name) or not dt.is_int(name):
        return None
    return dt.int_range(name)


def _exact(x: Term, dtype: str) -> bool:
    """True if a float type holds every value of a term."""
    if x.span is not None:
        most = 1 << _EXACT[dt.element(dtype)]
        return -most <= x.span[0] and x.span[1] <= most
    return dtype in _WIDER.get(x.dtype, ())
