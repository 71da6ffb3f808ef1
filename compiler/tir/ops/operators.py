"""Python's operators on expressions, as a table of the functions that make nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.tir.expr import EQ, GE, GT, LE, LT, NE, CmpOp, PrimExpr
from whet.compiler.tir.node import ExprOp, NoNumber
from whet.compiler.tir.ops import bits, mathematics, ops


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
    "__invert__": bits.bitwise_not,
    "astype": _cast,
    "equal": _compare(EQ),
}
for _name, _function in _METHODS.items():
    setattr(ExprOp, _name, _function)

#: numpy's name of an operator -> the method for an expression on its left, and on its right
_OF_NUMPY: dict[str, tuple[str, str]] = {
    **{name: (f"__{own}__", f"__r{own}__") for name, own in {
        "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv",
        "true_divide": "truediv", "floor_divide": "floordiv", "remainder": "mod",
        "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
        "left_shift": "lshift", "right_shift": "rshift",
    }.items()},
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
}  # fmt: skip
_OTHERWISE = {"maximum": "max", "minimum": "min", "absolute": "abs", "fabs": "abs", "rint": "round"}


def _array_ufunc(self: ExprOp, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """An operator between a number of numpy's and an expression; other functions are refused.

    Raises:
        NoNumber: for ``np.exp(x)``; the way out names ``te.exp``.
    """
    name = ufunc.__name__
    if method == "__call__" and len(inputs) == 2 and name in _OF_NUMPY and not options:
        (a, b), (left, right) = inputs, _OF_NUMPY[name]
        found = getattr(a, left)(b) if isinstance(a, ExprOp) else getattr(b, right)(a)
        if found is NotImplemented and "equal" in name:
            return name == "not_equal"  # as Python has it of what cannot be compared
        return found
    ours = _OTHERWISE.get(name, name)
    known = ours in mathematics.__all__ or ours in ("max", "min")
    raise NoNumber(
        f"numpy.{name} of an expression",
        "numpy computes with numbers, and its value is not known before the kernel runs",
        f"use te.{ours}" if known else "te has the functions of an element, topi those of tensors",
    )


ExprOp.__array_ufunc__ = _array_ufunc
