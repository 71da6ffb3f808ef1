"""How many arithmetic operations a computation has, counted on its expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.primitives.prepack import kernel_part
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.visit.expect import expect
from whet.compiler.tir.visit.rewrite import TABLE

_COUNTED = (e.Add, e.Sub, e.Mul, e.Div, e.Min, e.Max)


def count_flop(schedule: Schedule) -> int:
    """Additions, multiplications and the like of all stages, each element computed once.

    An addition and a multiplication are one operation each; so is a call such as ``exp``. Index
    arithmetic and copies do not count, nor does what is computed ahead of the calls. Symbolic
    sizes count as 1, extern statements as nothing.

    Raises:
        ArgumentError: for anything but a schedule.
    """
    expect(schedule, (Schedule,), "count_flop(schedule)")
    total = 0
    for stage in kernel_part(schedule).stages:
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


def _of(n: e.PrimExpr) -> int:
    """The operations of one element; what an expression uses twice is computed once."""
    if type(n) is e.Reduce:
        points = 1
        for a in n.axis:
            points *= _size(a)
        values = {*n.combiner.lhs, *n.combiner.rhs}
        combined = _counted(n.combiner.result, values)
        return points * (combined + _counted(n.source, set()))
    return _counted((n,), set())


def _counted(roots: Sequence[e.PrimExpr], values: set[e.Var]) -> int:
    """How many operations compute with floats, elements or reduced ``values``."""
    data: set[int] = set()  # nodes that are no mere index arithmetic
    total = 0
    for n in _parts(roots):
        kind = type(n)
        parts = TABLE[kind][0](n)
        if kind is e.ProducerLoad or n in values or any(id(p) in data for p in parts):
            data.add(id(n))
        counted = kind in _COUNTED or (kind is e.Call and n.op != "if_then_else")
        if counted and (dt.is_float(n.dtype) or id(n) in data):
            total += 1
    return total


def _parts(roots: Sequence[e.PrimExpr]) -> list[Any]:
    """Every node once, children first; indices and conditions are no arithmetic of an element."""
    out: list[Any] = []
    seen: set[int] = set()
    stack = [(n, False) for n in roots]
    while stack:
        n, ready = stack.pop()
        if ready:
            out.append(n)
        elif id(n) not in seen:
            seen.add(id(n))
            stack.append((n, True))
            parts = TABLE[type(n)][0](n)
            if type(n) is e.ProducerLoad:
                parts = ()
            elif type(n) is e.Call and n.op == "if_then_else":
                parts = parts[1:]
            stack.extend((p, False) for p in parts)
    return out
