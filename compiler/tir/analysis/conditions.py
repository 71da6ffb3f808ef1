"""Readings of a condition: the threads that it lets through, and its opposite."""

from __future__ import annotations

from collections.abc import Container

from whet.compiler.tir.expr import EQ, GE, GT, LE, LT, NE, And, CmpOp, IntImm, PrimExpr, Var, is_int
from whet.compiler.tir.ops import ops


def pinned(condition: PrimExpr, threads: Container[Var]) -> dict[Var, int]:
    """The threads of which a condition lets one through, and which: ``threadIdx.x == 0``."""
    if isinstance(condition, And):
        return {**pinned(condition.a, threads), **pinned(condition.b, threads)}
    if isinstance(condition, LT) and condition.a in threads:
        least = is_int(condition.b, 1)
        return {condition.a: 0} if least else {}  # type: ignore[dict-item]
    if isinstance(condition, EQ):
        for one, other in ((condition.a, condition.b), (condition.b, condition.a)):
            if isinstance(one, Var) and one in threads and isinstance(other, IntImm):
                return {one: other.value}
    return {}


_OPPOSITE: dict[type, type[CmpOp]] = {
    LT: GE,
    LE: GT,
    GT: LE,
    GE: LT,
    EQ: NE,
    NE: EQ,
}


def negated(condition: PrimExpr) -> PrimExpr:
    """A condition that holds where ``condition`` does not, a comparison where that is one."""
    opposite = _OPPOSITE.get(type(condition))
    if opposite is not None and not condition.a.dtype.startswith(("float", "bfloat")):  # type: ignore[attr-defined]
        return opposite(condition.a, condition.b, condition.dtype)  # type: ignore[attr-defined]
    return ops.logical_not(condition)
