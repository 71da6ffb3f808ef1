"""The tile of a stage that is tensorized: its axes, and where it lies, in terms of the loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine
from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.extents import pass_up
from whet.compiler.te.lang.relations import Fuse
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir.expr import COMM_REDUCE, IterVar, PrimExpr, Var
from whet.compiler.tir.stmt import SERIAL

if TYPE_CHECKING:
    from whet.compiler.te.bounds.infer_bound import Bounds
    from whet.compiler.te.lang.tensor_intrin import TensorIntrin
    from whet.compiler.te.stage import Stage


@dataclass(slots=True, eq=False)
class Axis:
    """One axis of a stage inside the tile: ``base + step * var``, ``var`` below ``extent``."""

    axis: IterVar
    base: Affine
    step: int = 1
    extent: int = 1
    var: Var | None = None

    @property
    def reduces(self) -> bool:
        """True for an axis of the reduction."""
        return self.axis.iter_type == COMM_REDUCE


class Tile:
    """The loops of a stage from the tensorized one on inwards.

    Attributes:
        stage, intrin: the stage, and what computes its tile.
        first: the place of the first loop of the tile.
        leaves, inner: the loops of the tile, outermost first; the same as a set.
        axes: stage's axis -> where the tile is along it; by what the stage stores, for data axes
            the index in the tensor.
        request: the beginning of errors.
    """

    def __init__(self, bounds: Bounds, stage: Stage) -> None:
        first = stage.tensorized
        assert first is not None and isinstance(stage.op, ComputeOp)
        self.bounds, self.stage, self.first = bounds, stage, first
        self.leaves = stage.leaf_iter_vars[first:]
        self.inner = set(self.leaves)
        intrin = stage.attr(self.leaves[0]).tensor_intrin
        assert intrin is not None
        self.intrin: TensorIntrin = intrin
        self.request = f"tensorize({stage.op.name}, {self.leaves[0].name}, {intrin.name})"
        self._check_plain()
        self.axes = self._axes()

    def error(self, why: str, out: str = "") -> LowerError:
        """An error about the tile."""
        return LowerError(self.request, why, out)

    def _check_plain(self) -> None:
        """An instruction takes the place of loops: nothing else may be said of them."""
        s = self.stage
        for leaf in self.leaves:
            attr = s.attr(leaf)
            said = attr.kind if attr.kind != SERIAL else ""
            said = said or ("prefetching" if attr.prefetch_data else "")
            said = said or (
                "tensorized, too" if attr.tensor_intrin and leaf is not self.leaves[0] else ""
            )
            if said:
                raise self.error(
                    f"the loop {leaf.name} inside the tile is {said}",
                    "the instruction takes the place of all loops from the tensorized one inwards",
                )
        for other in self.bounds.schedule.stages:
            at = other.attach_ivar
            if other.attach_stage is s and at in self.inner:
                raise self.error(
                    f"{other.op.name} is attached at {at.name}, inside the tile",
                    "attach it further out",
                )
        if s.store_predicate is not None:
            raise self.error("the stage has a store predicate", "leave set_store_predicate out")

    def _values(self) -> tuple[dict[IterVar, Affine], dict[IterVar, int]]:
        """The axes counted from 0, and the loops of the tile with their steps.

        A fused loop of the tile stands for the two that it was made of.
        """
        s, b = self.stage, self.bounds.stages[self.stage]
        loops = dict.fromkeys(self.leaves)
        undone = []
        for r in reversed(s.relations):
            if isinstance(r, Fuse) and r.fused in loops:
                del loops[r.fused]
                loops.update({r.outer: None, r.inner: None})
                undone.append(r)
        values = dict(b.values)
        extents = {a: self._extent(a) for a in loops}
        if undone:
            new = [a for a in loops if a not in self.inner]
            for a in new:
                self.bounds.analyzer.bind(a.var, Affine({}, 0), Affine({}, extents[a] - 1))
            values = {
                **{a: b.values[a] for a in s.leaf_iter_vars},
                **{a: Affine.atom(a.var, a.var) for a in new},
            }
            kept = [r for r in s.relations if not any(r is u for u in undone)]
            pass_up(kept, b.extents, values, self.bounds.sizes)
        return values, extents

    def _extent(self, loop: IterVar) -> int:
        extent = self.bounds.stages[self.stage].extents[loop]
        if not extent.is_const:
            raise self.error(
                f"the extent of the loop {loop.name}, {extent.to_expr()}, is not a constant",
                "split it, and tensorize the inner loop",
            )
        return extent.const

    def _axes(self) -> dict[IterVar, Axis]:
        op, b = self.stage.op, self.bounds.stages[self.stage]
        values, extents = self._values()
        out, taken = {}, set[IterVar]()
        loops = {a.var: a for a in extents}
        for axis in (*op.axis, *op.reduce_axis):
            form = values[axis]
            inner = [(abs(form.coefficient(v)), a) for v, a in loops.items() if v in form.terms]
            base = form
            for _, a in inner:
                base = base.without(a.var)
            straight = all(form.coefficient(a.var) > 0 for _, a in inner)
            if base.mentions(set(loops)) or not straight or taken & {a for _, a in inner}:
                raise self.error(
                    f"the axis {axis.name}, {form.to_expr()}, is no straight step of the loops",
                    "tensorize loops that are whole parts of an axis",
                )
            taken.update(a for _, a in inner)
            out[axis] = self._axis(axis, base + b.mins[axis], inner, extents)
        return out

    def _axis(
        self,
        axis: IterVar,
        base: Affine,
        inner: Sequence[tuple[int, IterVar]],
        extents: dict[IterVar, int],
    ) -> Axis:
        """The loops of a tile along one axis as one: each goes on where the one inside it ends."""
        steps = sorted([(c, extents[a]) for c, a in inner if extents[a] != 1])
        if not steps:
            return Axis(axis, base)
        step, reach = steps[0][0], steps[0][0]
        for coef, extent in steps:
            if coef != reach:
                raise self.error(
                    f"the tile has gaps along {axis.name}: loops of "
                    + ", ".join(f"{n} steps of {c}" for c, n in steps),
                    "tensorize the innermost part of a split, or all of it",
                )
            reach = coef * extent
        var = Var(axis.name, axis.dtype)
        self.bounds.analyzer.bind(var, Affine({}, 0), Affine({}, reach // step - 1))
        return Axis(axis, base, step, reach // step, var)

    def values(self) -> dict[Var, PrimExpr]:
        """The variables of the stage's axes, over the loops around the tile and its own axes."""
        out: dict[Var, PrimExpr] = {}
        for axis, x in self.axes.items():
            form = x.base
            if x.var is not None:
                form = form + Affine({x.var: (x.var, x.step)}, 0)
            out[axis.var] = form.to_expr(axis.dtype)
        return out
