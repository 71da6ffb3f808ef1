"""Subscripts and bounds as C text, and the elements that they name.

They are sums in the type of subscripts, which is wide enough for them, and do not wrap. A division
by a number needs no care for signs where the dividend is surely not negative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.c.dialect import Dialect
from whet.compiler.codegen.c.functions import Functions
from whet.compiler.codegen.c.names import Names
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.buffer import Buffer

# how tightly a text binds, as in C's grammar
ATOM, UNARY, MUL, ADD, SHIFT, LESS, EQUAL, BITS, AND, OR, CHOICE = (
    *(15, 14, 13, 12, 11, 10, 9, 6, 5, 4, 3),
)
Text = tuple[str, int]

_INDEX_NODES = (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max)


def paren(text: Text, outer: int) -> str:
    """The text, in parentheses when it binds less than ``outer``."""
    return text[0] if text[1] >= outer else f"({text[0]})"


class Indices(ABC):
    """Writes indices, and keeps what all writers know.

    Attributes:
        d: the dialect.
        use: the functions that the text calls.
        names: of variables and buffers.
        lines, depth: the statements so far, and how far they are indented.
        lane: the lane that is written: a number or a variable's name; None outside vectors.
        integers: variable -> whether it has the type of subscripts; others are values.
        pointers: buffer's id -> the pointer to its memory.
    """

    def __init__(self, dialect: Dialect, use: Functions) -> None:
        self.d = dialect
        self.use = use
        self.names = Names()
        self.lines: list[str] = []
        self.depth = 1
        self.lane: int | str | None = None
        self.integers: dict[e.Var, bool] = {}
        self.values: dict[e.Var, str] = {}
        self.pointers: dict[int, str] = {}
        self.analyzer = Analyzer()
        self.shared: dict[int, int] = {}  # node's id -> number of all that are equal to it
        self.memo: dict[tuple[int, int | str | None], Text] = {}

    @abstractmethod
    def text(self, n: e.PrimExpr) -> Text:
        """The value of an expression, with its precedence."""

    def index(self, n: e.PrimExpr, outer: int = 0) -> str:
        """An integer as a subscript or a bound: computed in the type of subscripts."""
        if type(n) in (e.Var, e.SizeVar) and n in self.integers:
            return self.names.of(n)
        return paren(self._index(n), outer)

    def line(self, text: str) -> None:
        """Append a line at the present depth."""
        self.lines.append("    " * self.depth + text)

    def is_index(self, n: e.PrimExpr) -> bool:
        """True where an integer is made of loop variables, sizes and numbers alone."""
        kind = type(n)
        if kind in (e.Var, e.SizeVar):
            return n in self.integers
        if kind in (e.Ramp, e.Broadcast):
            inner = n.base if kind is e.Ramp else n.value  # type: ignore[attr-defined]
            return dt.is_int(inner.dtype) and (kind is e.Ramp or self.is_index(inner))
        if kind not in _INDEX_NODES or dt.element(n.dtype) not in ("int32", "int64"):
            return False
        return all(
            type(x) is e.IntImm or self.is_index(x)
            for x in (n.a, n.b)  # type: ignore[attr-defined]
        )

    def _index_value(self, n: e.PrimExpr) -> Text:
        """An index as a value of its own type, which is shorter than that of subscripts."""
        text = self._index(n)
        plain = type(n) in (e.Var, e.SizeVar) or dt.bits(n.dtype) >= self.d.index_bits
        if plain or self._fits(n):
            return text
        return f"({self.d.value_type(n.dtype)}){paren(text, UNARY)}", UNARY

    def _fits(self, n: e.PrimExpr) -> bool:
        if dt.lanes(n.dtype) > 1:
            return False
        low, high = self.analyzer.bounds(self.analyzer.affine(n))
        half = 1 << (dt.bits(n.dtype) - 1)
        return low is not None and high is not None and -half <= low and high < half

    def _index(self, n: e.PrimExpr) -> Text:
        kind = type(n)
        if kind is e.IntImm:
            return signed_text(self._number(n.value))  # type: ignore[attr-defined]
        if kind in (e.Var, e.SizeVar) and n in self.integers:
            return self._widened((self.names.of(n), ATOM), n.dtype, self.integers[n])  # type: ignore[index]
        if kind is e.Ramp:
            return self._ramp(n)  # type: ignore[arg-type]
        if kind is e.Broadcast:
            return self._index(n.value)  # type: ignore[attr-defined]
        if kind in (e.Add, e.Sub, e.Mul):
            return self._index_sum(n)  # type: ignore[arg-type]
        if kind in (e.FloorDiv, e.FloorMod):
            return self._index_division(n)  # type: ignore[arg-type]
        if kind in (e.Min, e.Max):
            name = self.use.get("min" if kind is e.Min else "max", self.d.index_dtype)
            return f"{name}({self.index(n.a)}, {self.index(n.b)})", ATOM  # type: ignore[attr-defined]
        if kind is e.Cast and self._widens(n):  # type: ignore[arg-type]
            return self._index(n.value)  # type: ignore[attr-defined]
        return self._widened(self.text(n), n.dtype, False)

    def _number(self, value: int) -> str:
        return str(value) if abs(value) < 1 << 31 else self.d.long_constant(value)

    def _widens(self, n: e.Cast) -> bool:
        src, dst = dt.element(n.value.dtype), dt.element(n.dtype)
        return (
            src in ("int32", "int64") and dst in ("int32", "int64") and dt.bits(dst) >= dt.bits(src)
        )

    def _widened(self, text: Text, dtype: str, wide: bool) -> Text:
        """A value in the type of subscripts."""
        short = dt.bits(dtype) < self.d.index_bits or dt.is_bool(dtype)
        same = dt.element(dtype) == self.d.index_dtype
        if wide or same or (not short and not dt.is_uint(dtype)):
            return text
        if self.d.index_bits == 32 and short:
            return text  # integers shorter than int become int by themselves
        return f"({self.d.index}){paren(text, UNARY)}", UNARY

    def _ramp(self, n: e.Ramp) -> Text:
        base = self._index(n.base)
        if isinstance(self.lane, int):
            return self._offset(base, self.lane * n.stride)
        if self.lane is None:
            raise CodegenError("write a vector", "it stands where a single value is needed")
        if n.stride == 1:
            step = self.lane
        else:
            step = f"{self.lane} * {n.stride}" if n.stride > 0 else f"{self.lane} * ({n.stride})"
        if base[0] == "0":
            return step, ATOM if n.stride == 1 else MUL
        return f"{paren(base, ADD)} + {step}", ADD

    def _offset(self, base: Text, by: int) -> Text:
        if base[0].lstrip("-").isdigit():
            return signed_text(self._number(int(base[0]) + by))
        if by == 0:
            return base
        return f"{paren(base, ADD)} {'+' if by > 0 else '-'} {self._number(abs(by))}", ADD

    def _index_sum(self, n: e.BinaryOp) -> Text:
        if isinstance(n, e.Mul):
            return f"{paren(self._index(n.a), MUL)} * {paren(self._index(n.b), UNARY)}", MUL
        symbol, b = n.symbol, n.b
        if symbol == "+" and isinstance(b, e.IntImm) and b.value < 0:
            symbol, b = "-", e.IntImm(b.dtype, -b.value)
        elif symbol == "+" and isinstance(b, e.Mul) and isinstance(b.b, e.IntImm) and b.b.value < 0:
            symbol = "-"
            b = b.a if b.b.value == -1 else e.Mul(b.a, e.IntImm(b.b.dtype, -b.b.value), b.dtype)
        left, right = self._index(n.a), self._index(b)
        if right[0] == "0":
            return left
        if left[0] == "0" and symbol == "+":
            return right
        return f"{paren(left, ADD)} {symbol} {paren(right, MUL)}", ADD

    def _index_division(self, n: e.BinaryOp) -> Text:
        number = constant(n.b)
        floor = isinstance(n, e.FloorDiv)
        if number is not None and number > 0 and self.never_negative(n.a):
            a = paren(self._index(n.a), MUL)
            return f"{a} {'/' if floor else '%'} {self._number(number)}", MUL
        name = self.use.get("floordiv" if floor else "floormod", self.d.index_dtype)
        return f"{name}({self.index(n.a)}, {self.index(n.b)})", ATOM

    def never_negative(self, n: e.PrimExpr) -> bool:
        """True where an integer is surely 0 or more."""
        if dt.is_uint(n.dtype):
            return True
        if isinstance(n, e.Ramp):
            return n.stride >= 0 and self.never_negative(n.base)
        if dt.lanes(n.dtype) > 1:
            return isinstance(n, (e.Add, e.Mul, e.FloorDiv)) and all(
                self.never_negative(x) for x in (n.a, n.b)
            )
        if isinstance(n, e.Broadcast):
            n = n.value
        return self.analyzer.at_most_zero(self.analyzer.affine(n).scaled(-1))

    def pointer(self, buffer: Buffer) -> str:
        """The pointer to a buffer's memory.

        Raises:
            CodegenError: nothing gives the buffer memory.
        """
        found = self.pointers.get(id(buffer))
        if found is None:
            raise CodegenError(
                f"the buffer {buffer.name}",
                "nothing gives it memory",
                "pass it as an argument, allocate it or declare it over the data of another one",
            )
        return found

    def element(self, buffer: Buffer, indices: tuple[e.PrimExpr, ...]) -> str:
        """An element of a buffer, as it stands in memory."""
        at = indices[0] if len(indices) == 1 and not buffer.strides else None
        if at is None:
            at = self.analyzer.affine(buffer.offset_of(indices)).to_expr("int64")
        elif not (isinstance(buffer.elem_offset, e.IntImm) and buffer.elem_offset.value == 0):
            at = e.Add(at, buffer.elem_offset, at.dtype)
        return f"{self.pointer(buffer)}[{self.index(at)}]"


def constant(n: e.PrimExpr) -> int | None:
    """The number that an integer is in all lanes, if it is one."""
    if isinstance(n, e.Broadcast):
        n = n.value
    return n.value if isinstance(n, e.IntImm) else None


def signed_text(text: str) -> Text:
    """A constant, which may have a sign."""
    return text, UNARY if text.startswith(("-", "(double)")) else ATOM
