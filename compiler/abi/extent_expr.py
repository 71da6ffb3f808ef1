"""Extents from expressions of the loop IR, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whet.compiler.abi.extent import Extent, Operation, Symbol, no_extent
from whet.compiler.tir.expr import (
    EQ,
    Add,
    BinaryOp,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
)

NODES: dict[str, type[BinaryOp]] = {
    node.symbol: node for node in (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)
}
"""The nodes of the operations that extents have."""
_OPS: dict[type, str] = {node: op for op, node in NODES.items()}


def from_expr(n: PrimExpr, name_of: Callable[[Var], str]) -> Extent:
    """An expression of the loop IR as an extent; casts are dropped, as extents have no width.

    Args:
        n: the expression.
        name_of: gives the symbols' names.

    Raises:
        CodegenError: the expression holds what no shape can.
    """
    if isinstance(n, IntImm):
        return n.value
    if isinstance(n, Var):
        return Symbol(name_of(n))
    if isinstance(n, Cast):
        return from_expr(n.value, name_of)
    op = _OPS.get(type(n))
    if op is None:
        raise no_extent(str(n), str(n))
    return Operation(op, from_expr(n.a, name_of), from_expr(n.b, name_of))  # type: ignore[attr-defined]


def to_expr(extent: Extent, values: Mapping[str, PrimExpr]) -> PrimExpr:
    """An extent as an int64 expression of the loop IR; it divides by 1 instead of 0.

    Args:
        extent: the extent.
        values: each symbol's expression, an int64.
    """
    if isinstance(extent, Symbol):
        return values[extent.name]
    if isinstance(extent, Operation):
        a, b = to_expr(extent.a, values), to_expr(extent.b, values)
        if extent.op in ("//", "%") and not isinstance(b, IntImm):
            zero, one = IntImm("int64", 0), IntImm("int64", 1)
            b = Select(EQ(b, zero, "bool"), one, b, "int64")
        return NODES[extent.op](a, b, "int64")
    return IntImm("int64", extent)
