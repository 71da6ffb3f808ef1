"""Index arithmetic and addresses.

Indices are i64 sums on affine forms, with the numbers of unrolled loops folded in. A pointer is the
buffer plus the outermost variables' part first, so that each part is written as far out as it can
be and what is left in the innermost loop is a constant offset.
"""

from __future__ import annotations

from collections.abc import Callable

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.codegen.llvm.arithmetic import floor_divided
from whet.compiler.codegen.llvm.scope import Scope
from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    DIVISIONS,
    Add,
    BinaryOp,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    SizeVar,
    Sub,
    Var,
)
from whet.compiler.tir.ops.ops import FOLD

_LINEAR_ATOMS = (FloorDiv, FloorMod, Min, Max, Mul)
_INDEX_NODES = (Add, Sub, *_LINEAR_ATOMS)
INDEX_TYPES = ("int32", "int64")


class Indices:
    """Writes indices.

    Args:
        scope: of the function.
        value: writes what is no index: a load, a call.
    """

    def __init__(self, scope: Scope, value: Callable[[PrimExpr], str]) -> None:
        self.out, self.env, self.pointers = scope.out, scope.env, scope.pointers
        self._value = value
        self._analyzer = Analyzer()
        self._forms: dict[int, tuple[PrimExpr, Affine]] = {}

    def is_index(self, n: PrimExpr) -> bool:
        """True where a scalar integer expression is made of loop variables alone."""
        if n.dtype not in INDEX_TYPES:
            return False
        kind = type(n)
        if kind in (Var, SizeVar):
            return n in self.env
        if kind is IntImm:
            return True
        if kind in _INDEX_NODES:
            return self.is_index(n.a) and self.is_index(n.b)  # type: ignore[attr-defined]
        return False

    def linear(self, n: PrimExpr) -> Affine:
        """An index as a form of i64 values, numbers of unrolled loops folded in."""
        cached = self._forms.get(id(n))
        if cached is None:
            cached = (n, self._analyzer.affine(n))
            self._forms[id(n)] = cached
        return cached[1].mapped(self._atom, self.env)

    def _atom(self, atom: PrimExpr) -> Affine:
        """The form of an atom that is computed here: all but a variable."""
        if type(atom) in _LINEAR_ATOMS:
            return self._linear_op(atom)  # type: ignore[arg-type]
        return form_of(self.widened(self._value(atom), atom.dtype))

    def widened(self, value: str, dtype: str) -> str:
        """An integer or bool as i64."""
        if dt.bits(dtype) == 64:
            return value
        how = "sext" if dtype.startswith("int") else "zext"
        return self.out.cast(how, ty.type_of(dtype), value, "i64")

    def _linear_op(self, n: BinaryOp) -> Affine:
        x, y = self.linear(n.a), self.linear(n.b)
        kind = type(n)
        if x.is_const and y.is_const:
            if y.const == 0 and kind in DIVISIONS:
                raise CodegenError("an index", "it divides by zero")
            return Affine.constant(FOLD[kind](x.const, y.const))
        a, b = self.i64(x), self.i64(y)
        if kind is Mul:
            return form_of(self.out.op("mul nsw", "i64", a, b))
        if kind in (Min, Max):
            c = self.out.op("icmp slt" if kind is Min else "icmp sgt", "i64", a, b)
            return form_of(self.out.select("i64", c, a, b))
        number = y.const if y.is_const else None
        if kind is FloorDiv or (number is not None and number > 0 and not number & (number - 1)):
            op = "div" if kind is FloorDiv else "rem"
            return form_of(floor_divided(self.out, op, a, b, "int64", number))
        quotient = floor_divided(self.out, "div", a, b, "int64", number)
        whole = self.out.op("mul nsw", "i64", quotient, b)
        return form_of(self.out.op("sub nsw", "i64", a, whole))

    def _by_depth(self, form: Affine) -> list[tuple[str, int]]:
        """The values and coefficients of a form, those of outer loops first."""
        terms = form.terms.values()
        if len(terms) < 2:
            return list(terms)
        depth = self.out.depth
        return sorted(terms, key=lambda t: depth(t[0]))

    def i64(self, form: Affine) -> str:
        """A form as one i64 value."""
        const, total, pure = form.const, "", self.out.pure
        for v, c in self._by_depth(form):
            part = v if c == 1 else pure(f"mul nsw i64 {v}, {c}", v)
            total = pure(f"add nsw i64 {total}, {part}", total, part) if total else part
        if not total:
            return str(const)
        return pure(f"add nsw i64 {total}, {const}", total) if const else total

    def value_of(self, n: PrimExpr) -> str:
        """An index as a value of its own type."""
        value = self.i64(self.linear(n))
        if is_number(value) or n.dtype == "int64":
            return value
        return self.out.cast("trunc", "i64", value, ty.type_of(n.dtype))

    def pointer(self, buffer: Buffer, index: Affine) -> str:
        """The address of an element."""
        p, pure = self.pointers[id(buffer)], self.out.pure
        element = ty.memory_type(buffer.dtype)
        for v, c in self._by_depth(index):
            step = v if c == 1 else pure(f"mul nsw i64 {v}, {c}", v)
            p = pure(f"getelementptr {element}, ptr {p}, i64 {step}", p, step)
        const = index.const
        return pure(f"getelementptr {element}, ptr {p}, i64 {const}", p) if const else p

    def of_lanes(self, index: PrimExpr) -> list[Affine]:
        """The index of each lane of a vector of indices."""
        name, lanes = dt.split(index.dtype)
        if isinstance(index, Ramp):
            base = self.linear(index.base)
            return [base.shifted(k * index.stride) for k in range(lanes)]
        v, kind = self._value(index), ty.type_of(index.dtype)
        forms = []
        for k in range(lanes):
            one = self.out.extract(kind, v, k)
            if dt.bits(name) < 64:
                one = self.out.cast("sext", ty.type_of(name), one, "i64")
            forms.append(form_of(one))
        return forms


def form_of(value: str) -> Affine:
    """An i64 value as a form: a number, or a name."""
    return Affine.constant(int(value)) if is_number(value) else Affine.atom(value, value)


def is_number(value: str) -> bool:
    """True if a value is a constant integer."""
    return value.lstrip("-").isdigit()
