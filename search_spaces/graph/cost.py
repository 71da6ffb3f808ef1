"""The arithmetic of one element, roughly: what decides whether computing it again is cheap."""

from __future__ import annotations

from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    PrimExpr,
    ProducerLoad,
    Reduce,
    SizeVar,
    StringImm,
    Var,
)
from whet.compiler.tir.ops.table import operation

EXPENSIVE = 5
"""An element that costs as much is stored rather than computed over and over."""

_FREE = (Cast, ProducerLoad, Reduce, Var, SizeVar, IntImm, FloatImm, StringImm)
_CALL, _DIVISION = 10, 5


def cost_of(op: Operation) -> int:
    """The simple operations of one evaluation; indices count as nothing, a division as 5."""
    if not isinstance(op, ComputeOp):
        return 0
    total = 0
    seen: set[int] = set()
    waiting = list(op.body)
    while waiting:
        n = waiting.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        total += _own(n)
        if type(n) is not ProducerLoad:
            waiting.extend(n.parts)
    return total


def _own(n: PrimExpr) -> int:
    if isinstance(n, _FREE):
        return 0
    if type(n) is Call:
        return 1 if operation(n.op).cheap else _CALL
    if isinstance(n, Div | Mod) or (isinstance(n, FloorDiv | FloorMod) and _data(n)):
        constant = isinstance(n.b, FloatImm | IntImm)
        return 1 if constant and not dt.is_float(n.dtype) else _DIVISION
    return 1


def _data(n: FloorDiv | FloorMod) -> bool:
    return not isinstance(n.b, IntImm)
