"""Python's operators on expressions, as a table of the functions that make nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.tir.expr import EQ, GE, GT, LE, LT, NE, CmpOp, PrimExpr
from whet.compiler.tir.node import ExprOp
from whet.compiler.tir.ops import bits, ops


def _cast(value: Any, dtype: str) -> PrimExpr:
    """The value converted to ``dtype``."""
    return ops.cast(dtype, value)


def _compare(node: type[CmpOp]) -> Callable[[Any, Any], PrimExpr]:
    return lambda a, b: ops.compare(node, a, b)


def _swapped(function: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], PrimExpr]:
    return lambda a, b: function(b, a)


def _equality(node: type[CmpOp]) -> Callable[[Any, Any], Any]:
    """A comparison that leaves what is no operand to the other side."""

    def run(a: Any, b: Any) -> Any:
        if isinstance(b, (ExprOp, int, float)) or ops.is_numpy_number(b):
            return ops.compare(node, a, b)
        return NotImplemented

    return run


#: operators that have a reflected form, too
_BINARY: dict[str, Callable[[Any, Any], PrimExpr]] = {
    "add": ops.add,
    "sub": ops.subtract,
    "mul": ops.multiply,
    "truediv": ops.divide,
    "floordiv": ops.floordiv,
    "mod": ops.floormod,
    "and": bits.bitwise_and,
    "or": bits.bitwise_or,
    "xor": bits.bitwise_xor,
    "lshift": bits.shift_left,
    "rshift": bits.shift_right,
}
_METHODS: dict[str, Callable[..., Any]] = {
    **{f"__{name}__": function for name, function in _BINARY.items()},
    **{f"__r{name}__": _swapped(function) for name, function in _BINARY.items()},
    "__lt__": _compare(LT),
    "__le__": _compare(LE),
    "__gt__": _compare(GT),
    "__ge__": _compare(GE),
    "__eq__": _equality(EQ),
    "__ne__": _equality(NE),
    "__neg__": ops.negate,
    "__invert__": ops.bitwise_not,
    "astype": _cast,
    "equal": _compare(EQ),
}
for _name, _function in _METHODS.items():
    setattr(ExprOp, _name, _function)
