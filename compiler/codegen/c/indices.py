"""Subscripts and bounds as C text, and the elements that they name.

They are sums in the type of subscripts, which is wide enough for them, and do not wrap. A division
by a number needs no care for signs where the dividend is surely not negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.codegen.c.precedence import ADD, ATOM, MUL, UNARY, Text, paren, signed_text
from whet.compiler.codegen.c.scope import Scope
from whet.compiler.codegen.constants import constant
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    Add,
    BinaryOp,
    Broadcast,
    Cast,
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

_INTEGERS = ("int32", "int64")
_INDEX_NODES = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)


class Indices:
    """Writes indices.

    Args:
        scope: of the kernel.
        value: writes what is no index: a load, a call.
    """

    def __init__(self, scope: Scope, value: Callable[[PrimExpr], Text]) -> None:
        self.scope = scope
        self.d, self.use, self.names = scope.d, scope.use, scope.names
        self.integers, self.analyzer = scope.integers, scope.analyzer
        self._value = value
        self._rules: dict[type, Callable[[Any], Text]] = {
            IntImm: lambda n: signed_text(self._number(n.value)),
            Var: self._var,
            SizeVar: self._var,
            Ramp: self._ramp,
            Broadcast: lambda n: self._text(n.value),
            Mul: self._product,
            **dict.fromkeys((Add, Sub), self._sum),
            **dict.fromkeys((FloorDiv, FloorMod), self._division),
            Min: lambda n: self._called("min", n),
            Max: lambda n: self._called("max", n),
            Cast: self._cast,
        }

    def index(self, n: PrimExpr, outer: int = 0) -> str:
        """An integer as a subscript or a bound: computed in the type of subscripts."""
        if type(n) in (Var, SizeVar) and n in self.integers:
            return self.names.of(n)
        return paren(self._text(n), outer)

    def is_index(self, n: PrimExpr) -> bool:
        """True if an integer is made of loop variables, sizes and numbers alone."""
        kind = type(n)
        if kind in (Var, SizeVar):
            return n in self.integers
        if kind in (Ramp, Broadcast):
            inner = n.base if kind is Ramp else n.value  # type: ignore[attr-defined]
            return dt.is_int(inner.dtype) and (kind is Ramp or self.is_index(inner))
        if kind not in _INDEX_NODES or dt.element(n.dtype) not in _INTEGERS:
            return False
        return all(
            type(x) is IntImm or self.is_index(x)
            for x in (n.a, n.b)  # type: ignore[attr-defined]
        )

    def value_of(self, n: PrimExpr) -> Text:
        """An index as a value of its own type, which is shorter than that of subscripts."""
        text = self._text(n)
        plain = type(n) in (Var, SizeVar) or dt.bits(n.dtype) >= self.d.index_bits
        if plain or self._fits(n):
            return text
        return f"({self.d.value_type(n.dtype)}){paren(text, UNARY)}", UNARY

    def _fits(self, n: PrimExpr) -> bool:
        if dt.lanes(n.dtype) > 1:
            return False
        low, high = self.analyzer.bounds(self.analyzer.affine(n))
        half = 1 << (dt.bits(n.dtype) - 1)
        return low is not None and high is not None and -half <= low and high < half

    def _text(self, n: PrimExpr) -> Text:
        return self._rules.get(type(n), self._other)(n)

    def _other(self, n: PrimExpr) -> Text:
        return self._widened(self._value(n), n.dtype, False)

    def _var(self, n: Var) -> Text:
        if n not in self.integers:
            return self._other(n)
        return self._widened((self.names.of(n), ATOM), n.dtype, self.integers[n])

    def _called(self, op: str, n: BinaryOp) -> Text:
        """An operation by a small function."""
        name = self.use.get(op, self.d.index_dtype)
        return f"{name}({self.index(n.a)}, {self.index(n.b)})", ATOM

    def _cast(self, n: Cast) -> Text:
        src, dst = dt.element(n.value.dtype), dt.element(n.dtype)
        integers = src in _INTEGERS and dst in _INTEGERS
        return self._text(n.value) if integers and dt.bits(dst) >= dt.bits(src) else self._other(n)

    def _number(self, value: int) -> str:
        return str(value) if abs(value) < 1 << 31 else self.d.long_constant(value)

    def _widened(self, text: Text, dtype: str, wide: bool) -> Text:
        """A value in the type of subscripts."""
        short = dt.bits(dtype) < self.d.index_bits or dt.is_bool(dtype)
        same = dt.element(dtype) == self.d.index_dtype
        if wide or same or (not short and not dt.is_uint(dtype)):
            return text
        if self.d.index_bits == 32 and short:
            return text  # integers shorter than int become int by themselves
        return f"({self.d.index}){paren(text, UNARY)}", UNARY

    def _ramp(self, n: Ramp) -> Text:
        base = self._text(n.base)
        if isinstance(self.scope.lane, int):
            return self._offset(base, self.scope.lane * n.stride)
        if self.scope.lane is None:
            raise CodegenError("write a vector", "it stands where a single value is needed")
        if n.stride == 1:
            step = self.scope.lane
        else:
            by = f"{n.stride}" if n.stride > 0 else f"({n.stride})"
            step = f"{self.scope.lane} * {by}"
        if base[0] == "0":
            return step, ATOM if n.stride == 1 else MUL
        return f"{paren(base, ADD)} + {step}", ADD

    def _offset(self, base: Text, by: int) -> Text:
        if base[0].lstrip("-").isdigit():
            return signed_text(self._number(int(base[0]) + by))
        if by == 0:
            return base
        return f"{paren(base, ADD)} {'+' if by > 0 else '-'} {self._number(abs(by))}", ADD

    def _product(self, n: BinaryOp) -> Text:
        return f"{paren(self._text(n.a), MUL)} * {paren(self._text(n.b), UNARY)}", MUL

    def _sum(self, n: BinaryOp) -> Text:
        symbol, b = n.symbol, n.b
        if symbol == "+" and isinstance(b, IntImm) and b.value < 0:
            symbol, b = "-", IntImm(b.dtype, -b.value)
        elif symbol == "+" and isinstance(b, Mul) and isinstance(b.b, IntImm) and b.b.value < 0:
            symbol = "-"
            b = b.a if b.b.value == -1 else Mul(b.a, IntImm(b.b.dtype, -b.b.value), b.dtype)
        left, right = self._text(n.a), self._text(b)
        if right[0] == "0":
            return left
        if left[0] == "0" and symbol == "+":
            return right
        return f"{paren(left, ADD)} {symbol} {paren(right, MUL)}", ADD

    def _division(self, n: BinaryOp) -> Text:
        number = constant(n.b)
        floor = isinstance(n, FloorDiv)
        if number is not None and number > 0 and self.never_negative(n.a):
            a = paren(self._text(n.a), MUL)
            return f"{a} {'/' if floor else '%'} {self._number(number)}", MUL
        return self._called("floordiv" if floor else "floormod", n)

    def never_negative(self, n: PrimExpr) -> bool:
        """True if an integer is surely 0 or more."""
        if dt.is_uint(n.dtype):
            return True
        if isinstance(n, Ramp):
            return n.stride >= 0 and self.never_negative(n.base)
        if dt.lanes(n.dtype) > 1:
            return isinstance(n, (Add, Mul, FloorDiv)) and all(
                self.never_negative(x) for x in (n.a, n.b)
            )
        if isinstance(n, Broadcast):
            n = n.value
        return self.analyzer.at_most_zero(self.analyzer.affine(n).scaled(-1))

    def element(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> str:
        """An element of a buffer, as it stands in memory."""
        at = indices[0] if len(indices) == 1 and not buffer.strides else None
        if at is None:
            at = self.analyzer.affine(buffer.offset_of(indices)).to_expr("int64")
        else:
            at = from_pointer(buffer, at)
        return f"{self.scope.pointer(buffer)}[{self.index(at)}]"


def from_pointer(buffer: Buffer, at: PrimExpr) -> PrimExpr:
    """An index of a buffer's first dimension as one from its pointer."""
    first = buffer.elem_offset
    return at if isinstance(first, IntImm) and first.value == 0 else Add(at, first, at.dtype)
