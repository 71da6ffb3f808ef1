"""The form of a contraction: which axes are its batch, its M, its N, its K.

    C[n, o, y, x] = sum over c, ry, rx of P[n, c, y + ry, x + rx] * W[o, c, ry, rx]
    M: o    N: n, y, x    K: c, ry, rx

An axis that both operands have is the batch. Groups of a convolution are, too: of an output channel
that one operand has as ``o // per``, the quotient is of the batch and the remainder is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir.expr import Add, FloorDiv, IntImm, PrimExpr, ProducerLoad, Reduce, Var
from whet.compiler.tir.visit.rewrite import Rewriter, nodes, variables
from whet.compiler.topi.half_precision import summed_in
from whet.search_spaces.forms.terms import Term, Terms, terms_of
from whet.search_spaces.forms.widened_sum import operation_of, plain_reduction
from whet.search_spaces.graph.stages import constant_extents, int_extent


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of the GEMM.

    Attributes:
        var: what stands for it in the operands.
        extent: its indices, from 0 on.
    """

    var: Var
    extent: int


@dataclass(frozen=True, eq=False)
class Part:
    """An axis of the result: one axis of the GEMM, or a quotient and a remainder.

    Attributes:
        axes: one, or the quotient's and the remainder's.
    """

    axes: tuple[Axis, ...]

    @property
    def per(self) -> int:
        """The extent of the remainder."""
        return self.axes[-1].extent


@dataclass(frozen=True, eq=False)
class Contraction:
    """A contraction as a GEMM.

    Attributes:
        left: the operand that the rows are read from; right: the columns'.
        parts: of each axis of the result, in order.
        lead, rows, columns: the axes of the batch, of M and of N, in the order of the result.
        steps: the axes of K.
        windows: those of them that share an index with a row or a column, as ``y + ry`` does.
        dtype: of the sum.
        term: from an element of each operand to what is summed up.
        is_product: whether that is their product.
    """

    left: PrimExpr
    right: PrimExpr
    parts: tuple[Part, ...]
    lead: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    steps: tuple[Axis, ...]
    windows: tuple[Axis, ...]
    dtype: str
    term: Term
    is_product: bool

    @property
    def divided(self) -> tuple[Axis, ...]:
        """The remainders of axes that are two."""
        return tuple(p.axes[1] for p in self.parts if len(p.axes) == 2)

    @property
    def counts(self) -> tuple[int, int]:
        """M and N."""
        return extent_of(self.rows), extent_of(self.columns)


def extent_of(axes: Iterable[Axis]) -> int:
    """The product of extents."""
    return prod(axis.extent for axis in axes)


def contraction_of(op: Operation, fewest: int) -> Contraction | None:
    """The contraction that a stage is; None: it is none, or M or N is less than ``fewest``."""
    body = plain_reduction(op) if isinstance(op, ComputeOp) and constant_extents(op) else None
    if body is None or operation_of(body) is not Add:
        return None
    data = {axis.var for axis in op.axis if int_extent(axis) > 1}
    for terms in terms_of(body.source[0], data):
        found = _contraction(op, body, terms)
        if found is not None and min(found.counts) >= fewest:
            return found
    return None


def _contraction(op: Operation, body: Reduce, terms: Terms) -> Contraction | None:
    """M, N and K of a sum of terms."""
    a, b = terms.operands
    if not terms.is_product and (a.dtype, b.dtype) != (summed_in(body.dtype),) * 2:
        return None
    parts: list[Part] = []
    for axis in op.axis:
        part, a, b = _part(Axis(axis.var, int_extent(axis)), a, b)
        parts.append(part)
    of_a, of_b = set(variables(a)), set(variables(b))
    every = [axis for part in parts for axis in part.axes]
    lead = [x for x in every if (x.var in of_a) == (x.var in of_b)]
    last = next((x for x in reversed(every) if x.extent > 1), None)
    if last is None or last in lead:
        return None
    swapped = last.var in of_a
    if swapped:
        a, b, of_a, of_b = b, a, of_b, of_a
    rows = tuple(x for x in every if x not in lead and x.var in of_a)
    columns = tuple(x for x in every if x not in lead and x.var in of_b)
    steps = tuple(Axis(x.var, int_extent(x)) for x in op.reduce_axis)
    slid = _sliding((a, b), {x.var for x in (*rows, *columns)}, {x.var for x in steps})
    windows = tuple(x for x in steps if x.var in slid)
    term = (lambda x, y: terms.of(y, x)) if swapped else terms.of
    return Contraction(
        a, b, tuple(parts), tuple(lead), rows, columns, steps, windows, body.dtype,
        term, terms.is_product,
    )  # fmt: skip


def _part(axis: Axis, a: PrimExpr, b: PrimExpr) -> tuple[Part, PrimExpr, PrimExpr]:
    """An axis of the result, and the operands in terms of it or of the two that it is made of."""
    if not all(axis.var in variables(x) for x in (a, b)):
        return Part((axis,)), a, b
    for operand in (a, b):
        per = _quotient(axis, operand)
        if per is None:
            continue
        group = Axis(Var(f"{axis.var.name}.group", axis.var.dtype), axis.extent // per)
        own = Axis(Var(f"{axis.var.name}.own", axis.var.dtype), per)
        whole = group.var * per + own.var
        made = [_put(a, axis, per, group.var, whole), _put(b, axis, per, group.var, whole)]
        return Part((group, own)), made[0], made[1]
    return Part((axis,)), a, b


def _quotient(axis: Axis, operand: PrimExpr) -> int | None:
    """The number that an axis is divided by wherever an operand has it."""
    divisors = {
        n.b.value
        for n in nodes((operand,))
        if isinstance(n, FloorDiv) and n.a is axis.var and isinstance(n.b, IntImm)
    }
    if len(divisors) != 1:
        return None
    (per,) = divisors
    if axis.var in variables(_put(operand, axis, per, IntImm(axis.var.dtype, 0), axis.var)):
        return None
    return per if 1 < per < axis.extent and axis.extent % per == 0 else None


def _put(operand: PrimExpr, axis: Axis, per: int, quotient: PrimExpr, whole: PrimExpr) -> PrimExpr:
    """An operand with the quotient of an axis in the place of it, and else the whole."""

    def divided(n: FloorDiv) -> Any:
        same = n.a is axis.var and isinstance(n.b, IntImm) and n.b.value == per
        return quotient if same else rewrite.children(n)

    def replaced(n: Var) -> Any:
        return whole if n is axis.var else n

    rewrite = Rewriter({FloorDiv: divided, Var: replaced}, once=True)
    return rewrite(operand)


def _sliding(operands: Sequence[PrimExpr], data: set[Var], steps: set[Var]) -> set[Var]:
    """The axes of K that share an index of a tensor with an axis of M or N."""
    indices = (i for n in nodes(operands) if isinstance(n, ProducerLoad) for i in n.indices)
    inside = (set(variables(index)) for index in indices)
    return {v for found in inside if found & data for v in found & steps}
