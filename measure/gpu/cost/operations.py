"""Arithmetic of a kernel's values, by the pipe that it goes through."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
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


def operations(nodes: Iterable[tuple[e.PrimExpr, float]]) -> list[float]:
    """Operations of parts of a value, of all lanes of a vector.

    Args:
        nodes: as :class:`whet.measure.gpu.cost.cse.Subexpressions` has them, with their shares.

    Returns:
        A count for each of :data:`FMA32`, :data:`FMA64`, :data:`SPECIAL` and :data:`OTHER`.
    """
    total = [0.0] * 4
    for n, share in nodes:
        one = [0.0] * 4
        _one(n, one)
        total = [x + share * y for x, y in zip(total, one)]
    return total


def _one(n: Any, total: list[float]) -> None:
    """Add one node's own operations."""
    lanes = dt.lanes(n.dtype) if n.dtype != "handle" else 1
    number = dt.is_float(n.dtype)
    pipe = FMA64 if dt.element(n.dtype) == "float64" else FMA32
    if isinstance(n, (e.Add, e.Sub, e.Mul)):
        total[pipe if number else OTHER] += lanes
    elif isinstance(n, (e.Div, e.FloorDiv, e.FloorMod, e.Mod)):
        if number and _is_power_of_two(n.b):
            total[pipe] += lanes
        elif number:
            _add(total, pipe, (DIVISION, 1.0, _DIVISION_CHECKED), lanes)
        else:
            total[OTHER] += division_cost(n.b) * lanes
    elif isinstance(n, e.Cast):
        if number != dt.is_float(n.value.dtype) or dt.bits(n.dtype) != dt.bits(n.value.dtype):
            _add(total, pipe, (0.0, 0.25, 0.75), lanes)  # four times the rate of others
    elif isinstance(n, e.Call):
        counted = operation(n.op).gpu
        _add(total, pipe, _OTHER_FUNCTION if counted is None else counted, lanes)
    elif isinstance(n, (e.BinaryOp, e.Select, e.Not)):
        total[OTHER] += lanes


def _is_power_of_two(n: Any) -> bool:
    """True if a division by it is a product with its reciprocal."""
    n = n.value if isinstance(n, e.Broadcast) else n
    return isinstance(n, e.FloatImm) and abs(math.frexp(n.value)[0]) == 0.5


def _add(total: list[float], pipe: int, counts: tuple[float, float, float], lanes: int) -> None:
    for k, count in zip((pipe, SPECIAL, OTHER), counts, strict=True):
        total[k] += count * lanes
