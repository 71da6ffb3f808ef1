"""InferBound: the extent of every loop, and the region that each attached stage computes.

:mod:`whet.compiler.te.bounds.inference` over affine forms, with the parts that only a program
needs: guards, the length of loops over threads, and statements that stand as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.te.bounds import inference, ragged, rolling, threads
from whet.compiler.te.bounds.extents import AffineSizes, Guards, pass_down, pass_up
from whet.compiler.te.bounds.inlining import Inlining, inlined_in
from whet.compiler.te.lang.relations import AT, INLINE, with_guards
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp, HybridOp
from whet.compiler.tir.expr import BufferLoad, IterVar, Min, PrimExpr, ProducerLoad, Reduce, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import THREAD_BINDING, UNROLLED, VECTORIZED
from whet.compiler.tir.visit.rewrite import changed, nodes, nodes_of, substitute, variables
from whet.compiler.tir.visit.sharing import bind_shared

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


@dataclass(slots=True, eq=False)
class StageBounds(inference.StageBounds[Affine, Affine]):
    """The bounds of one stage, and how its loops keep to them.

    Attributes:
        guards: conditions under which a step is one of the axis's own, for splits with a rest.
        limits: loop -> how many of its steps are the axis's own, where that says it all.
        lengths: loop -> its steps, where the threads that run it are more than it needs.
        launched: thread axis -> the variable of its loop around the whole stage.
        roll: how the region moves from step to step, after ``rolling_buffer``.
    """

    guards: Guards = field(default_factory=list)
    limits: dict[IterVar, Affine] = field(default_factory=dict)
    lengths: dict[IterVar, Affine] = field(default_factory=dict)
    launched: dict[IterVar, Var] = field(default_factory=dict)
    roll: rolling.Roll | None = None


class Regions(AffineSizes):
    """Affine sizes, and the ends of the indices that an attached stage computes.

    Attributes:
        rolled: variables that stand for any element of a rolling buffer.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.rolled: set[Var] = set()

    def extremes(
        self, index: PrimExpr, values: dict[Var, PrimExpr], inner: Sequence[IterVar]
    ) -> tuple[Affine | None, Affine | None]:
        """The least and the greatest value of an index over some loops."""
        form = self.form(substitute(index, values))
        if _depends_on_data(form):
            return None, None
        loops = {leaf.var for leaf in inner} | self.rolled
        low, high = (self.analyzer.eliminate(form, loops, sign) for sign in (-1, 1))
        return low, high

    def steps(self, low: Affine, high: Affine, whole: Affine) -> Affine | None:
        """The number of indices from ``low`` to ``high``, if it is known and below ``whole``."""
        extent = (high - low).shifted(1)
        most = extent.const if extent.is_const else self.analyzer.bounds(extent)[1]
        if most is None or (whole.is_const and most >= whole.const):
            return None
        return Affine({}, most)


class Bounds(inference.Inference[StageBounds]):
    """The bounds of all stages of a schedule, and its expressions with inlined stages put in."""

    def __init__(self, schedule: Schedule) -> None:
        self.analyzer = Analyzer()
        self.sizes: Regions
        super().__init__(schedule, Regions(self.analyzer))
        self.threads = threads.has_threads(schedule)
        self._inline()
        for stage in reversed(schedule.stages):
            if isinstance(stage.op, ExternOp):
                self._whole(stage)
            elif isinstance(stage.op, (ComputeOp, ScanOp)) and stage.attach_type != INLINE:
                self._infer(stage)

    # expressions

    def _inline(self) -> None:
        inlining = Inlining(inlined_in(self.schedule))
        for stage in self.schedule.stages:
            if isinstance(stage.op, ExternOp):
                self.bodies[stage] = self._inlined_reads(stage.op, inlining)
                self._check_extern(stage)
            elif isinstance(stage.op, ScanOp):
                self.bodies[stage] = stage.op.body
            elif isinstance(stage.op, ComputeOp):
                if stage.attach_type == INLINE:
                    self.bodies[stage] = stage.op.body
                else:
                    self.bodies[stage] = _named(tuple(map(inlining.expanded, stage.op.body)))

    def _inlined_reads(self, op: ExternOp, inlining: Inlining) -> tuple[PrimExpr, ...]:
        """The expressions of inlined stages at the places where a hybrid script reads them."""
        if not isinstance(op, HybridOp):
            return ()
        read = dict(zip(op.input_placeholders, op.inputs))
        return tuple(
            inlining.expanded(ProducerLoad(read[n.buffer], n.indices, n.dtype))
            for n in nodes_of(op.body, BufferLoad)
            if n.buffer in read and self.schedule.stage_map[read[n.buffer].op].attach_type == INLINE
        )

    # inference

    def _check_extern(self, stage: Stage) -> None:
        """An extern statement reads whole tensors, which must be somewhere."""
        if stage.attach_type == INLINE:
            raise LowerError(
                f"compute_inline({stage.op.name})",
                "it is a statement as a whole, and has no expression to put elsewhere",
                "compute it at the root",
            )
        for t in () if isinstance(stage.op, HybridOp) else stage.op.input_tensors:
            if self.schedule.stage_map[t.op].attach_type == INLINE:
                raise LowerError(
                    f"compute_inline({t.op.name})",
                    f"{stage.op.name} is a statement that reads {t.op.name} as a whole",
                    f"compute {t.op.name} at the root",
                )

    def _whole(self, stage: Stage) -> None:
        """An extern operation computes all it has, wherever it is attached."""
        if stage.attach_type == AT:
            self._check_attached(stage)
        b = StageBounds()
        if isinstance(stage.op, HybridOp):
            self.domain(stage, b)
            self._lay_out(stage, b)
        else:
            threads.launch(stage, b)
        self.stages[stage] = b

    def _check_attached(self, stage: Stage) -> None:
        """All that read a stage stand inside the loop that it is attached to."""
        self.loops_inside(stage)
        for reader, _ in self.readers(stage):
            self.check_inside(stage, reader)

    def _infer(self, stage: Stage) -> None:
        op = stage.op
        b = StageBounds()
        self.domain(stage, b)
        uneven = ragged.ragged_axes(op)
        free = stage.attach_type == AT or not ragged.stands_as_written(stage)
        if isinstance(op, ComputeOp) and uneven and free:
            self.set_bodies(stage, tuple(ragged.guarded(op, x) for x in self.bodies[stage]))
            for a in uneven:
                b.mins[a], b.extents[a] = ragged.hull(stage, a, self.analyzer)
        if stage.attach_type == AT and isinstance(op, ScanOp):
            self._check_attached(stage)
        elif stage.attach_type == AT:
            b.whole = False
            inner = self.loops_inside(stage)
            self.region(stage, b, lambda reader: self._region_values(reader, inner))
        self._lay_out(stage, b)
        if stage.rolls:
            self._roll(stage, b)
        self.stages[stage] = b

    def _lay_out(self, stage: Stage, b: StageBounds) -> None:
        """The loops of a stage whose axes have their extents: how long, and which axis where."""
        pass_down(stage.relations, b.extents, self.sizes)
        for leaf in stage.leaf_iter_vars:
            self.analyzer.bind(leaf.var, Affine({}, 0), b.extents[leaf].shifted(-1))
        if self.threads:
            threads.lengthen(self, stage, b)
        for leaf in stage.leaf_iter_vars:
            one = leaf in b.lengths and b.extents[leaf].key == Affine({}, 1).key
            b.values[leaf] = Affine({}, 0) if one else self.analyzer.affine(leaf.var)
        # two threads that store one element, if the same number, are a race
        relations = with_guards(stage.relations) if self.threads else stage.relations
        b.guards = pass_up(relations, b.extents, b.values, self.sizes)
        b.guards += threads.guards(b)
        self.limit(stage, b)

    def _roll(self, stage: Stage, b: StageBounds) -> None:
        """Let a stage compute what the step before has not."""
        parent, at = stage.attach_stage, stage.attach_ivar
        steps = None if parent is None or at is None else self.stages[parent].extents.get(at)
        b.roll = rolling.roll(stage, b, steps)
        if b.roll is not None:
            self.shorten(stage, b, b.roll)
            self.sizes.rolled.add(b.roll.element)

    def shorten(self, stage: Stage, b: StageBounds, roll: rolling.Roll) -> None:
        """Let a step compute what is new in a rolling buffer."""
        rolling.computed(stage, b, roll, self.analyzer)

    def limit(self, stage: Stage, b: StageBounds) -> None:
        """Turn guards into shorter loops.

        ``outer * c + inner < n`` needs no test inside a loop over ``inner`` that ends there; what
        is attached to the loop then knows the bound, too. Unrolled and vectorised loops keep
        their length and their guards.
        """
        kept = []
        first = stage.tensorized
        tile = set() if first is None else set(stage.leaf_iter_vars[first:])
        for value, extent in b.guards:
            form = value - extent  # < 0
            inside = [a for a in stage.leaf_iter_vars if a.var in form.terms]
            hidden: set[Var] = set()
            for atom, _ in form.terms.values():
                if not isinstance(atom, Var):
                    hidden |= variables(atom)
            last = inside[-1] if inside else None
            if (
                last is None
                or last in tile  # an instruction computes all of its steps
                or hidden & {a.var for a in stage.leaf_iter_vars}
                or stage.attr(last).kind in (UNROLLED, VECTORIZED, THREAD_BINDING)
                or form.terms[last.var][1] < 0
                or (self.threads and threads.waits_inside(self, stage, last, form.terms))
            ):
                kept.append((value, extent))
                continue
            coef = form.terms[last.var][1]
            # coef * last + rest < 0  <=>  last < ceil(-rest / coef)
            rest = form.without(last.var)
            steps = self.analyzer.floordiv(rest.scaled(-1).shifted(coef - 1), coef)
            most = b.limits.get(last, b.extents[last])
            shorter = Min(most.to_expr(), steps.to_expr(), last.dtype)
            b.limits[last] = self.analyzer.affine(shorter)
            self.analyzer.bind(last.var, Affine({}, 0), b.limits[last].shifted(-1))
        b.guards = kept

    def _region_values(self, reader: Stage, inner: Sequence[IterVar]) -> dict[Var, PrimExpr]:
        """The variables of a reader's axes, for the bounds of what it reads inside some loops.

        A rolling buffer is filled by what is new; what is kept before it is read for all of it, so
        that the next steps move it evenly, too.
        """
        known = self.axis_values(reader)
        roll = self.stages[reader].roll
        if roll is not None and any(roll.axis is a for a in inner):
            of_all = self.analyzer.affine(roll.element) + self.stages[reader].mins[roll.axis]
            known[roll.axis.var] = of_all.to_expr(roll.axis.dtype)
        return known

    def axis_values(self, stage: Stage) -> dict[Var, PrimExpr]:
        """The variables of a stage's axes in terms of the loops."""
        b = self.stages[stage]
        op = stage.op
        out: dict[Var, PrimExpr] = {}
        for a in (*op.axis, *op.reduce_axis):
            index = b.index(a)
            if index.key != Affine({a.var: (a.var, 1)}, 0).key:
                out[a.var] = ops.cast(a.dtype, index.to_expr(a.dtype))
        return out


def _named(bodies: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """The bodies with names for parts that occur often."""
    known: dict[int, PrimExpr] = {}

    def named(x: PrimExpr) -> PrimExpr:
        return known.setdefault(id(x), bind_shared(x))

    out: list[PrimExpr] = []
    for body in bodies:
        if isinstance(body, Reduce):
            out.append(changed(body, source=tuple(map(named, body.source))))
        else:
            out.append(named(body))
    return tuple(out)


def _depends_on_data(form: Affine) -> bool:
    """True if an index is read from a tensor: nothing is known of it before the kernel runs."""
    atoms = [atom for atom, _ in form.terms.values() if not isinstance(atom, Var)]
    return any(type(n) is ProducerLoad for n in nodes(atoms))
