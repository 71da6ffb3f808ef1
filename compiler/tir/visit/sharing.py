"""Expressions whose parts occur in many places: each such part is computed once, under a name.

    (A[i] + A[i] * 2) * (A[i] + A[i] * 2)   ->   let(x, A[i] + A[i] * 2, x * x)

An expression is a tree to everything that walks it. ``x = x + x`` sixty times over is sixty nodes
in memory and 2**60 in the tree; with names it is sixty again.
"""

from __future__ import annotations

from collections.abc import Iterable

from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir.visit.rewrite import LEAVES, TABLE

#: trees of at most so many nodes stay as they are: generators number equal values anyway
SMALL_TREE = 2000
#: and so do those that share so little that names would not make them this much smaller
WORTH = 4

_DATA = (e.BufferLoad, e.ProducerLoad)


def tree_size(root: e.PrimExpr) -> tuple[int, int]:
    """How many nodes an expression has written out, and how many in memory."""
    sizes: dict[int, int] = {}
    for n in _order([root]):
        sizes[id(n)] = 1 + sum(sizes.get(id(p), 1) for p in TABLE[type(n)][0](n))
    return sizes.get(id(root), 1), max(len(sizes), 1)


def bind_shared(root: e.PrimExpr) -> e.PrimExpr:
    """The expression with names for its parts that occur in several places, if it is large.

    A part is named where all that use it stand: what an ``if_then_else`` guards stays guarded.
    Indices stay as they are, since what is known of them is read off their form.
    """
    written, held = tree_size(root)
    if written <= SMALL_TREE or written < WORTH * held:
        return root
    return _region(root, {})


def _order(roots: Iterable[e.PrimExpr]) -> list[e.PrimExpr]:
    """Every node that is no leaf once, children first."""
    out: list[e.PrimExpr] = []
    seen: set[int] = set()
    stack = [(n, False) for n in roots]
    while stack:
        n, ready = stack.pop()
        if ready:
            out.append(n)
        elif id(n) not in seen and type(n) not in LEAVES:
            seen.add(id(n))
            stack.append((n, True))
            stack.extend((p, False) for p in TABLE[type(n)][0](n))
    return out


def _here(n: e.PrimExpr) -> tuple[e.PrimExpr, ...]:
    """The children that are evaluated whenever a node is; the others are under a guard."""
    if isinstance(n, e.Call) and n.op == "if_then_else":
        return n.args[:1]
    if isinstance(n, (e.And, e.Or)):
        return (n.a,)
    if isinstance(n, _DATA):
        return ()  # its indices
    if isinstance(n, (e.Reduce, e.Let)):
        return ()
    return TABLE[type(n)][0](n)


def _guarded(n: e.PrimExpr) -> bool:
    return (isinstance(n, e.Call) and n.op == "if_then_else") or isinstance(n, (e.And, e.Or))


def _region(root: e.PrimExpr, known: dict[int, e.Var]) -> e.PrimExpr:
    """An expression under one guard, with names for what it uses twice; ``known`` has names."""
    order: list[e.PrimExpr] = []
    uses: dict[int, int] = {}
    stack = [(root, False)]
    while stack:
        n, ready = stack.pop()
        if ready:
            order.append(n)
            continue
        if id(n) in known or type(n) in LEAVES:
            continue
        uses[id(n)] = uses.get(id(n), 0) + 1
        if uses[id(n)] == 1:
            stack.append((n, True))
            stack.extend((p, False) for p in _here(n))
    names = dict(known)
    lets: list[tuple[e.Var, e.PrimExpr]] = []
    done: dict[int, tuple[e.PrimExpr, e.PrimExpr]] = {}

    def new(n: e.PrimExpr) -> e.PrimExpr:
        if id(n) in names:
            return names[id(n)]
        return done[id(n)][1] if id(n) in done else n

    for n in order:
        parts = TABLE[type(n)][0](n)
        inside = {id(p) for p in _here(n)}
        if _guarded(n):
            made = tuple(new(p) if id(p) in inside else _region(p, names) for p in parts)
        else:
            made = tuple(new(p) if id(p) in inside else p for p in parts)
        changed = any(a is not b for a, b in zip(made, parts))
        out = TABLE[type(n)][1](n, made) if changed else n
        done[id(n)] = (n, out)
        if uses[id(n)] > 1 and n is not root and not isinstance(n, _DATA) and not _index(n):
            var = e.Var(f"shared{len(names)}", n.dtype)
            lets.append((var, out))
            names[id(n)] = var
    body = new(root)
    for var, value in reversed(lets):
        body = e.Let(var, value, body, body.dtype)
    return body


def _index(n: e.PrimExpr) -> bool:
    """Whether an expression is one of indices: integers that no data comes into."""
    if dt.element(n.dtype) not in ("int32", "int64"):
        return False
    return not any(isinstance(x, (*_DATA, e.Call, e.Select, e.Cast)) for x in _order([n]))
