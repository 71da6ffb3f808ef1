"""Common subexpressions of one large expression."""

from __future__ import annotations

from typing import Any

from whet.compiler.tir.expr import BufferLoad, BufferView, Let, PrimExpr, Var

# a tree of more nodes than this, counted as often as they occur, gets names for what it shares
SHARED_FROM = 300


def shared_nodes(n: Any) -> dict[int, int]:
    """The nodes, with a number for equal ones, that a tree has more than once.

    Only for trees that would become too long without names: the passes leave a tree of what users
    wrote as a value that they use again.
    """
    numbers: dict[tuple, int] = {}
    times: dict[int, int] = {}
    sizes: list[int] = []
    seen: dict[int, int] = {}

    def walk(x: Any) -> int:
        parts = tuple(map(walk, x.parts))
        number = numbers.setdefault((*_identity(x), *parts), len(numbers))
        if number == len(sizes):
            sizes.append(1 + sum(sizes[p] for p in parts))
        times[number] = times.get(number, 0) + 1
        seen[id(x)] = number
        return number

    if _size(n) <= SHARED_FROM:
        return {}
    walk(n)
    return {k: number for k, number in seen.items() if times[number] > 1 and sizes[number] > 3}


def _size(n: Any) -> int:
    """The number of nodes of a tree."""
    return 1 + sum(map(_size, n.parts))


def _identity(n: Any) -> tuple:
    """The key of a node among others with the same children."""
    if isinstance(n, Var):
        return (id(n),)
    if isinstance(n, (BufferLoad, BufferView)):
        return type(n), id(n.buffer), n.dtype, len(n.indices) if isinstance(n, BufferLoad) else 0
    if isinstance(n, Let):
        return type(n), id(n.var)
    values = (getattr(n, k, None) for k in ("value", "op", "stride", "lanes", "indices"))
    return type(n), n.dtype, *(repr(x) for x in values if not isinstance(x, PrimExpr))
