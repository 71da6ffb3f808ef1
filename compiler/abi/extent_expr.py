"""Extents from expressions of the loop IR, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whet.compiler.abi.extent import Extent, Operation, Symbol, no_extent
from whet.compiler.tir import expr as e

NODES: dict[str, type[e.BinaryOp]] = {
    node.symbol: node for node in (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max)
}
"""The nodes of the operations that extents have."""
_OPS: dict[type, str] = {node: op for op, node in NODES.items()}


def from_expr(n: e.PrimExpr, name_of: Callable[[e.Var], str]) -> Extent:
    """An expression of the loop IR as an extent; casts are dropped, as extents have no width.

    Args:
        n: the expression.
        name_of: gives the symbols' names.

    Raises:
        CodegenError: the expression holds what no shape can.
    """
    if isinstance(n, e.IntImm):
        return n.value
    if isinstance(n, e.Var):
        return Symbol(name_of(n))
    if isinstance(n, e.Cast):
        return from_expr(n.value, name_of)
    op = _OPS.get(type(n))
    if op is None:
        raise no_extent(str(n), str(n))
    return Operation(op, from_expr(n.a, name_of), from_expr(n.b, name_of))  # type: ignore[attr-defined]


def to_expr(extent: Extent, values: Mapping[str, e.PrimExpr]) -> e.PrimExpr:
    """An extent as an int64 expression of the loop IR; it divides by 1 instead of 0.

    Args:
        extent: the extent.
        values: each symbol's expression, an int64.
    """
    if isinstance(extent, Symbol):
        return values[extent.name]
    if isinstance(extent, Operation):
        a, b = to_expr(extent.a, values), to_expr(extent.b, values)
        if extent.op in ("//", "%") and not isinstance(b, e.IntImm):
            zero, one = e.IntImm("int64", 0), e.IntImm("int64", 1)
            b = e.Select(e.EQ(b, zero, "bool"), one, b, "int64")
        return NODES[extent.op](a, b, "int64")
    return e.IntImm("int64", extent)
