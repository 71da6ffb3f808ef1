"""Arithmetic of a kernel's values, by the pipe that it goes through."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    Add,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    Mod,
    Mul,
    Not,
    PrimExpr,
    Select,
    Sub,
)
from whet.compiler.tir.ops.table import operation
from whet.measure.gpu.cost.integer_cost import division_cost

FMA32, FMA64, SPECIAL, OTHER = range(4)
"""Additions, products and fused multiply-adds of floats up to 32 bits; of float64; special
functions and conversions; everything else that is issued."""
DIVISION = 6.0
"""Multiply-adds of a division: a reciprocal, its corrections."""
FUNCTION = 8.0
"""Multiply-adds of a special function that nobody names, beside the hardware's part of it."""
_DIVISION_CHECKED = 4.0
"""Its other instructions: they find numbers that need a longer way."""
_OTHER_FUNCTION = (14.0, 1.0, 10.0)
"""Of a function that nobody has counted; the others are in the table of operations."""


def operations(nodes: Iterable[tuple[PrimExpr, float]]) -> list[float]:
    """Operations of parts of a value, of all lanes of a vector.

    Args:
        nodes: as :class:`whet.measure.gpu.cost.cse.Subexpressions` has them, with their shares.

    Returns:
        A count for each of :data:`FMA32`, :data:`FMA64`, :data:`SPECIAL` and :data:`OTHER`.
    """
    total = [0.0] * 4
    for n, share in nodes:
        lanes = dt.lanes(n.dtype) if n.dtype != "handle" else 1
        pipe = FMA64 if dt.element(n.dtype) == "float64" else FMA32
        for k, count in zip((pipe, SPECIAL, OTHER), _counts(n), strict=True):
            total[k] += share * (count * lanes)
    return total


def _counts(n: Any) -> tuple[float, float, float]:
    """One node's own operations of a lane: multiply-adds, special functions, others."""
    number = dt.is_float(n.dtype)
    if isinstance(n, (Add, Sub, Mul)):
        return (1.0, 0.0, 0.0) if number else (0.0, 0.0, 1.0)
    if isinstance(n, (Div, FloorDiv, FloorMod, Mod)):
        if not number:
            return 0.0, 0.0, division_cost(n.b)
        return (1.0, 0.0, 0.0) if _is_power_of_two(n.b) else (DIVISION, 1.0, _DIVISION_CHECKED)
    if isinstance(n, Cast):
        same = number == dt.is_float(n.value.dtype) and dt.bits(n.dtype) == dt.bits(n.value.dtype)
        return (0.0, 0.0, 0.0) if same else (0.0, 0.25, 0.75)  # four times the rate of others
    if isinstance(n, Call):
        return operation(n.op).gpu or _OTHER_FUNCTION
    return 0.0, 0.0, float(isinstance(n, (BinaryOp, Select, Not)))


def _is_power_of_two(n: Any) -> bool:
    """True if a division by it is a product with its reciprocal."""
    n = n.value if isinstance(n, Broadcast) else n
    return isinstance(n, FloatImm) and abs(math.frexp(n.value)[0]) == 0.5
