"""Sums and products of float16, accumulated in float32."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.tir.expr import Add, BinaryOp, Cast, IntImm, Mul, PrimExpr, Reduce
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import substitute
from whet.compiler.topi.half_precision import summed_in
from whet.search_spaces.graph.stages import Group

DTYPES = ("float32", "float64")
"""Of the sums that the forms of GEMMs and convolutions keep."""

_product = te.comm_reducer(ops.multiply, lambda t: ops.const(1, t), name="prod")
_COMBINED: dict[type | None, Any] = {Add: te.sum, Mul: _product}


@dataclass(frozen=True)
class Widened:
    """The note of ``rewrite`` for ``schedule``: the sum in float32."""

    sum: Tensor


def widened(group: Group) -> Tensor | None:
    """The group's sum accumulated in float32, stored in float16; None: it is no sum of float16.

    :func:`of_widened` finds the sum by the group's note, :class:`Widened`.
    """
    wide = widened_sum(group.anchor.op)
    if wide is None:
        return None
    group.note(Widened(wide))
    op = group.anchor.op
    return te.compute(
        tuple(op.output_shape(0)), lambda *i: wide(*i).astype(op.output_dtype(0)), name=op.name
    )


def of_widened(s: Schedule, group: Group) -> Group:
    """The group whose anchor is the sum in float32, with the stage that narrows it behind.

    Returns:
        The group itself, if :func:`widened` returned None.
    """
    if Widened not in group.notes:
        return group
    narrow = group.anchor
    if group.consumers:
        s[narrow.tensor].compute_inline()
    wide = replace(narrow, op=group.noted(Widened).sum.op)
    return replace(group, anchor=wide, consumers=(narrow, *group.consumers))


def widened_sum(op: Operation) -> Tensor | None:
    """The sum (or product) of a stage of float16, in float32; None: it is no such stage.

    A float16 holds 11 bits: a sum of ones stops growing at 2048.
    """
    body = plain_reduction(op)
    if body is None or summed_in(body.dtype) == body.dtype:
        return None
    combine = _COMBINED.get(operation_of(body))
    if combine is None:
        return None
    (source,) = body.source
    axes = [te.reduce_axis(a.dom, name=a.var.name) for a in op.reduce_axis]
    moved = dict(zip((a.var for a in op.reduce_axis), (a.var for a in axes), strict=True))

    def element(*index: Any) -> Any:
        places = dict(zip((a.var for a in op.axis), index, strict=True))
        return combine(_widened(substitute(source, moved | places), body.dtype), axis=axes)

    return te.compute(tuple(op.output_shape(0)), element, name=f"{op.name}.wide")


def _widened(source: PrimExpr, dtype: str) -> PrimExpr:
    """The term of a sum, in float32: a product of float16 has twice their bits."""
    kind = summed_in(dtype)
    if isinstance(source, Mul):
        return source.a.astype(kind) * source.b.astype(kind)
    return source.astype(kind)


def narrow(n: PrimExpr) -> PrimExpr:
    """A number of half precision before it is widened to what sums are kept in."""
    return n.value if isinstance(n, Cast) and summed_in(n.value.dtype) == n.dtype else n


def plain_reduction(op: Operation) -> Reduce | None:
    """The reduction that a stage is: of one value, from the identity on, under no condition."""
    body = op.body[0] if isinstance(op, ComputeOp) and len(op.body) == 1 else None
    if not isinstance(body, Reduce) or len(body.source) != 1 or body.init:
        return None
    always = isinstance(body.condition, IntImm) and body.condition.value == 1
    return body if always else None


def operation_of(body: Reduce) -> type | None:
    """``Add`` of a sum, ``Mul`` of a product, ...; None: a reducer that is no such operation alone.

    ``x + y + x * y`` is an ``Add``, too, of other things than its two values.
    """
    result, *others = body.combiner.result
    if others or not isinstance(result, BinaryOp):
        return None
    (x,), (y,) = body.combiner.lhs, body.combiner.rhs
    plain = (result.a is x and result.b is y) or (result.a is y and result.b is x)
    return type(result) if plain else None
