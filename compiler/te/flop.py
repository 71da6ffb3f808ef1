"""How many arithmetic operations a computation has, counted on its expressions."""

from __future__ import annotations

from typing import Any

from whet.compiler.te.schedule import Schedule
from whet.compiler.te.tensor import ComputeOp
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.rewrite import TABLE

_COUNTED = (e.Add, e.Sub, e.Mul, e.Div, e.Min, e.Max)


def count_flop(schedule: Schedule) -> int:
    """Additions, multiplications and the like of all stages, each element computed once.

    An addition and a multiplication are one operation each; so is a call such as ``exp``. Index
    arithmetic and copies do not count. Symbolic sizes count as 1.
    """
    total = 0
    for stage in schedule.stages:
        op = stage.op
        if isinstance(op, ComputeOp):
            points = 1
            for a in op.axis:
                points *= _size(a)
            total += points * sum(_of(b) for b in op.body)
    return total


def _size(axis: e.IterVar) -> int:
    extent = axis.dom.extent if axis.dom is not None else None
    return extent.value if isinstance(extent, e.IntImm) else 1


def _of(n: Any) -> int:
    kind = type(n)
    if kind is e.Reduce:
        points = 1
        for a in n.axis:
            points *= _size(a)
        return points * (sum(_of(x) for x in n.combiner.result) + sum(_of(x) for x in n.source))
    if kind is e.ProducerLoad:
        return 0  # its indices are no arithmetic of the computation
    own = 0
    if kind in _COUNTED or (kind is e.Call and n.op != "if_then_else"):
        own = 1 if dt.is_float(n.dtype) or _reads(n) else 0
    parts = TABLE[kind][0](n)
    if kind is e.Call and n.op == "if_then_else":
        parts = parts[1:]
    return own + sum(_of(p) for p in parts)


def _reads(n: Any) -> bool:
    """Whether an integer expression computes with elements or reduced values."""
    if type(n) in (e.ProducerLoad, e.Reduce):
        return True
    if isinstance(n, e.Var) and n.name in ("x", "y"):
        return True
    return any(_reads(p) for p in TABLE[type(n)][0](n))
