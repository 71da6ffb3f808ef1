"""The operations of one step of a loop nest, counted by kind."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    COMPARISONS,
    Add,
    And,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Select,
    Sub,
)
from whet.compiler.tir.ops.table import operation

KINDS = ("fma", "add", "mul", "div", "special", "select", "branch", "integer")
"""Fused multiply-adds; additions; multiplications; divisions; functions such as exp; minima,
maxima, selections and comparisons; conditions that guard reads; arithmetic of integers and
indices."""

_FMA, _ADD, _MUL, _DIV, _SPECIAL, _SELECT, _BRANCH, _INTEGER = range(len(KINDS))
_KIND_OF = {
    Add: _ADD, Sub: _ADD, Mul: _MUL, Div: _DIV,
    **dict.fromkeys((Min, Max, *COMPARISONS, And, Or, Not, Select), _SELECT),
}  # fmt: skip


def count(bodies: Sequence[PrimExpr]) -> list[int]:
    """The number of operations of each of :data:`KINDS` in one step of the nest.

    A part that occurs twice is computed once. Indices of reads cost no arithmetic of their own:
    loops step through them.
    """
    total = [0] * len(KINDS)
    seen: set[int] = set()
    for body in bodies:
        if not isinstance(body, Reduce):
            _count(body, total, seen)
            continue
        if id(body.combiner) in seen:  # the other outputs of a reducer of tuples
            continue
        seen.add(id(body.combiner))
        for x in (*body.source, *body.combiner.result):
            _count(x, total, seen)
        if not isinstance(body.condition, IntImm):
            total[_BRANCH] += 1
            _count(body.condition, total, seen, guard=True)
        products = type(body.combiner.result[0]) is Add and type(body.source[0]) is Mul
        if products and dt.is_float(body.dtype):  # of integers both count as such
            total[_FMA] += 1
            total[_ADD] -= 1
            total[_MUL] -= 1
    return total


def _count(root: PrimExpr, total: list[int], seen: set[int], guard: bool = False) -> None:
    stack = [(root, guard)]
    while stack:
        n, inside = stack.pop()
        kind = type(n)
        if id(n) in seen or kind is ProducerLoad:
            continue
        seen.add(id(n))
        if kind is Call and n.op == "if_then_else":  # type: ignore[attr-defined]
            condition, a, b = n.args  # type: ignore[attr-defined]
            stack += [(condition, True), (a, inside), (b, inside)]
            continue
        place = _KIND_OF.get(kind)
        if kind is Call:
            place = _ADD if operation(n.op).simple else _SPECIAL  # type: ignore[attr-defined]
        elif kind in (FloorDiv, FloorMod, Mod):
            place = _INTEGER
        if place is not None:
            if inside:
                place = _BRANCH if place == _SELECT else _INTEGER
            elif place < _SELECT and not dt.is_float(n.dtype):
                place = _INTEGER
            total[place] += 1
        stack += [(p, inside) for p in n.parts]
