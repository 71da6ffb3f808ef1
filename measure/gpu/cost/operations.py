"""Arithmetic of a kernel's values, by the pipe that it goes through."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
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
_FUNCTIONS: dict[str, tuple[float, float, float]] = {
    "exp": (6, 1, 1), "exp2": (2, 1, 1), "exp10": (6, 1, 1),
    "log": (15, 0, 9), "log2": (17, 0, 9), "log10": (16, 0, 9), "log1p": (16, 0, 11),
    "sqrt": (4, 1, 3), "rsqrt": (2, 1, 1), "sin": (12, 0, 18), "cos": (12, 0, 18),
    "tan": (13, 1, 16), "sinh": (14, 2, 6), "cosh": (8, 2, 5), "tanh": (9, 2, 4),
    "asin": (14, 1, 8), "acos": (14, 1, 8), "atan": (11, 1, 5), "erf": (9, 1, 12),
    "sigmoid": (9, 2, 6), "pow": (30, 1, 25), "round": (1, 1, 1), "nearbyint": (0, 1, 0),
    "floor": (0, 1, 0), "ceil": (0, 1, 0), "trunc": (0, 1, 0), "fma": (1, 0, 0),
    "dp4a": (0, 0, 2), "pack_bytes": (0, 0, 3),
}  # fmt: skip
"""Of a function of float32: multiply-adds, special functions, others; counted in the instructions
that NVRTC 12.9 makes of it for sm_90, where no argument is out of the common range."""
_OTHER_FUNCTION = (14.0, 1.0, 10.0)
_CHEAP = {"fabs", "abs", "max", "min", "if_then_else"}
_FREE = {"likely", "tir.likely", "reinterpret", "tvm_storage_sync"}


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
        _call(str(n.op), lanes, pipe, total)
    elif isinstance(n, (e.BinaryOp, e.Select, e.Not)):
        total[OTHER] += lanes


def _is_power_of_two(n: Any) -> bool:
    """True if a division by it is a product with its reciprocal."""
    n = n.value if isinstance(n, e.Broadcast) else n
    return isinstance(n, e.FloatImm) and abs(math.frexp(n.value)[0]) == 0.5


def _call(name: str, lanes: int, pipe: int, total: list[float]) -> None:
    name = name.removeprefix("tir.")
    if name in _FREE:
        return
    if name in _CHEAP or name.startswith(("bitwise", "shift")):
        total[OTHER] += lanes
    elif name.startswith("warp_shuffle"):
        _add(total, OTHER, (0.0, 0.5, 0.5), lanes)
    else:
        _add(total, pipe, _FUNCTIONS.get(name, _OTHER_FUNCTION), lanes)


def _add(total: list[float], pipe: int, counts: tuple[float, float, float], lanes: int) -> None:
    for k, count in zip((pipe, SPECIAL, OTHER), counts, strict=True):
        total[k] += count * lanes
