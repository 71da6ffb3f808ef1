"""The names of TVM's ``topi.utils``: constants out of shapes, and a walk over what to inline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.te import ComputeOp, Operation, PlaceholderOp, Schedule, Tensor
from whet.compiler.tir import FloatImm, IntImm, PrimExpr
from whet.compiler.tir.ops.ops import convert
from whet.compiler.topi.shapes import product, static
from whet.compiler.topi.tag import is_broadcast


def get_const_int(expr: Any) -> int:
    """A constant integer as a Python int.

    Raises:
        ArgumentError: it is not a constant.
    """
    return static(expr, f"get_const_int({expr})")


def get_const_float(expr: Any) -> float:
    """A constant number as a Python float.

    Raises:
        ArgumentError: it is not a constant.
    """
    x = convert(expr)
    return float(x.value) if isinstance(x, FloatImm) else float(get_const_int(x))


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """A shape with Python's ints for its constants; what is symbolic stays."""
    parts = (convert(d) for d in in_tuple)
    return tuple(int(d.value) if isinstance(d, IntImm) else d for d in parts)


def equal_const_int(expr: Any, value: int) -> bool:
    """True for an expression that is this constant."""
    x = convert(expr)
    return isinstance(x, IntImm) and x.value == value


def prod(x: Sequence[Any]) -> PrimExpr:
    """The product of a shape's extents; 1 for none."""
    return product(x)


def traverse_inline(
    s: Schedule, final_op: Operation, callback: Callable[[Operation], None]
) -> None:
    """Call ``callback`` for every operation that ``final_op`` reads, inputs first of all.

    Element-wise and broadcast operations that are no outputs are inlined on the way.
    """
    seen: set[Operation] = set()

    def visit(op: Operation) -> None:
        if op in seen:
            return
        seen.add(op)
        plain = isinstance(op, ComputeOp) and is_broadcast(op.tag) and not op.reduce_axis
        if plain and not s[op].is_output:
            s[op].compute_inline()
        for t in op.input_tensors:
            if not isinstance(t.op, PlaceholderOp):
                visit(t.op)
        callback(op)

    visit(final_op.op if isinstance(final_op, Tensor) else final_op)


__all__ = [
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "prod",
    "traverse_inline",
]
