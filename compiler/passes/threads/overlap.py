"""True if threads that sum, each by itself, would sum into the same elements.

``B[blockIdx.x + u]`` with ``u < 3`` is an element of three blocks, ``B[threadIdx.x // 2]`` one of
two threads. ``B[blockIdx.x * 3 + u]`` is one block's own, and so is
``B[u * 5 + blockIdx.x * 4 + v]`` where ``blockIdx.x * 4 + v < 5``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from whet.compiler.arith import Analyzer
from whet.compiler.arith.radix import is_mixed_radix
from whet.compiler.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Sub,
    Var,
)
from whet.compiler.tir.visit.rewrite import variables

# So many steps of threads and loops are looked at; of more, the first ones of the longest.
_MOST = 1 << 16
_UNKNOWN_SPAN = 64
# What a size that nobody knows is taken for: overlaps that it has are overlaps of the program.
_SYMBOL = 97

OPERATIONS: dict[type, Any] = {
    Add: np.add, Sub: np.subtract, Mul: np.multiply, FloorDiv: np.floor_divide,
    FloorMod: np.remainder, Min: np.minimum, Max: np.maximum, EQ: np.equal,
    NE: np.not_equal, LT: np.less, LE: np.less_equal, GT: np.greater,
    GE: np.greater_equal, And: np.logical_and, Or: np.logical_or, Not: np.logical_not,
    Cast: np.asarray,
}  # fmt: skip


def overlapping(
    index: PrimExpr,
    spans: Mapping[Var, int | None],
    threads: Collection[Var],
    conditions: Iterable[PrimExpr] = (),
    derived: Collection[Var] = (),
    apart: Collection[Var] = (),
) -> Var | None:
    """One of ``threads`` two values of which give the same index; None where none is found.

    Args:
        index: of an access.
        spans: how many values the variables of threads and loops have, where that is known.
        threads: those of them that are looked at.
        conditions: what holds where the access is.
        derived: variables whose value is made of others', in a way that is not looked at.
        apart: threads each of which has memory of its own.
    """
    if not threads or _is_radix(index, spans):
        return None
    known = [index, *conditions]
    used = set().union(*map(variables, known))
    if used & set(derived) or any(v.dtype == "handle" for v in used):
        return None
    values = _steps({v: n for v, n in spans.items() if v in used})
    values |= {v: np.asarray(_SYMBOL) for v in used - values.keys()}
    try:
        at, *holds = np.broadcast_arrays(*(_value(n, values) for n in known), *values.values())
    except _Unknown:
        return None
    holds, steps = holds[: len(known) - 1], dict(zip(values, holds[len(known) - 1 :]))
    runs = np.logical_and.reduce(holds) if holds else np.ones(at.shape, bool)
    places = [at[runs], *(steps[v][runs] for v in apart if v in steps)]
    return next((v for v in steps if v in threads and _several(places, steps[v][runs])), None)


class _Unknown(Exception):
    """A value is read from memory, or computed by a function."""


def _is_radix(index: PrimExpr, spans: Mapping[Var, int | None]) -> bool:
    """True if an index is a sum of digits, all whose values are different."""
    digits: list[tuple[int, int | None]] = []
    for atom, factor in Analyzer().affine(index).terms.values():
        if isinstance(atom, Var) and atom in spans:
            digits.append((abs(factor), spans[atom]))
        elif variables(atom) & spans.keys():
            return False
    return is_mixed_radix(digits)


def _steps(spans: Mapping[Var, int | None]) -> dict[Var, np.ndarray]:
    """The values of variables, each along a dimension of its own."""
    counts = [_UNKNOWN_SPAN if n is None else max(n, 0) for n in spans.values()]
    while int(np.prod(counts, dtype=object)) > _MOST:
        longest = counts.index(max(counts))
        counts[longest] = -(-counts[longest] // 2)
    grid = np.ogrid[tuple(slice(n) for n in counts)] if counts else ()
    return dict(zip(spans, grid))


def _value(n: PrimExpr, values: Mapping[Var, np.ndarray]) -> np.ndarray:
    if isinstance(n, IntImm):
        return np.asarray(n.value)
    if isinstance(n, Var):
        return values[n]
    operation = OPERATIONS.get(type(n))
    if operation is None:
        raise _Unknown
    with np.errstate(divide="ignore"):
        return operation(*(_value(p, values) for p in n.parts))


def _several(places: list[np.ndarray], thread: np.ndarray) -> bool:
    """True if a place occurs with several values of a thread."""
    found = np.unique(np.stack([*places, thread]), axis=1)
    return np.unique(found[:-1], axis=1).shape[1] < found.shape[1]
