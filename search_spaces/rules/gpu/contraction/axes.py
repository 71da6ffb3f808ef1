"""A sum of products as a product of matrices: which axes are its rows, its columns, its steps.

    C[n, o, y, x] = sum over c, ry, rx of P[n, c, y + ry, x + rx] * W[o, c, ry, rx]
    rows: o    columns: n, y, x    steps: c, ry, rx

An axis that both factors have is the batch. Groups of a convolution are, too: of an output channel
that one factor has as ``o // per``, the quotient is of the batch and the remainder is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir import expr as e
from whet.compiler.tir.visit.rewrite import Rewriter, variables
from whet.search_spaces.rules.cpu.tiled_spec import constant_extents
from whet.search_spaces.rules.gpu.contraction.terms import Term, Terms, terms_of
from whet.search_spaces.rules.gpu.contraction.widened_sum import operation_of
from whet.search_spaces.rules.gpu.lanes import summed_in

# A result with fewer rows or columns is not worth tiles.
_FEWEST = 4


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of the product.

    Attributes:
        var: what stands for it in the factors.
        extent: its steps, from 0 on.
    """

    var: e.Var
    extent: int


@dataclass(frozen=True, eq=False)
class Part:
    """What an axis of the result is: one axis of the product, or a quotient and a remainder.

    Attributes:
        axes: one, or the quotient's and the remainder's.
    """

    axes: tuple[Axis, ...]

    @property
    def per(self) -> int:
        """What the remainder counts to."""
        return self.axes[-1].extent


@dataclass(frozen=True, eq=False)
class Contraction:
    """A sum of products.

    Attributes:
        left: the factor that the rows are read from; right: the columns'.
        parts: of each axis of the result, in order.
        lead, rows, columns: the axes of the product, each in the order of the result.
        steps: the axes that are summed over.
        windows: those of them that share an index with a row or a column, as ``y + ry`` does.
        dtype: of the sum.
        term: from an element of each factor to what is summed up.
        is_product: whether that is their product.
    """

    left: e.PrimExpr
    right: e.PrimExpr
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
        """Rows and columns."""
        return extent_of(self.rows), extent_of(self.columns)


def extent_of(axes: Iterable[Axis]) -> int:
    """The steps of several loops."""
    return prod(axis.extent for axis in axes)


def contraction_of(op: object) -> Contraction | None:
    """What a stage computes, as a product of matrices; None: it is none, or one of a few rows."""
    body = _summed(op)
    if body is None or not isinstance(op, ComputeOp):
        return None
    data = {axis.var for axis in op.axis if _extent(axis) > 1}
    for terms in terms_of(body.source[0], data):
        found = _contraction(op, body, terms)
        if found is not None:
            return found
    return None


def _contraction(op: ComputeOp, body: e.Reduce, terms: Terms) -> Contraction | None:
    """The rows, columns and steps of a sum of terms."""
    a, b = terms.factors
    if not terms.is_product and (a.dtype, b.dtype) != (summed_in(body.dtype),) * 2:
        return None
    parts: list[Part] = []
    for axis in op.axis:
        part, a, b = _part(Axis(axis.var, _extent(axis)), a, b)
        parts.append(part)
    of_a, of_b = set(variables(a)), set(variables(b))
    every = [axis for part in parts for axis in part.axes]
    lead = [x for x in every if (x.var in of_a) == (x.var in of_b)]
    last = next((x for x in reversed(every) if x.extent > 1), None)
    if last is None or last in lead:
        return None
    turned = last.var in of_a
    if turned:
        a, b, of_a, of_b = b, a, of_b, of_a
    rows = tuple(x for x in every if x not in lead and x.var in of_a)
    columns = tuple(x for x in every if x not in lead and x.var in of_b)
    if min(extent_of(rows), extent_of(columns)) < _FEWEST:
        return None
    steps = tuple(Axis(x.var, _extent(x)) for x in op.reduce_axis)
    slid = _sliding((a, b), {x.var for x in (*rows, *columns)}, {x.var for x in steps})
    windows = tuple(x for x in steps if x.var in slid)
    term = (lambda x, y: terms.of(y, x)) if turned else terms.of
    return Contraction(
        a, b, tuple(parts), tuple(lead), rows, columns, steps, windows, body.dtype,
        term, terms.is_product,
    )  # fmt: skip


def _summed(op: object) -> e.Reduce | None:
    """The sum of a stage."""
    if not isinstance(op, ComputeOp) or len(op.body) != 1 or not constant_extents(op):
        return None
    (body,) = op.body
    if not isinstance(body, e.Reduce) or len(body.source) != 1 or body.init:
        return None
    always = isinstance(body.condition, e.IntImm) and body.condition.value == 1
    return body if always and operation_of(body) is e.Add else None


def _extent(axis: e.IterVar) -> int:
    assert axis.dom is not None
    return int(axis.dom.extent)


def _part(axis: Axis, a: e.PrimExpr, b: e.PrimExpr) -> tuple[Part, e.PrimExpr, e.PrimExpr]:
    """An axis of the result, and the factors in terms of it or of the two that it is made of."""
    if not all(axis.var in variables(x) for x in (a, b)):
        return Part((axis,)), a, b
    for factor in (a, b):
        per = _quotient(axis, factor)
        if per is None:
            continue
        group = Axis(e.Var(f"{axis.var.name}.group", axis.var.dtype), axis.extent // per)
        own = Axis(e.Var(f"{axis.var.name}.own", axis.var.dtype), per)
        whole = group.var * per + own.var
        made = [_put(a, axis, per, group.var, whole), _put(b, axis, per, group.var, whole)]
        return Part((group, own)), made[0], made[1]
    return Part((axis,)), a, b


def _quotient(axis: Axis, factor: e.PrimExpr) -> int | None:
    """The number that an axis is divided by wherever a factor has it."""
    divisors: set[int] = set()
    bare = Rewriter({e.FloorDiv: lambda n: _noted(n, axis, divisors, bare)}, once=True)
    left = bare(factor)
    if len(divisors) != 1 or axis.var in variables(left):
        return None
    (per,) = divisors
    return per if 1 < per < axis.extent and axis.extent % per == 0 else None


def _noted(n: e.FloorDiv, axis: Axis, divisors: set[int], rewrite: Any) -> Any:
    if n.a is axis.var and isinstance(n.b, e.IntImm):
        divisors.add(n.b.value)
        return e.IntImm(axis.var.dtype, 0)
    return rewrite.children(n)


def _put(
    factor: e.PrimExpr, axis: Axis, per: int, quotient: e.PrimExpr, whole: e.PrimExpr
) -> e.PrimExpr:
    """A factor with the quotient of an axis in the place of it, and else the whole."""

    def divided(n: e.FloorDiv) -> Any:
        same = n.a is axis.var and isinstance(n.b, e.IntImm) and n.b.value == per
        return quotient if same else rewrite.children(n)

    def replaced(n: e.Var) -> Any:
        return whole if n is axis.var else n

    rewrite = Rewriter({e.FloorDiv: divided, e.Var: replaced}, once=True)
    return rewrite(factor)


def _sliding(factors: Sequence[e.PrimExpr], data: set[e.Var], steps: set[e.Var]) -> set[e.Var]:
    """The steps that share an index of a tensor with a row or a column."""
    found: set[e.Var] = set()

    def look(n: e.ProducerLoad) -> Any:
        for index in n.indices:
            inside = set(variables(index))
            if inside & data:
                found.update(inside & steps)
        return rewrite.children(n)

    rewrite = Rewriter({e.ProducerLoad: look}, once=True)
    for factor in factors:
        rewrite(factor)
    return found
