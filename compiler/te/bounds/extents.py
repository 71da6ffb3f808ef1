"""Extents and values along the relations of a stage: from axes to loops, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.te.lang.relations import Extents, Relation, Values
from whet.compiler.te.lang.tensor import ComputeOp, HybridOp
from whet.compiler.tir.expr import FloorDiv, FloorMod, IterVar, Min, Mul
from whet.compiler.tir.ops import ops
from whet.compiler.tir.printer import expr_text

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage

Forms = dict[IterVar, Affine]
Guards = list[tuple[Affine, Affine]]


class AffineSizes:
    """Sizes as affine forms, which an analyzer knows more about: the algebra of the compiler.

    Numbers of steps and values of loops are affine forms alike.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.size = self.form = analyzer.affine

    def clamped(self, given: Affine, parent: Affine) -> Affine:
        """The size of a split, not above its loop's, if both are numbers."""
        if not parent.is_const or not given.is_const:
            return given
        return Affine({}, max(min(given.const, parent.const), 1))

    def product(self, a: Affine, b: Affine) -> Affine:
        """``a * b``."""
        if b.is_const:
            return a.scaled(b.const)
        if a.is_const:
            return b.scaled(a.const)
        x, y = a.to_expr(), b.to_expr()
        return self.form(Mul(x, y, x.dtype))

    scaled = product

    def shifted_inwards(self, begin: Affine, steps: Affine, whole: Affine) -> Affine | None:
        """The begin of so many steps, not behind the last one that fits; None without numbers."""
        if not steps.is_const or not whole.is_const:
            return None
        value = begin.to_expr()
        return self.form(Min(value, ops.const(whole.const - steps.const, value.dtype), value.dtype))

    def ceildiv(self, a: Affine, b: Affine) -> Affine:
        """``a / b`` rounded up."""
        if b.is_const:
            return self.analyzer.floordiv(a.shifted(b.const - 1), b.const)
        x, y = (a + b).shifted(-1).to_expr(), b.to_expr()
        return self.form(FloorDiv(x, y, x.dtype))

    def divided(self, value: Affine, by: Affine) -> tuple[Affine, Affine]:
        """``value // by`` and ``value % by``."""
        if by.is_const:
            size = max(by.const, 1)
            outer = self.analyzer.floordiv(value, size)
            return outer, value - outer.scaled(size)
        x, y = value.to_expr(), by.to_expr()
        return self.form(FloorDiv(x, y, x.dtype)), self.form(FloorMod(x, y, x.dtype))

    def covered(self, outer: Affine, inner: Affine, parent: Affine) -> bool:
        """True if a split divides its loop."""
        return self.product(outer, inner).key == parent.key


def pass_down(relations: Sequence[Relation], extents: Extents, sizes: Any) -> None:
    """Extents of everything that splits and fuses made, from those of the axes."""
    for r in relations:
        r.extents_down(extents, sizes)


def pass_up(
    relations: Sequence[Relation], extents: Extents, values: Values, sizes: Any
) -> list[tuple[Any, Any]]:
    """Values of the axes, counted from 0, from those of the loops.

    Returns:
        For each axis or loop that steps may leave, its value, and the extent to stay below.
    """
    guards = []
    for r in reversed(relations):
        guards += [(values[a], extents[a]) for a in r.values_up(extents, values, sizes)]
    return guards


def map_down(relations: Sequence[Relation], extents: Extents, values: Values, sizes: Any) -> None:
    """Values of the loops, counted from 0, from those of the axes."""
    for r in relations:
        r.values_down(extents, values, sizes)


def axis_extents(stage: Stage, sizes: AffineSizes) -> Forms:
    """The extents of a stage's axes and loops, as if it computed its whole tensor."""
    op = stage.op
    extents = {
        a: sizes.size(a.dom.extent) for a in (*op.axis, *op.reduce_axis) if a.dom is not None
    }
    pass_down(stage.relations, extents, sizes)
    return extents


def leaf_extents(stage: Stage) -> dict[IterVar, str]:
    """The extents of a stage's loops as text, as if it computed its whole tensor."""
    if not isinstance(stage.op, ComputeOp | HybridOp):
        return {}
    extents = axis_extents(stage, AffineSizes(Analyzer()))
    return {a: expr_text(extents[a].to_expr()) for a in stage.leaf_iter_vars}


def touched(axis: IterVar, relations: Sequence[Relation]) -> set[IterVar]:
    """Everything that relations tie to an axis, itself included."""
    tied = {axis}
    while True:
        more = [r.members for r in relations if not tied.isdisjoint(r.members)]
        before = len(tied)
        tied.update(*more)
        if len(tied) == before:
            return tied
