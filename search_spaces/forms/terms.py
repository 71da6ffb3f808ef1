"""The term of a contraction as a function of two operands: one of M and K, one of N and K.

A[i, k] * B[k, j] * w[k]             the operands A[i, k] * w[k] and B[k, j], their product
(X[i, k] - Y[j, k]) ** 2             X[i, k] and Y[j, k], the square of their difference
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from whet.compiler.arith.keys import structural_key
from whet.compiler.tir.expr import (
    Add,
    Call,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    ProducerLoad,
    Sub,
    Var,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import TABLE, Rewriter, nodes, substitute, variables

# The value of a term of zeros: beyond the end of K, both operands are 0.
_OPERATIONS: dict[type, Callable] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, Min: min, Max: max,
}  # fmt: skip
_CALLS: dict[str, Callable] = {"fabs": abs, "abs": abs, "sqrt": math.sqrt}

Operands = tuple[PrimExpr, PrimExpr]
Term = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Terms:
    """A term of a sum.

    Attributes:
        operands: in no order.
        of: from an element of each, in this order, to the term; 0 of zeros.
        is_product: whether it is their product.
    """

    operands: Operands
    of: Term
    is_product: bool


def terms_of(source: PrimExpr, data: set[Var]) -> Iterator[Terms]:
    """The ways to see a term as one of two operands, simple ones first.

    Args:
        source: the term.
        data: the variables of the result's axes that have more than one step.
    """
    if isinstance(source, Mul):
        yield Terms((source.a, source.b), ops.multiply, True)
        parts = _multiplied(source)
        sides = _sides([data & set(variables(x)) for x in parts]) if len(parts) > 2 else None
        if sides is not None:
            a, b = ([x for x, s in zip(parts, sides) if s == side] for side in (0, 1))
            yield Terms((reduce(ops.multiply, a), reduce(ops.multiply, b)), ops.multiply, True)
    found = _of_loads(source, data)
    if found is not None:
        yield found


def _multiplied(n: PrimExpr) -> list[PrimExpr]:
    """The operands of a product, none of which is a product itself."""
    if not isinstance(n, Mul):
        return [n]
    return [*_multiplied(n.a), *_multiplied(n.b)]


def _sides(axes: Sequence[set[Var]]) -> list[int] | None:
    """Of each part which of two sides it is of; None: they are more than two.

    Args:
        axes: of the result that each part has.
    """
    if not axes:
        return None
    left = max(axes, key=len)
    right = max((x for x in axes if not x <= left), key=len, default=None)
    if right is None or left <= right:
        return None
    found = []
    for x in axes:
        if not (x <= left or x <= right):
            return None
        found.append(0 if x <= left and (len(left) <= len(right) or not x <= right) else 1)
    return found


def _of_loads(source: PrimExpr, data: set[Var]) -> Terms | None:
    """A term that is any function of two values."""
    loads = [n for n in nodes((source,)) if type(n) is ProducerLoad]
    sides = _sides([data & set(variables(x)) for x in loads])
    if sides is None:
        return None
    own = [
        set().union(*(data & set(variables(x)) for x, s in zip(loads, sides) if s == side))
        for side in (0, 1)
    ]
    parts: list[dict[Hashable, PrimExpr]] = [{}, {}]
    stand_in = [Var(name, source.dtype) for name in ("left", "right")]

    def put(n: Any) -> Any:
        reads = any(type(x) is ProducerLoad for x in nodes((n,)))
        found = data & set(variables(n)) if reads else set()
        side = next((k for k in (0, 1) if found and found <= own[k]), None)
        if side is None or n.dtype != source.dtype:
            return rewrite.children(n)
        parts[side][structural_key(n)] = n
        return stand_in[side]

    rewrite = Rewriter(dict.fromkeys(TABLE, put))
    term = rewrite(source)
    if [len(x) for x in parts] != [1, 1] or any(type(n) is ProducerLoad for n in nodes((term,))):
        return None
    zero = ops.const(0, source.dtype)
    nothing = _value(substitute(term, dict.fromkeys(stand_in, zero)))
    if not set(variables(term)) <= set(stand_in) or nothing != 0:
        return None
    a, b = (next(iter(x.values())) for x in parts)
    return Terms((a, b), lambda x, y: substitute(term, {stand_in[0]: x, stand_in[1]: y}), False)


def _value(n: PrimExpr) -> Any:
    """The value of an expression of numbers; None where it is not known."""
    if isinstance(n, (IntImm, FloatImm)):
        return n.value
    make = _CALLS.get(n.op) if isinstance(n, Call) else _OPERATIONS.get(type(n))
    values = [_value(x) for x in n.parts]
    return None if make is None or None in values else make(*values)
