"""Rolling buffers: of two steps of a loop, the second computes what the first one has not.

A stage at the loop ``t`` needs the elements ``c * t .. c * t + e`` of one dimension in each step.
Its buffer has ``e`` of them, element ``i`` at ``i % e``. The first step computes all, each further
one the last ``c``: those from ``e - n`` on, where ``n = max(e - (e - c) * t, c)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.relations import AT
from whet.compiler.tir.expr import IterVar, Max, PrimExpr, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import PARALLEL, SERIAL, UNROLLED

if TYPE_CHECKING:
    from whet.compiler.te.bounds.infer_bound import StageBounds
    from whet.compiler.te.stage import Stage


@dataclass(frozen=True, slots=True, eq=False)
class Roll:
    """How a stage's region moves.

    Attributes:
        axis: the dimension along which it does.
        loop: the loop whose steps move it.
        step: how far each of them does.
        kept: the extent of the region.
        element: stands for any of the region along the axis.
    """

    axis: IterVar
    loop: IterVar
    step: int
    kept: int
    element: Var

    def place(self, index: PrimExpr) -> PrimExpr:
        """Where an element is kept, from its index in the region."""
        moved = ops.add(index, ops.multiply(ops.cast(index.dtype, self.loop.var), self.step))
        return ops.floormod(moved, self.kept)

    def new(self, analyzer: Analyzer) -> Affine:
        """The number of elements that a step computes."""
        t = self.loop.var
        left = ops.subtract(self.kept, ops.multiply(t, self.kept - self.step))
        return analyzer.affine(Max(left, ops.const(self.step, t.dtype), t.dtype))


def roll(stage: Stage, b: StageBounds, steps: Affine | None) -> Roll | None:
    """How the region of a stage after ``rolling_buffer`` moves; None where nothing moves it.

    Args:
        b: its bounds.
        steps: the number of steps of the loop that it is attached to.

    Raises:
        LowerError: if steps have nothing in common, or are not done one after the other.
    """
    request = f"rolling_buffer({stage.op.name})"
    parent, loop = stage.attach_stage, stage.attach_ivar
    if stage.attach_type != AT or parent is None or loop is None:
        raise LowerError(
            request,
            f"{stage.op.name} is computed as a whole",
            "attach it at the loop whose steps move over it: compute_at",
        )
    if stage.tensorized is not None or stage.double_buffered:
        why = "tensorized" if stage.tensorized is not None else "double buffered"
        raise LowerError(request, f"{stage.op.name} is {why}", "leave one of the two out")
    kind = parent.attr(loop).kind
    if kind not in (SERIAL, UNROLLED):
        raise LowerError(
            request,
            f"the loop {loop.name} of {parent.op.name} is {kind}: its steps do not come one "
            "after the other",
            "attach it at a serial loop inside",
        )
    if steps is not None and steps.is_const and steps.const <= 1:
        return None
    moving = [a for a in stage.op.axis if b.mins[a].mentions({loop.var})]
    if len(moving) != 1:
        said = " and ".join(a.name for a in moving) or "no dimension"
        raise LowerError(
            request,
            f"the steps of {loop.name} move what {parent.op.name} needs of {stage.op.name} along "
            f"{said}",
            "attach it at a loop whose steps move it along one dimension",
        )
    (axis,) = moving
    first, extent = b.mins[axis], b.extents[axis]
    rest = first.without(loop.var) if loop.var in first.terms else first
    step = first.terms[loop.var][1] if loop.var in first.terms else 0
    if step <= 0 or rest.mentions({loop.var}) or not extent.is_const or extent.const <= step:
        raise LowerError(
            request,
            f"two steps of {loop.name} have no part of {axis.name} in common, or it does not "
            "move evenly",
            "leave rolling_buffer out: each step computes what it needs",
        )
    return Roll(axis, loop, step, extent.const, Var(axis.var.name, axis.dtype))


def computed(stage: Stage, b: StageBounds, r: Roll, analyzer: Analyzer) -> None:
    """Let each step compute what is new: by a shorter loop, or under a condition."""
    new = r.new(analyzer)
    begin = Affine({}, r.kept) - new
    own = any(r.axis is a for a in stage.leaf_iter_vars)
    if own and stage.attr(r.axis).kind in (SERIAL, PARALLEL) and r.axis not in b.limits:
        b.limits[r.axis] = new
        b.values[r.axis] = b.values[r.axis] + begin
        analyzer.bind(r.axis.var, Affine({}, 0), new.shifted(-1))
        analyzer.bind(r.element, Affine({}, 0), Affine({}, r.kept - 1))
    else:
        only_new(b, r, analyzer)


def only_new(b: StageBounds, r: Roll, analyzer: Analyzer) -> None:
    """Let each step compute what is new, under a condition."""
    analyzer.bind(r.element, Affine({}, 0), Affine({}, r.kept - 1))
    begin = Affine({}, r.kept) - r.new(analyzer)
    b.guards.append((begin - b.values[r.axis], Affine({}, 1)))
