"""The number of arithmetic operations of a computation, counted on its expressions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.primitives.prepack import kernel_part
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    Add,
    Call,
    Div,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Sub,
    Var,
    is_choice,
)
from whet.compiler.tir.visit.expect import expect
from whet.compiler.tir.visit.rewrite import nodes

_COUNTED = (Add, Sub, Mul, Div, Min, Max)


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
            total += prod(map(_size, op.axis)) * sum(_of(b) for b in op.body)
    return total


def _size(axis: IterVar) -> int:
    extent = axis.dom.extent if axis.dom is not None else None
    return extent.value if isinstance(extent, IntImm) else 1


def _of(n: PrimExpr) -> int:
    """The operations of one element; what an expression uses twice is computed once."""
    if type(n) is Reduce:
        values = {*n.combiner.lhs, *n.combiner.rhs}
        combined = _counted(n.combiner.result, values)
        return prod(map(_size, n.axis)) * (combined + _counted(n.source, set()))
    return _counted((n,), set())


def _counted(roots: Sequence[PrimExpr], values: set[Var]) -> int:
    """The number of operations that compute with floats, elements or reduced ``values``."""
    data: set[int] = set()  # nodes that are no mere index arithmetic
    total = 0
    for n in nodes(roots, _arithmetic):
        kind = type(n)
        parts = n.parts
        if kind is ProducerLoad or n in values or any(id(p) in data for p in parts):
            data.add(id(n))
        counted = kind in _COUNTED or (kind is Call and n.op != "if_then_else")
        if counted and (dt.is_float(n.dtype) or id(n) in data):
            total += 1
    return total


def _arithmetic(n: PrimExpr) -> tuple[Any, ...]:
    """The children of a node; indices and conditions are no arithmetic of an element."""
    if type(n) is ProducerLoad:
        return ()
    return n.parts[1:] if is_choice(n) else n.parts
