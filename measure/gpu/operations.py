"""Arithmetic of one expression of a kernel, by the pipe that it goes through."""

from __future__ import annotations

from typing import Any

from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.rewrite import TABLE

FMA32, FMA64, SPECIAL, OTHER = range(4)
"""Additions, products and fused multiply-adds of floats up to 32 bits; of float64; special
functions and conversions; everything else that is issued."""
DIVISION = 8.0
"""Multiply-adds of a division: a reciprocal, its corrections."""
CONSTANT_DIVISION, LONG_DIVISION = 4.0, 20.0
"""Instructions of a division of integers: by a constant, by anything."""
_POLYNOMIAL = 14.0
"""Multiply-adds of a function that the hardware has no instruction for."""
_HARDWARE = {
    "exp", "exp2", "log", "log2", "rsqrt", "sqrt", "sin", "cos", "sigmoid", "tanh", "rcp",
}  # fmt: skip
_CHEAP = {"fabs", "abs", "floor", "ceil", "trunc", "round", "nearbyint", "max", "min"}
_FREE = {"likely", "tir.likely", "reinterpret", "tvm_storage_sync"}
_SUMS = (e.Add, e.Sub)


def operations(root: e.PrimExpr, apart: list[e.PrimExpr] | None = None) -> list[float]:
    """Operations of one evaluation, of all lanes of a vector; those of indices are left out.

    Args:
        root: the value of a store, or a condition.
        apart: takes the parts that loops and threads alone decide, conditions of reads above all:
            compilers move them out of the loops that do not change them. They are not counted.

    Returns:
        A count for each of :data:`FMA32`, :data:`FMA64`, :data:`SPECIAL` and :data:`OTHER`.
    """
    total = [0.0] * 4
    stack: list[Any] = [root]
    seen: set[int] = set()
    while stack:
        n = stack.pop()
        if id(n) in seen or isinstance(n, e.BufferLoad):
            continue
        seen.add(id(n))
        if apart is not None and _is_of_loops(n):
            apart.append(n)
            continue
        fused = _product(n) if _is_sum(n) else None
        _one(n, total)
        if fused is not None:
            stack += [p for x in (n.a, n.b) for p in ((x.a, x.b) if x is fused else (x,))]
        else:
            stack += TABLE[type(n)][0](n)
    return total


def _is_of_loops(n: Any) -> bool:
    """Whether an expression is of whole numbers or truth values, and reads nothing."""
    if isinstance(n, (e.IntImm, e.Var, e.StringImm)) or n.dtype == "handle":
        return False
    if dt.is_float(n.dtype):
        return False
    stack: list[Any] = [n]
    while stack:
        part = stack.pop()
        if isinstance(part, e.BufferLoad) or dt.is_float(part.dtype):
            return False
        stack += TABLE[type(part)][0](part)
    return True


def _is_sum(n: Any) -> bool:
    return isinstance(n, _SUMS) and dt.is_float(n.dtype)


def _product(n: Any) -> Any:
    """A factor of a fused multiply-add; None where there is none."""
    return next((x for x in (n.b, n.a) if isinstance(x, e.Mul)), None)


def _one(n: Any, total: list[float]) -> None:
    """Add one node's own operations."""
    lanes = dt.lanes(n.dtype) if n.dtype != "handle" else 1
    number = dt.is_float(n.dtype)
    pipe = FMA64 if dt.element(n.dtype) == "float64" else FMA32
    if isinstance(n, (e.Add, e.Sub, e.Mul)):
        total[pipe if number else OTHER] += lanes
    elif isinstance(n, (e.Div, e.FloorDiv, e.FloorMod, e.Mod)):
        if number:
            total[pipe] += DIVISION * lanes
            total[SPECIAL] += lanes
        else:
            total[OTHER] += _whole_division(n.b) * lanes
    elif isinstance(n, e.Cast):
        if number != dt.is_float(n.value.dtype) or dt.bits(n.dtype) != dt.bits(n.value.dtype):
            total[SPECIAL] += 0.25 * lanes  # four times the rate of other special functions
    elif isinstance(n, e.Call):
        _call(str(n.op), lanes, pipe, total)
    elif isinstance(n, (e.BinaryOp, e.Select, e.Not)):
        total[OTHER] += lanes


def _whole_division(by: Any) -> float:
    """Instructions of a division of integers: by a constant it is a shift, or a multiplication."""
    value = by.value if isinstance(by, e.Broadcast) else by
    if not isinstance(value, e.IntImm):
        return LONG_DIVISION
    return 1.0 if value.value > 0 and value.value & (value.value - 1) == 0 else CONSTANT_DIVISION


def _call(name: str, lanes: int, pipe: int, total: list[float]) -> None:
    name = name.removeprefix("tir.")
    if name in _FREE:
        return
    if name in _HARDWARE:
        total[SPECIAL] += lanes
        total[pipe] += 2.0 * lanes
    elif name in _CHEAP or name == "if_then_else" or name.startswith("bitwise"):
        total[OTHER] += lanes
    elif name == "fma":
        total[pipe] += lanes
    elif name.startswith("warp_shuffle"):
        total[SPECIAL] += 0.5 * lanes
    else:
        total[pipe] += _POLYNOMIAL * lanes
