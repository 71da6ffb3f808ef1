"""Python's operators, for everything that can stand in an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whet.compiler import tir  # by attribute: nodes have operators, and operators make nodes
from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.compiler.tir.expr import PrimExpr


class ExprOp:
    """Python's operators, for everything that can stand in an expression."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy scalars leave the operators to us, np.exp(expr) is refused

    def __add__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.add(self, other)

    def __radd__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.add(other, self)

    def __sub__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.subtract(self, other)

    def __rsub__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.subtract(other, self)

    def __mul__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.multiply(self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.multiply(other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.divide(self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.divide(other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.floordiv(other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.floormod(self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.floormod(other, self)

    def __neg__(self) -> PrimExpr:
        return tir.ops.ops.negate(self)

    def __and__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("bitwise_and", self, other)

    def __or__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("bitwise_or", self, other)

    def __xor__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("bitwise_xor", self, other)

    def __invert__(self) -> PrimExpr:
        return tir.ops.ops.bitwise_not(self)

    def __lshift__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("shift_left", self, other)

    def __rshift__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("shift_right", self, other)

    def __rand__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("bitwise_and", other, self)

    def __ror__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("bitwise_or", other, self)

    def __rxor__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("bitwise_xor", other, self)

    def __rlshift__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("shift_left", other, self)

    def __rrshift__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.bitwise("shift_right", other, self)

    def __lt__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.compare(tir.expr.LT, self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.compare(tir.expr.LE, self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.compare(tir.expr.GT, self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return tir.ops.ops.compare(tir.expr.GE, self, other)

    def __eq__(self, other: Any) -> Any:
        if not _convertible(other):
            return NotImplemented
        return tir.ops.ops.compare(tir.expr.EQ, self, other)

    def __ne__(self, other: Any) -> Any:
        if not _convertible(other):
            return NotImplemented
        return tir.ops.ops.compare(tir.expr.NE, self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ArgumentError(
            "the truth value of an expression",
            "it has none before the kernel runs, so `if`, `and`, `or` and `not` cannot be used",
            "use te.if_then_else, te.all, te.any or tir.Not instead",
        )

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to ``dtype``."""
        return tir.ops.ops.cast(dtype, self)

    def same_as(self, other: Any) -> bool:
        """Whether both are the same object."""
        return self is other

    def equal(self, other: Any) -> PrimExpr:
        """An expression that is true where both are equal."""
        return tir.ops.ops.compare(tir.expr.EQ, self, other)


def _convertible(other: Any) -> bool:
    return isinstance(other, (ExprOp, int, float)) or tir.ops.ops.is_numpy_number(other)
