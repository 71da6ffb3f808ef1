"""Derivatives of reductions by the elements that they reduce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.axes import reduce_axis
from whet.compiler.te.lang.compute import compute
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.reverse_mode.expressions import partials
from whet.compiler.te.reverse_mode.functions import times
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    EQ,
    Add,
    CommReducer,
    IterVar,
    Max,
    Min,
    Mul,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Var,
    is_int,
)
from whet.compiler.tir.ops import ops, reducers
from whet.compiler.tir.visit.rewrite import nodes, substitute


@dataclass(frozen=True)
class Share:
    """What goes to one of the expressions that a computation is made of.

    Attributes:
        axes: what the expression is over; it is there once for each of their steps.
        source: the expression.
        guards: where they do not hold, nothing goes there.
        value: what goes there.
    """

    axes: tuple[IterVar, ...]
    source: PrimExpr
    guards: tuple[PrimExpr, ...]
    value: PrimExpr


def shares(op: ComputeOp, output: Tensor, seed: PrimExpr, request: str) -> list[Share]:
    """What goes to the expressions behind one output of a computation.

    Args:
        op: the computation.
        output: what it makes, of floats.
        seed: what goes to an element of ``output``, over the operation's axes.
        request: for errors.

    Raises:
        ArgumentError: for a reduction, other than a sum, that begins at a tensor's element.
    """
    body = op.body[output.value_index]
    if not isinstance(body, Reduce):
        return [Share(op.axis, body, (), seed)]
    kind = _kind(body.combiner)
    axes = (*op.axis, *op.reduce_axis)
    guards = () if is_int(body.condition, 1) else (body.condition,)
    source = body.source[0]
    if kind is Add:
        begin = [Share(op.axis, x, (), seed) for x in body.init]
        return [Share(axes, source, guards, seed), *begin]
    if any(type(n) is ProducerLoad for n in nodes(body.init)):
        raise ArgumentError(
            request,
            f"the reduction {body.combiner.name} of {op.name} begins at a tensor's element",
            "leave init= out, and combine its result with the element in a te.compute",
        )
    at = tuple(a.var for a in op.axis)
    if kind in (Max, Min):
        most = ops.compare(EQ, source, output(*at))
        count = _count(op, body, lambda e, i: ops.compare(EQ, e, output(*i)))
        return [Share(axes, source, (*guards, most), ops.divide(seed, count(*at)))]
    if kind is Mul:
        return [Share(axes, source, guards, times(seed, _rest_of_product(op, body)))]
    steps = [ops.subtract(a.var, a.domain.min) for a in op.reduce_axis]
    return [
        Share(axes, body.source[k], guards, times(seed, jacobian(*at, *steps)))
        for k, jacobian in _jacobians(op, body, request).items()
    ]


def _kind(combiner: CommReducer) -> type | None:
    """The class of what it combines two values with, where that is all that it does."""
    if len(combiner.result) != 1:
        return None
    result = combiner.result[0]
    if type(result) not in (Add, Max, Min, Mul):
        return None
    operands = {id(result.a), id(result.b)}  # type: ignore[attr-defined]
    same = operands == {id(combiner.lhs[0]), id(combiner.rhs[0])}
    return type(result) if same else None


def _renewed(op: ComputeOp) -> tuple[list[IterVar], dict[Var, PrimExpr]]:
    """New reduction axes like those of an operation, and their variables for the old ones."""
    axes = []
    for a in op.reduce_axis:
        begin, extent = a.domain.min, a.domain.extent
        axes.append(reduce_axis((begin, ops.add(begin, extent)), name=a.var.name))
    return axes, {a.var: new.var for a, new in zip(op.reduce_axis, axes)}


def _count(op: ComputeOp, reduced: Reduce, holds: Any) -> Tensor:
    """How many elements of a reduction have some property, as floats."""
    axes, values = _renewed(op)

    def counted(*i: Any) -> PrimExpr:
        known = {**values, **{a.var: x for a, x in zip(op.axis, i)}}
        element = substitute(reduced.source[0], known)
        one = ops.cast(reduced.dtype, ops.select(holds(element, i), 1.0, 0.0))
        where = substitute(reduced.condition, known)
        return reducers.sum(one, axis=axes, where=where)

    return compute(op.output_shape(0), counted, name=f"{op.name}_count")


def _rest_of_product(op: ComputeOp, reduced: Reduce) -> PrimExpr:
    """The product of all other elements, zeros among them or not."""
    kind = reduced.dtype
    zero, one = ops.const(0.0, kind), ops.const(1.0, kind)
    zeros = _count(op, reduced, lambda e, i: ops.compare(EQ, e, zero))
    axes, values = _renewed(op)
    product = reducers.comm_reducer(
        lambda x, y: ops.multiply(x, y), lambda t: ops.const(1.0, t), name="product"
    )

    def others(*i: Any) -> PrimExpr:
        known = {**values, **{a.var: x for a, x in zip(op.axis, i)}}
        element = substitute(reduced.source[0], known)
        factor = ops.select(ops.compare(EQ, element, zero), one, element)
        begin = [substitute(x, known) for x in reduced.init] or None
        where = substitute(reduced.condition, known)
        return product(factor, axis=axes, where=where, init=begin)

    rest = compute(op.output_shape(0), others, name=f"{op.name}_others")
    at = tuple(a.var for a in op.axis)
    e = reduced.source[0]
    is_zero = ops.compare(EQ, e, zero)
    alone = ops.select(ops.compare(EQ, zeros(*at), one), rest(*at), zero)
    none = ops.compare(EQ, zeros(*at), zero)
    divisor = ops.select(is_zero, one, e)
    return ops.select(is_zero, alone, ops.select(none, ops.divide(rest(*at), divisor), zero))


def _jacobians(op: ComputeOp, reduced: Reduce, request: str) -> dict[int, Tensor]:
    """The derivatives of one state of any reduction by each element of floats.

    The states are reduced together with their derivatives, once for each element.

    Returns:
        Place of a source -> tensor over the operation's axes and its reduction axes.
    """
    floats = [k for k, x in enumerate(reduced.source) if dt.is_float(x.dtype)]
    return {k: _jacobian(op, reduced, floats, k, request) for k in floats}


def _jacobian(op: ComputeOp, reduced: Reduce, floats: list[int], by: int, request: str) -> Tensor:
    states = len(reduced.source)
    axes, values = _renewed(op)
    both = reducers.comm_reducer(
        _differentiated(reduced.combiner, floats, request),
        lambda *kinds: (*_identity(reduced, kinds), *(ops.const(0.0, t) for t in kinds[states:])),
        name=f"{reduced.combiner.name}_derivative",
    )

    def element(*i: Any) -> Any:
        rank = len(op.axis)
        known = {**values, **{a.var: x for a, x in zip(op.axis, i)}}
        here = [
            ops.compare(EQ, new.var, ops.add(x, a.domain.min))
            for a, new, x in zip(op.reduce_axis, axes, i[rank:])
        ]
        at = ops.all_of(*here)
        sources = [substitute(x, known) for x in reduced.source]
        unit = [
            ops.cast(sources[k].dtype, ops.select(at, 1.0, 0.0) if k == by else 0.0) for k in floats
        ]
        where = substitute(reduced.condition, known)
        return both((*sources, *unit), axis=axes, where=where)

    extents = [a.domain.extent for a in op.reduce_axis]
    made = compute((*op.output_shape(0), *extents), element, name=f"{op.name}_jacobian")
    outputs: Any = made if isinstance(made, list) else [made]
    result: Tensor = outputs[states + floats.index(reduced.value_index)]
    return result


def _identity(reduced: Reduce, kinds: tuple[str, ...]) -> tuple[PrimExpr, ...]:
    return tuple(reduced.init) or reduced.combiner.identity


def _differentiated(combiner: CommReducer, floats: list[int], request: str) -> Any:
    """A combination of states and of their derivatives."""
    states = len(combiner.result)
    leaves = {id(v): (0, k) for k, v in enumerate(combiner.lhs)}
    leaves.update({id(v): (1, k) for k, v in enumerate(combiner.rhs)})

    def combine(x: Any, y: Any) -> Any:
        known = dict(zip((*combiner.lhs, *combiner.rhs), (*x[:states], *y[:states])))
        slopes = [dict(zip(floats, z[states:])) for z in (x, y)]
        values = [substitute(r, known) for r in combiner.result]
        out = []
        for k in floats:
            total: PrimExpr = ops.const(0.0, combiner.result[k].dtype)
            one = ops.const(1.0, total.dtype)
            for p in partials(combiner.result[k], one, lambda n: id(n) in leaves, request):
                side, state = leaves[id(p.leaf)]
                if state not in slopes[side]:
                    continue
                part = times(substitute(p.value, known), slopes[side][state])
                if p.guards:
                    guard = substitute(ops.all_of(*p.guards), known)
                    part = ops.select(guard, part, ops.const(0.0, part.dtype))
                total = ops.add(total, ops.cast(total.dtype, part))
            out.append(total)
        return (*values, *out)

    return combine
