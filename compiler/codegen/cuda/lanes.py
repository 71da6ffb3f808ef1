"""Vectors that are one value in all lanes: conditions that hold for all lanes or for none.

A vector that begins at a multiple of its length lies on one side of each such multiple, so that a
tile's edge need not be looked at lane by lane.
"""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.arith import Analyzer
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    Broadcast,
    BufferLoad,
    BufferView,
    Call,
    CmpOp,
    Let,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
)
from whet.compiler.tir.ops import ops

_NONE = (Ramp, Var, Let, Shuffle, BufferLoad, BufferView)


def uniform(n: PrimExpr, analyzer: Analyzer) -> PrimExpr | None:
    """The scalar that a vector surely is in all of its lanes; None where there is none."""
    if dt.lanes(n.dtype) == 1:
        return n
    if isinstance(n, Broadcast):
        return n.value
    if isinstance(n, _NONE):
        return None
    if isinstance(n, CmpOp):
        decided = _compared(n, analyzer)
        if decided is not None:
            return decided
    inner = [uniform(x, analyzer) for x in n.parts]
    if any(x is None for x in inner):
        return None
    return replace(n.with_parts(tuple(inner)), dtype=dt.element(n.dtype))


def _compared(n: CmpOp, analyzer: Analyzer) -> PrimExpr | None:
    """``ramp(8 * x, 1, 4) < broadcast(8 * y)`` as ``8 * x < 8 * y``."""
    if not dt.is_int(n.a.dtype):
        return None
    a, b = lane_form(n.a), lane_form(n.b)
    if a is None or b is None or a[1] == b[1]:
        return None
    if a[1] - b[1] != 1 or not isinstance(n, (LT, LE, GT, GE)):
        return None
    left, right = a[0], b[0]
    if isinstance(n, (LE, GT)):  # x <= c is x < c + 1
        right = ops.add(right, ops.const(1, right.dtype))
    if not multiple_of(ops.subtract(left, right), dt.lanes(n.dtype), analyzer):
        return None
    return ops.compare(LT if isinstance(n, (LT, LE)) else GE, left, right)


def choice_of(n: PrimExpr) -> tuple[PrimExpr, ...]:
    """The condition of a choice and its two values; empty for anything else."""
    if isinstance(n, Select):
        return n.condition, n.true_value, n.false_value
    if isinstance(n, Call) and n.op.removeprefix("tir.") == "if_then_else":
        return n.args
    return ()


def lane_form(n: PrimExpr) -> tuple[PrimExpr, int] | None:
    """An integer vector as its first lane and the step from lane to lane; None if it has none."""
    if dt.lanes(n.dtype) == 1:
        return n, 0
    if isinstance(n, Broadcast):
        return n.value, 0
    if isinstance(n, Ramp):
        return n.base, n.stride
    if not isinstance(n, (Add, Sub)):
        return None
    a, b = lane_form(n.a), lane_form(n.b)
    if a is None or b is None:
        return None
    if isinstance(n, Add):
        return ops.add(a[0], b[0]), a[1] + b[1]
    return ops.subtract(a[0], b[0]), a[1] - b[1]


def multiple_of(n: PrimExpr, count: int, analyzer: Analyzer) -> bool:
    """True if an integer is surely a multiple of ``count``: each of its terms is."""
    form = analyzer.affine(n)
    numbers = [form.const, *(factor for _, factor in form.terms.values())]
    return all(k % count == 0 for k in numbers)
