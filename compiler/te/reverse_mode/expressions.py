"""Derivatives of one expression by what it reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from whet.compiler.arith.keys import structural_key
from whet.compiler.errors import ArgumentError
from whet.compiler.te.reverse_mode.functions import ARITHMETIC, FUNCTIONS, by_operand
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    BinaryOp,
    Call,
    Cast,
    CmpOp,
    Let,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Select,
    Var,
    is_choice,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter, nodes, substitute

Flow = Callable[[PrimExpr], PrimExpr]
_OPPOSITE: dict[type[CmpOp], type[CmpOp]] = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}


@dataclass(frozen=True)
class Partial:
    """What goes to one thing that an expression reads.

    Attributes:
        leaf: the read.
        guards: conditions under which it is read; elsewhere the derivative is zero.
        value: what came from above times the derivative, where the guards hold.
    """

    leaf: PrimExpr
    guards: tuple[PrimExpr, ...]
    value: PrimExpr


@dataclass(frozen=True)
class _Edge:
    """From an expression to an operand: what makes the operand's part, and when."""

    operand: PrimExpr
    flow: Flow
    guard: PrimExpr | None = None


def partials(
    root: PrimExpr, seed: PrimExpr, wanted: Callable[[PrimExpr], bool], request: str
) -> list[Partial]:
    """The derivatives of an expression by all its reads that are ``wanted``.

    Args:
        root: the expression, of floats.
        seed: what its derivative is multiplied by.
        wanted: of a read or a variable, whether the derivative by it is asked for.
        request: for errors.

    Returns:
        One for each read as it is written and the conditions around it.

    Raises:
        ArgumentError: for a function that has no derivative here.
    """
    root = _without_lets(root)
    order = nodes((root,))
    active: set[int] = set()
    for n in order:
        if wanted(n) or any(id(x) in active for x in _operands(n)):
            active.add(id(n))
    parts: dict[int, dict[Hashable, tuple[tuple[PrimExpr, ...], PrimExpr]]] = {}

    def give(n: PrimExpr, guards: tuple[PrimExpr, ...], value: PrimExpr) -> None:
        key = tuple(structural_key(g) for g in guards)
        own = parts.setdefault(id(n), {})
        own[key] = (guards, ops.add(own[key][1], value) if key in own else value)

    if id(root) in active:
        give(root, (), seed)
    found: dict[Hashable, Partial] = {}
    for n in reversed(order):
        if id(n) not in parts:
            continue
        for key, (guards, value) in parts[id(n)].items():
            if wanted(n):
                place = (structural_key(n), key)
                if place in found:
                    value = ops.add(found[place].value, value)
                found[place] = Partial(n, guards, value)
                continue
            for edge in _edges(n, request):
                if id(edge.operand) in active:
                    more = guards if edge.guard is None else (*guards, edge.guard)
                    give(edge.operand, more, edge.flow(value))
    return list(found.values())


def _operands(n: PrimExpr) -> tuple[PrimExpr, ...]:
    """The parts of an expression that a derivative goes through."""
    if not dt.is_float(n.dtype) or isinstance(n, (ProducerLoad, Reduce, CmpOp)):
        return ()
    if isinstance(n, Select):
        return n.true_value, n.false_value
    if is_choice(n):
        return n.args[1:]
    return n.parts


def _edges(n: PrimExpr, request: str) -> list[_Edge]:
    if isinstance(n, Select):
        return _chosen(n.condition, n.true_value, n.false_value)
    if is_choice(n):
        return _chosen(*n.args)
    if isinstance(n, Cast):
        kind = n.value.dtype
        return [_Edge(n.value, lambda s: ops.cast(kind, s))]
    rules = None
    if isinstance(n, BinaryOp):
        rules, name = ARITHMETIC.get(type(n).__name__), type(n).symbol
    elif isinstance(n, Call):
        rules, name = FUNCTIONS.get(n.op), n.op
    else:
        name = type(n).__name__
    if rules is None:
        raise ArgumentError(
            request,
            f"the derivative of {name} is not known",
            "write it with functions of te, or differentiate up to there and give head=",
        )
    operands = _operands(n)
    out = []
    for k, x in enumerate(operands):
        rule = by_operand(rules, k)
        if rule is not None:
            out.append(_Edge(x, lambda s, rule=rule: rule(s, n, *operands)))  # type: ignore[misc]
    return out


def _chosen(condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> list[_Edge]:
    def same(s: PrimExpr) -> PrimExpr:
        return s

    return [_Edge(yes, same, condition), _Edge(no, same, opposite(condition))]


def opposite(condition: PrimExpr) -> PrimExpr:
    """The condition that holds where another does not."""
    kind = _OPPOSITE.get(type(condition))  # type: ignore[arg-type]
    if kind is not None and not dt.is_float(condition.a.dtype):  # type: ignore[attr-defined]
        return ops.compare(kind, condition.a, condition.b)  # type: ignore[attr-defined]
    return ops.logical_not(condition)


def _without_lets(root: PrimExpr) -> PrimExpr:
    def inlined(n: Let) -> PrimExpr:
        value, body = rewrite(n.value), rewrite(n.body)
        var: Var = n.var
        return substitute(body, {var: value})

    if not any(isinstance(n, Let) for n in nodes((root,))):
        return root
    rewrite = Rewriter({Let: inlined})
    return rewrite(root)
