"""Keys that tell integer expressions apart by how they are written."""

from __future__ import annotations

from collections.abc import Hashable
from math import copysign

from whet.compiler.tir.expr import (
    BufferLoad,
    Call,
    FloatImm,
    IntImm,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Reduce,
    StringImm,
    Var,
)


def structural_key(n: PrimExpr) -> Hashable:
    """Equal for expressions that are written the same."""
    kind = type(n)
    if isinstance(n, Var):
        return n
    if isinstance(n, FloatImm):
        return ("FloatImm", n.dtype, n.value, copysign(1.0, n.value))  # 0.0 == -0.0
    if isinstance(n, IntImm):
        return ("IntImm", n.dtype, n.value)
    head: tuple[Hashable, ...] = (kind.__name__, n.dtype)
    if kind is BufferLoad:
        head += (id(n.buffer),)  # type: ignore[attr-defined]
    elif kind is ProducerLoad:
        head += (n.producer.op, n.producer.value_index)  # type: ignore[attr-defined]
    elif kind is Call:
        head += (n.op,)  # type: ignore[attr-defined]
    elif kind is Ramp:
        head += (n.stride,)  # type: ignore[attr-defined]
    elif kind in (Reduce, StringImm):
        return id(n)
    return head + tuple(structural_key(p) for p in n.parts)


def factors(key: Hashable) -> tuple[Hashable, ...]:
    """The keys of the factors of a product, whose key begins with ``*``."""
    return key[1:] if isinstance(key, tuple) and key and key[0] == "*" else (key,)


def key_order(key: Hashable) -> tuple[str, int]:
    """An order of keys, the same as long as the process lives."""
    return (key.name, id(key)) if isinstance(key, Var) else (str(type(key)), hash(key))
