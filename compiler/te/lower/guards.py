"""Guards of a step: the conditions that keep it inside its axes, and reads inside their tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.te.bounds.infer_bound import Bounds, StageBounds
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    GE,
    LT,
    Div,
    IterVar,
    Mod,
    PrimExpr,
    ProducerLoad,
    Var,
    is_choice,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import IfThenElse, Stmt
from whet.compiler.tir.visit.rewrite import substitute, variables

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


class Guards:
    """Decides which guards the steps of a schedule's stages need.

    Args:
        bounds: of the schedule.
        in_place: stages that store parts of what the caller keeps as a whole.
    """

    def __init__(self, bounds: Bounds, in_place: set[Stage]) -> None:
        self.bounds = bounds
        self.analyzer = bounds.analyzer
        self.in_place = in_place
        self._values: dict[Stage, dict[Var, PrimExpr]] = {}
        self._reading: dict[tuple[Stage, IterVar], str] = {}

    def guarded(self, stage: Stage, body: Stmt, with_reduction: bool) -> Stmt:
        """The body under the conditions that keep it inside the axes and the tensor."""
        b = self.bounds.stages[stage]
        reduced = {a.var for a in stage.leaf_iter_vars if a.iter_type == COMM_REDUCE}
        conditions: list[PrimExpr] = []
        for value, extent in b.guards:
            test = ops.compare(LT, value.to_expr(), extent.to_expr())
            if not self.analyzer.at_most_zero((value - extent).shifted(1)):
                conditions.append(test)
        conditions += self._tensor_guards(stage, b)
        keep = [c for c in conditions if with_reduction or not variables(c) & reduced]
        return IfThenElse(ops.all_of(*keep), body, None, likely=True) if keep else body

    def of_loops(self, stage: Stage, body: Stmt, loops: set[Var]) -> Stmt:
        """The body under the conditions of some loops alone, of a stage with several nests."""
        own = [(v, n) for v, n in self.bounds.stages[stage].guards if v.mentions(loops)]
        tests = [
            ops.compare(LT, v.to_expr(), n.to_expr())
            for v, n in own
            if not self.analyzer.at_most_zero((v - n).shifted(1))
        ]
        return IfThenElse(ops.all_of(*tests), body, None, likely=True) if tests else body

    def of_whole(
        self, stage: Stage, inner: set[Var], with_reduction: bool
    ) -> list[PrimExpr] | None:
        """The conditions under which no step of some loops is beyond an axis or clamped.

        Args:
            inner: the loops' variables, of which the conditions mention none.
            with_reduction: those of the reduction's axes, too.

        Returns:
            None where that cannot be said.
        """
        b = self.bounds.stages[stage]
        reduced = {a.var for a in stage.leaf_iter_vars if a.iter_type == COMM_REDUCE}
        ends = [(v, n, 1) for v, n in b.guards if with_reduction or not v.mentions(reduced)]
        for a in stage.op.axis:
            below, above = self._outside(stage, a)
            if stage in self.in_place or self._reads(stage, a) != "safe":
                zero = self.analyzer.affine(a.domain.min)
                ends += [(b.index(a), zero, -1)] if below else []
                ends += [(b.index(a), self.analyzer.affine(a.domain.extent), 1)] if above else []
        out = []
        for value, end, sign in ends:
            most = self.analyzer.eliminate(value, inner, sign)
            if most is None:
                return None
            over = (most - end).shifted(1) if sign > 0 else end - most
            if not self.analyzer.at_most_zero(over):
                out.append(ops.compare(LT if sign > 0 else GE, most.to_expr(), end.to_expr()))
        return out

    def _outside(self, stage: Stage, a: IterVar) -> tuple[bool, bool]:
        """True if an axis may be below 0; and if it may be beyond the tensor."""
        b = self.bounds.stages[stage]
        if b.whole:
            return False, False
        index, whole = b.index(a), self.analyzer.affine(a.domain.extent)
        if b.roll is not None and a is b.roll.axis:  # of the region, and not of what is new in it
            outside = (b.mins[a] - whole).shifted(b.roll.kept)
            below = not self.analyzer.at_most_zero(b.mins[a].scaled(-1))
            return below, not self.analyzer.at_most_zero(outside)
        below = not self.analyzer.at_most_zero(index.scaled(-1))
        above = not self.analyzer.at_most_zero((index - whole).shifted(1))
        if above and self.bounds.threads and b.guards:
            # threads copy vectors under a guard: a clamp as well would take the vectors apart
            tests = [ops.compare(LT, v.to_expr(), n.to_expr()) for v, n in b.guards]
            with self.analyzer.assuming(ops.all_of(*tests)):
                above = not self.analyzer.at_most_zero((index - whole).shifted(1))
        return below, above

    def _tensor_guards(self, stage: Stage, b: StageBounds) -> list[PrimExpr]:
        """Guards against indices outside the tensor, for an attached stage's region.

        Elements outside may be computed, because nobody reads them, unless they are stored in an
        argument; but inputs must not be read out of range for it. Such a read is clamped where it
        can be (:meth:`values`): a tile then has no branches inside, only its last row is computed
        several times over.
        """
        op = stage.op
        out: list[PrimExpr] = []
        for a in op.axis:
            below, above = self._outside(stage, a)
            if not below and not above:
                continue
            if stage in self.in_place or self._reads(stage, a) == "attached":
                index = b.index(a).to_expr()
                if below:
                    out.append(ops.compare(GE, index, ops.const(0, a.dtype)))
                if above:
                    out.append(ops.compare(LT, index, a.domain.extent))
        return out

    def values(self, stage: Stage) -> dict[Var, PrimExpr]:
        """The axes' variables in terms of the loops, clamped to the tensor where reads need it."""
        known = self._values.get(stage)
        if known is None:
            known = self.bounds.axis_values(stage)
            op, b = stage.op, self.bounds.stages[stage]
            clamped = {}
            for a in op.axis:
                below, above = self._outside(stage, a)
                guarded = stage in self.in_place
                if (below or above) and not guarded and self._reads(stage, a) == "unsafe":
                    index = b.index(a).to_expr()
                    if above:
                        index = ops.minimum(index, ops.subtract(a.domain.extent, 1))
                    clamped[a.var] = ops.maximum(index, 0) if below else index
            known = {**known, **clamped}
            self._values[stage] = known
        return known

    def _reads(self, stage: Stage, axis: IterVar) -> str:
        """How reads depend on an axis that leaves the tensor.

        ``"safe"``: all are in range wherever it goes. ``"unsafe"``: some are not. ``"attached"``:
        some are not, or the stage divides by integers, and indices cannot be changed: it also
        reads a region that was computed for just these, or the axis may have no steps at all.
        """
        known = self._reading.get((stage, axis))
        if known is None:
            known = self._reading[stage, axis] = self._reads_anew(stage, axis)
        return known

    def _reads_anew(self, stage: Stage, axis: IterVar) -> str:
        values = self.bounds.axis_values(stage)
        kinds = {"safe"}

        def visit(n: PrimExpr, seen: set[int]) -> None:
            if id(n) in seen:
                return
            seen.add(id(n))
            if is_choice(n):
                visit(n.args[0], seen)
                visit(n.args[2], seen)
                # what was seen where nothing guards it needs no look under a guard
                with self.analyzer.assuming(substitute(n.args[0], values)):
                    visit(n.args[1], set(seen))
                return
            if isinstance(n, (Div, Mod)) and not n.dtype.startswith("float"):
                kinds.add("unsafe")
            if isinstance(n, ProducerLoad):
                kept = parts[n.producer.op]
                for k, (i, d) in enumerate(zip(n.indices, n.producer.shape)):
                    if axis.var not in variables(i):
                        continue
                    if kept[k] != "whole":
                        kinds.add("region")
                    if kept[k] != "region" and not self._in_range(substitute(i, values), d):
                        kinds.add("unsafe")
            for part in n.parts:
                visit(part, seen)

        parts = {n.producer.op: self._kept(read) for read, n in self.bounds.reads(stage)}
        seen: set[int] = set()
        for body in self.bounds.bodies[stage]:
            visit(body, seen)
        if "unsafe" not in kinds:
            return "safe"
        # what may be empty has no element to clamp an index to
        may_be_empty = not self.analyzer.positive(self.analyzer.affine(axis.domain.extent))
        return "attached" if "region" in kinds or may_be_empty else "unsafe"

    def _kept(self, stage: Stage) -> list[str]:
        """The valid extent of a producer, along each dimension.

        ``"whole"``: its tensor. ``"region"``: all that its readers read, be it outside the tensor.
        ``"inside"``: of a region what lies inside the tensor; nothing has written the rest.
        """
        b = self.bounds.stages.get(stage)
        op = stage.op
        if b is None or b.whole or stage in self.in_place:
            # a statement's outputs have shapes of their own
            return ["whole"] * max(len(op.output_shape(k)) for k in range(op.num_outputs))
        out = []
        for a in op.axis:
            first = self.analyzer.affine(a.domain.min).key == b.mins[a].key
            if first and self.analyzer.affine(a.domain.extent).key == b.extents[a].key:
                out.append("whole")
            else:
                guarded = any(self._outside(stage, a)) and self._reads(stage, a) == "attached"
                out.append("inside" if guarded else "region")
        return out

    def _in_range(self, index: PrimExpr, extent: PrimExpr) -> bool:
        form = self.analyzer.affine(index)
        below = self.analyzer.at_most_zero(form.scaled(-1))
        return below and self.analyzer.at_most_zero(
            (form - self.analyzer.affine(extent)).shifted(1)
        )
