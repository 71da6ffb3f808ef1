"""Extents and values along the relations of a stage: from axes to loops, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.te.lang.relations import Fuse, Rebase, Relation, Singleton, Split
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir import expr as e

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage

Forms = dict[e.IterVar, Affine]
Guards = list[tuple[Affine, Affine]]


def pass_down(relations: Sequence[Relation], extents: Forms, analyzer: Analyzer) -> None:
    """Extents of everything that splits and fuses made, from those of the axes."""
    for r in relations:
        if isinstance(r, Fuse):
            extents[r.fused] = times(extents[r.outer], extents[r.inner], analyzer)
        elif isinstance(r, Split):
            parent = extents[r.parent]
            given = analyzer.affine(r.factor if r.factor is not None else r.nparts)  # type: ignore[arg-type]
            if parent.is_const and given.is_const:
                given = Affine({}, max(min(given.const, parent.const), 1))
            other = ceildiv(parent, given, analyzer)
            extents[r.inner], extents[r.outer] = (
                (given, other) if r.factor is not None else (other, given)
            )
        elif isinstance(r, Rebase):
            extents[r.rebased] = extents[r.parent]
        else:
            extents[r.iter] = Affine({}, 1)


def pass_up(
    relations: Sequence[Relation], extents: Forms, values: Forms, analyzer: Analyzer
) -> Guards:
    """Values of the axes, counted from 0, from those of the loops.

    Returns:
        For each split with a rest, the value and the extent that it must stay below.
    """
    guards: Guards = []
    for r in reversed(relations):
        if isinstance(r, Split):
            inner = extents[r.inner]
            values[r.parent] = times(values[r.outer], inner, analyzer) + values[r.inner]
            covered = times(extents[r.outer], inner, analyzer)
            if covered.key != extents[r.parent].key:
                guards.append((values[r.parent], extents[r.parent]))
        elif isinstance(r, Fuse):
            value, inner = values[r.fused], extents[r.inner]
            values[r.outer], values[r.inner] = divide(value, inner, analyzer)
        elif isinstance(r, Rebase):
            values[r.parent] = values[r.rebased]
    return guards


def map_down(
    relations: Sequence[Relation], extents: Forms, values: Forms, analyzer: Analyzer
) -> None:
    """Values of the loops, counted from 0, from those of the axes."""
    for r in relations:
        if isinstance(r, Split):
            values[r.outer], values[r.inner] = divide(values[r.parent], extents[r.inner], analyzer)
        elif isinstance(r, Fuse):
            values[r.fused] = times(values[r.outer], extents[r.inner], analyzer) + values[r.inner]
        elif isinstance(r, Rebase):
            values[r.rebased] = values[r.parent]
        else:
            values[r.iter] = Affine({}, 0)


def divide(value: Affine, by: Affine, analyzer: Analyzer) -> tuple[Affine, Affine]:
    """``value // by`` and ``value % by``."""
    if by.is_const:
        size = max(by.const, 1)
        outer = analyzer.floordiv(value, size)
        return outer, value - outer.scaled(size)
    x, y = value.to_expr(), by.to_expr()
    return (
        analyzer.affine(e.FloorDiv(x, y, x.dtype)),
        analyzer.affine(e.FloorMod(x, y, x.dtype)),
    )


def times(a: Affine, b: Affine, analyzer: Analyzer) -> Affine:
    """The product of two forms."""
    if b.is_const:
        return a.scaled(b.const)
    if a.is_const:
        return b.scaled(a.const)
    x, y = a.to_expr(), b.to_expr()
    return analyzer.affine(e.Mul(x, y, x.dtype))


def ceildiv(a: Affine, b: Affine, analyzer: Analyzer) -> Affine:
    """``a / b`` rounded up."""
    if b.is_const:
        return analyzer.floordiv(a.shifted(b.const - 1), b.const)
    x, y = (a + b).shifted(-1).to_expr(), b.to_expr()
    return analyzer.affine(e.FloorDiv(x, y, x.dtype))


def axis_extents(stage: Stage, analyzer: Analyzer) -> Forms:
    """The extents of a stage's axes and loops, as if it computed its whole tensor."""
    op = stage.op
    extents = {
        a: analyzer.affine(a.dom.extent) for a in (*op.axis, *op.reduce_axis) if a.dom is not None
    }
    pass_down(stage.relations, extents, analyzer)
    return extents


def leaf_extents(stage: Stage) -> dict[e.IterVar, str]:
    """The extents of a stage's loops as text, as if it computed its whole tensor."""
    from whet.compiler.tir.printer import expr_text

    if not isinstance(stage.op, ComputeOp):
        return {}
    extents = axis_extents(stage, Analyzer())
    return {a: expr_text(extents[a].to_expr()) for a in stage.leaf_iter_vars}


def touched(axis: e.IterVar, relations: Sequence[Relation]) -> set[e.IterVar]:
    """Everything that relations tie to an axis, itself included."""
    found = {axis}
    ties = [_members(r) for r in relations]
    while True:
        more = [t for t in ties if not found.isdisjoint(t) and not found.issuperset(t)]
        if not more:
            return found
        for t in more:
            found.update(t)


def _members(r: Relation) -> tuple[e.IterVar, ...]:
    if isinstance(r, Split):
        return r.parent, r.outer, r.inner
    if isinstance(r, Fuse):
        return r.outer, r.inner, r.fused
    return (r.iter,) if isinstance(r, Singleton) else (r.parent, r.rebased)
