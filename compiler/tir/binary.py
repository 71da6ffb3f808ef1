"""Expressions of two operands: arithmetic, comparisons, and/or.

:mod:`tir.expr` has all of these names, too, and is where the others import them from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from whet.compiler import tir
from whet.compiler.tir.expr import PrimExpr


@dataclass(slots=True, eq=False, init=False)
class BinaryOp(PrimExpr):
    """``a symbol b``; both operands have the same type."""

    a: PrimExpr
    b: PrimExpr
    dtype: str
    symbol: ClassVar[str] = "?"

    def __init__(self, a: Any, b: Any, dtype: str | None = None) -> None:
        if dtype is None:
            a, b, dtype = tir.ops.infer_dtype.operands(type(self), a, b)
        self.a = a
        self.b = b
        self.dtype = dtype


class Add(BinaryOp):
    """Sum."""

    __slots__ = ()
    symbol = "+"


class Sub(BinaryOp):
    """Difference."""

    __slots__ = ()
    symbol = "-"


class Mul(BinaryOp):
    """Product."""

    __slots__ = ()
    symbol = "*"


class Div(BinaryOp):
    """Quotient: of floats, or of integers rounded towards zero."""

    __slots__ = ()
    symbol = "/"


class Mod(BinaryOp):
    """Remainder of the division that rounds towards zero."""

    __slots__ = ()
    symbol = "truncmod"


class FloorDiv(BinaryOp):
    """Quotient rounded down."""

    __slots__ = ()
    symbol = "//"


class FloorMod(BinaryOp):
    """Remainder of the division that rounds down."""

    __slots__ = ()
    symbol = "%"


class Min(BinaryOp):
    """The smaller of two."""

    __slots__ = ()
    symbol = "min"


class Max(BinaryOp):
    """The larger of two."""

    __slots__ = ()
    symbol = "max"


class CmpOp(BinaryOp):
    """A comparison: bool, of as many lanes as the operands."""

    __slots__ = ()


class EQ(CmpOp):
    """Equal; in Python its truth is the identity of both operands."""

    __slots__ = ()
    symbol = "=="

    def __bool__(self) -> bool:
        return self.a is self.b


class NE(CmpOp):
    """Not equal; in Python its truth is that the operands are two objects."""

    __slots__ = ()
    symbol = "!="

    def __bool__(self) -> bool:
        return self.a is not self.b


class LT(CmpOp):
    """Less."""

    __slots__ = ()
    symbol = "<"


class LE(CmpOp):
    """Less or equal."""

    __slots__ = ()
    symbol = "<="


class GT(CmpOp):
    """Greater."""

    __slots__ = ()
    symbol = ">"


class GE(CmpOp):
    """Greater or equal."""

    __slots__ = ()
    symbol = ">="


class And(BinaryOp):
    """Both."""

    __slots__ = ()
    symbol = "and"


class Or(BinaryOp):
    """Either."""

    __slots__ = ()
    symbol = "or"
