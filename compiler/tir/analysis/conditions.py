"""Readings of a condition: the threads that it lets through, and its opposite."""

from __future__ import annotations

from collections.abc import Container

from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops


def pinned(condition: e.PrimExpr, threads: Container[e.Var]) -> dict[e.Var, int]:
    """The threads of which a condition lets one through, and which: ``threadIdx.x == 0``."""
    if isinstance(condition, e.And):
        return {**pinned(condition.a, threads), **pinned(condition.b, threads)}
    if isinstance(condition, e.LT) and condition.a in threads:
        least = isinstance(condition.b, e.IntImm) and condition.b.value == 1
        return {condition.a: 0} if least else {}  # type: ignore[dict-item]
    if isinstance(condition, e.EQ):
        for one, other in ((condition.a, condition.b), (condition.b, condition.a)):
            if isinstance(one, e.Var) and one in threads and isinstance(other, e.IntImm):
                return {one: other.value}
    return {}


_OPPOSITE: dict[type, type[e.CmpOp]] = {
    e.LT: e.GE,
    e.LE: e.GT,
    e.GT: e.LE,
    e.GE: e.LT,
    e.EQ: e.NE,
    e.NE: e.EQ,
}


def negated(condition: e.PrimExpr) -> e.PrimExpr:
    """A condition that holds where ``condition`` does not, a comparison where that is one."""
    opposite = _OPPOSITE.get(type(condition))
    if opposite is not None and not condition.a.dtype.startswith(("float", "bfloat")):  # type: ignore[attr-defined]
        return opposite(condition.a, condition.b, condition.dtype)  # type: ignore[attr-defined]
    return ops.logical_not(condition)
