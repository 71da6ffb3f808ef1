"""Expressions whose parts occur in many places: each such part is computed once, under a name.

    (A[i] + A[i] * 2) * (A[i] + A[i] * 2)   ->   let(x, A[i] + A[i] * 2, x * x)

An expression is a tree to everything that walks it. ``x = x + x`` sixty times over is sixty nodes
in memory and 2**60 in the tree; with names it is sixty again.
"""

from __future__ import annotations

from collections import Counter
from operator import is_

from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    And,
    BufferLoad,
    Call,
    Cast,
    Let,
    Or,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Select,
    Var,
    is_choice,
)
from whet.compiler.tir.visit.rewrite import LEAVES, nodes

#: trees of at most so many nodes stay as they are: generators number equal values anyway
SMALL_TREE = 2000
#: and so do those that share so little that names would not make them this much smaller
WORTH = 4

_DATA = (BufferLoad, ProducerLoad)


def tree_size(root: PrimExpr) -> tuple[int, int]:
    """The nodes of an expression as a tree, and as the graph that it is in memory."""
    sizes: dict[int, int] = {}
    for n in nodes([root]):
        if type(n) not in LEAVES:
            sizes[id(n)] = 1 + sum(sizes.get(id(p), 1) for p in n.parts)
    return sizes.get(id(root), 1), max(len(sizes), 1)


def bind_shared(root: PrimExpr) -> PrimExpr:
    """The expression with names for its parts that occur in several places, if it is large.

    A part is named where all that use it stand: what an ``if_then_else`` guards stays guarded.
    Indices stay as they are, since what is known of them is read off their form.
    """
    written, held = tree_size(root)
    if written <= SMALL_TREE or written < WORTH * held:
        return root
    return _region(root, {})


def _here(n: PrimExpr) -> tuple[PrimExpr, ...]:
    """The children that are evaluated whenever a node is; the others are under a guard."""
    if is_choice(n):
        return n.args[:1]
    if isinstance(n, (And, Or)):
        return (n.a,)
    if isinstance(n, _DATA):
        return ()  # its indices
    if isinstance(n, (Reduce, Let)):
        return ()
    return n.parts


def _guarded(n: PrimExpr) -> bool:
    return is_choice(n) or isinstance(n, (And, Or))


def _region(root: PrimExpr, known: dict[int, Var]) -> PrimExpr:
    """An expression under one guard, with names for what it uses twice; ``known`` has names."""
    if id(root) in known:
        return known[id(root)]

    def inside(n: PrimExpr) -> list[PrimExpr]:
        return [p for p in reversed(_here(n)) if id(p) not in known and type(p) not in LEAVES]

    order = nodes([root], inside)
    uses = Counter(id(p) for n in order for p in inside(n))
    names, done = dict(known), dict[int, PrimExpr](known)
    lets: list[tuple[Var, PrimExpr]] = []
    for n in order:
        here, guarded = {id(p) for p in _here(n)}, _guarded(n)
        made = tuple(
            done.get(id(p), p) if id(p) in here else _region(p, names) if guarded else p
            for p in n.parts
        )
        done[id(n)] = n if all(map(is_, made, n.parts)) else n.with_parts(made)
        if uses[id(n)] > 1 and not isinstance(n, _DATA) and not _index(n):
            var = names[id(n)] = Var(f"shared{len(names)}", n.dtype)
            lets.append((var, done[id(n)]))
            done[id(n)] = var
    body = done.get(id(root), root)
    for var, value in reversed(lets):
        body = Let(var, value, body, body.dtype)
    return body


def _index(n: PrimExpr) -> bool:
    """True if an expression is one of indices: integers that no data comes into."""
    if dt.element(n.dtype) not in ("int32", "int64"):
        return False
    return not any(isinstance(x, (*_DATA, Call, Select, Cast)) for x in nodes([n]))
