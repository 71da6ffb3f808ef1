"""InferBound: the extent of every loop, and the region that each attached stage computes.

A root stage computes its whole tensor. A stage attached at a loop computes what its readers read
in one step of that loop: the bounds of their indices over all loops inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp, nodes
from whet.compiler.te.lower import ragged, threads
from whet.compiler.te.lower.extents import pass_down, pass_up
from whet.compiler.te.lower.inlining import Inlining
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.stage import AT, INLINE, Stage
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import THREAD_BINDING, UNROLLED, VECTORIZED
from whet.compiler.tir.visit.rewrite import substitute, variables
from whet.compiler.tir.visit.sharing import bind_shared


@dataclass(slots=True, eq=False)
class StageBounds:
    """What inference finds for one stage.

    Attributes:
        mins: per data axis, the first index computed, in terms of the loops around the stage.
        extents: axis or loop -> how many steps.
        values: axis or loop -> its value, counted from 0, in terms of the loops.
        guards: conditions under which a step is one of the axis's own, for splits with a rest.
        limits: loop -> how many of its steps are the axis's own, where that says it all.
        lengths: loop -> its steps, where the threads that run it are more than it needs.
        launched: thread axis -> the variable of its loop around the whole stage.
        whole: whether the whole tensor is computed.
    """

    mins: dict[e.IterVar, Affine] = field(default_factory=dict)
    extents: dict[e.IterVar, Affine] = field(default_factory=dict)
    values: dict[e.IterVar, Affine] = field(default_factory=dict)
    guards: list[tuple[Affine, Affine]] = field(default_factory=list)
    limits: dict[e.IterVar, Affine] = field(default_factory=dict)
    lengths: dict[e.IterVar, Affine] = field(default_factory=dict)
    launched: dict[e.IterVar, e.Var] = field(default_factory=dict)
    whole: bool = True

    def index(self, axis: e.IterVar) -> Affine:
        """The index of an axis in terms of the loops."""
        return self.values[axis] + self.mins[axis]


class Bounds:
    """The bounds of all stages of a schedule, and its expressions with inlined stages put in."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.analyzer = Analyzer()
        self.threads = threads.has_threads(schedule)
        self.stages: dict[Stage, StageBounds] = {}
        self.bodies: dict[Stage, tuple[e.PrimExpr, ...]] = {}
        self._reads: dict[Stage, list[tuple[Stage, e.ProducerLoad]]] = {}
        self._inline()
        for stage in reversed(schedule.stages):
            if isinstance(stage.op, ExternOp):
                self._whole(stage)
            elif isinstance(stage.op, ComputeOp) and stage.attach_type != INLINE:
                self._infer(stage)

    # expressions

    def _inline(self) -> None:
        inlining = Inlining(self.schedule)
        for stage in self.schedule.stages:
            if isinstance(stage.op, ExternOp):
                self.bodies[stage] = ()
                self._check_extern(stage)
            elif isinstance(stage.op, ComputeOp):
                if stage.attach_type == INLINE:
                    self.bodies[stage] = stage.op.body
                else:
                    self.bodies[stage] = _named(tuple(map(inlining.expanded, stage.op.body)))

    def reads(self, reader: Stage) -> list[tuple[Stage, e.ProducerLoad]]:
        """Every read of ``reader``, with the stage it reads."""
        found = self._reads.get(reader)
        if found is None:
            found = self._reads[reader] = [
                (self.schedule.stage_map[n.producer.op], n)
                for n in nodes(self.bodies[reader])
                if type(n) is e.ProducerLoad
            ]
        return found

    def readers(self, stage: Stage) -> list[tuple[Stage, list[e.ProducerLoad]]]:
        """The computed stages that read ``stage``, with their reads of it."""
        out = []
        for reader in self.stages:
            loads = [n for s, n in self.reads(reader) if s is stage]
            as_a_whole = isinstance(reader.op, ExternOp) and any(
                self.schedule.stage_map[t.op] is stage for t in reader.op.inputs
            )
            if loads or as_a_whole:
                out.append((reader, loads))
        return out

    # inference

    def _check_extern(self, stage: Stage) -> None:
        """An extern statement reads whole tensors, which must be somewhere."""
        if stage.attach_type == INLINE:
            raise LowerError(
                f"compute_inline({stage.op.name})",
                "it is a statement as a whole, and has no expression to put elsewhere",
                "compute it at the root",
            )
        for t in stage.op.input_tensors:
            if self.schedule.stage_map[t.op].attach_type == INLINE:
                raise LowerError(
                    f"compute_inline({t.op.name})",
                    f"{stage.op.name} is a statement that reads {t.op.name} as a whole",
                    f"compute {t.op.name} at the root",
                )

    def _whole(self, stage: Stage) -> None:
        """An extern operation computes all it has, wherever it is attached."""
        if stage.attach_type == AT:
            self._loops_inside(stage)
            for reader, _ in self.readers(stage):
                self._check_inside(stage, reader)
        b = self.stages[stage] = StageBounds()
        threads.launch(stage, b)

    def _infer(self, stage: Stage) -> None:
        op = stage.op
        assert isinstance(op, ComputeOp)
        b = StageBounds()
        for a in (*op.axis, *op.reduce_axis):
            assert a.dom is not None
            b.mins[a] = self.analyzer.affine(a.dom.min)
            b.extents[a] = self.analyzer.affine(a.dom.extent)
        uneven = ragged.ragged_axes(op)
        if uneven and (stage.attach_type == AT or not ragged.stands_as_written(stage)):
            self.bodies[stage] = tuple(ragged.guarded(op, x) for x in self.bodies[stage])
            self._reads.pop(stage, None)
            for a in uneven:
                b.mins[a], b.extents[a] = ragged.hull(stage, a, self.analyzer)
        if stage.attach_type == AT:
            b.whole = False
            self._region(stage, op, b)
        pass_down(stage.relations, b.extents, self.analyzer)
        for leaf in stage.leaf_iter_vars:
            self.analyzer.bind(leaf.var, Affine({}, 0), b.extents[leaf].shifted(-1))
        if self.threads:
            threads.lengthen(self, stage, b)
        for leaf in stage.leaf_iter_vars:
            one = leaf in b.lengths and b.extents[leaf].key == Affine({}, 1).key
            b.values[leaf] = Affine({}, 0) if one else self.analyzer.affine(leaf.var)
        b.guards = pass_up(stage.relations, b.extents, b.values, self.analyzer)
        b.guards += threads.guards(stage, b)
        self._limit(stage, b)
        self.stages[stage] = b

    def _limit(self, stage: Stage, b: StageBounds) -> None:
        """Turn guards into shorter loops.

        ``outer * c + inner < n`` needs no test inside a loop over ``inner`` that ends there; what
        is attached to the loop then knows the bound, too. Unrolled and vectorised loops keep
        their length and their guards.
        """
        kept = []
        for value, extent in b.guards:
            form = value - extent  # < 0
            inside = [a for a in stage.leaf_iter_vars if a.var in form.terms]
            hidden: set[e.Var] = set()
            for atom, _ in form.terms.values():
                if not isinstance(atom, e.Var):
                    hidden |= variables(atom)
            last = inside[-1] if inside else None
            if (
                last is None
                or hidden & {a.var for a in stage.leaf_iter_vars}
                or self._has_fixed_length(stage, last)
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
            shorter = e.Min(most.to_expr(), steps.to_expr(), last.dtype)
            b.limits[last] = self.analyzer.affine(shorter)
            self.analyzer.bind(last.var, Affine({}, 0), b.limits[last].shifted(-1))
        b.guards = kept

    def _has_fixed_length(self, stage: Stage, leaf: e.IterVar) -> bool:
        attr = stage.iter_var_attrs.get(leaf)
        return attr is not None and attr.kind in (UNROLLED, VECTORIZED, THREAD_BINDING)

    def _region(self, stage: Stage, op: ComputeOp, b: StageBounds) -> None:
        inner = self._loops_inside(stage)
        lows: list[list[Affine | None]] = [[] for _ in op.axis]
        highs: list[list[Affine | None]] = [[] for _ in op.axis]
        readers = self.readers(stage)
        for reader, _ in readers:
            self._check_inside(stage, reader)
        if any(isinstance(reader.op, ExternOp) for reader, _ in readers):
            return
        for reader, loads in readers:
            values = self.axis_values(reader)
            for n in loads:
                for d, index in enumerate(n.indices):
                    form = self.analyzer.affine(substitute(index, values))
                    known = not _depends_on_data(form)
                    lows[d].append(self.analyzer.eliminate(form, inner, -1) if known else None)
                    highs[d].append(self.analyzer.eliminate(form, inner, 1) if known else None)
        for d, a in enumerate(op.axis):
            found = self._span(lows[d], highs[d], b.extents[a])
            if found is not None:
                b.mins[a], b.extents[a] = found

    def _span(
        self, lows: list[Affine | None], highs: list[Affine | None], whole: Affine
    ) -> tuple[Affine, Affine] | None:
        """The first index and the number of indices that hold all reads; None for all there are."""
        low, high = lows[0], highs[0]
        for lo, hi in zip(lows[1:], highs[1:]):
            if lo is None or hi is None or low is None or high is None:
                return None
            below, above = lo - low, hi - high
            if not below.is_const or not above.is_const:
                return None
            low = lo if below.const < 0 else low
            high = hi if above.const > 0 else high
        if low is None or high is None:
            return None
        extent = (high - low).shifted(1)
        if not extent.is_const:
            most = self.analyzer.bounds(extent)[1]
            if most is None:
                return None
            extent = Affine({}, most)
        if whole.is_const and extent.const >= whole.const:
            return None
        return low, extent

    def axis_values(self, stage: Stage) -> dict[e.Var, e.PrimExpr]:
        """The variables of a stage's axes in terms of the loops."""
        b = self.stages[stage]
        op = stage.op
        assert isinstance(op, ComputeOp)
        out: dict[e.Var, e.PrimExpr] = {}
        for a in (*op.axis, *op.reduce_axis):
            index = b.index(a)
            if index.key != Affine({a.var: (a.var, 1)}, 0).key:
                out[a.var] = ops.cast(a.dtype, index.to_expr(a.dtype))
        return out

    def _loops_inside(self, stage: Stage) -> set[e.Var]:
        """Loop variables inside the loop that a stage is attached to."""
        parent, at = stage.attach_stage, stage.attach_ivar
        assert parent is not None
        if parent.attach_type == INLINE:
            name = at.var.name if at is not None else "?"
            raise LowerError(
                f"compute_at({stage.op.name}, {parent.op.name}, {name})",
                f"{parent.op.name} was inlined afterwards, and has no loops",
                f"attach {stage.op.name} at a stage that is computed",
            )
        if not any(leaf is at for leaf in parent.leaf_iter_vars):
            name = at.var.name if at is not None else "?"
            raise LowerError(
                f"compute_at({stage.op.name}, {parent.op.name}, {name})",
                f"{name} is no longer a loop of {parent.op.name}: it was split or fused afterwards",
                "call compute_at after the parent's loops are final",
            )
        place = next(k for k, leaf in enumerate(parent.leaf_iter_vars) if leaf is at)
        inner = {leaf.var for leaf in parent.leaf_iter_vars[place + 1 :]}
        for other in self.stages:
            up: Stage | None = other
            while up is not None and up is not parent:
                up = up.attach_stage
            if up is parent and other is not parent:
                inner |= {leaf.var for leaf in other.leaf_iter_vars}
        if self.threads:
            inner |= threads.relaxed(self, stage)
        return inner

    def _check_inside(self, stage: Stage, reader: Stage) -> None:
        """A reader must run inside the loop that the stage is attached to."""
        parent, at = stage.attach_stage, stage.attach_ivar
        assert parent is not None and at is not None
        place = _place(parent, at)
        up, came_from = reader, None
        while up is not parent:
            if up.attach_stage is None:
                raise LowerError(
                    f"compute_at({stage.op.name}, {parent.op.name}, {at.var.name})",
                    f"{reader.op.name} reads {stage.op.name} too, and runs outside this loop",
                    f"compute {reader.op.name} inside it as well, or {stage.op.name} at the root",
                )
            up, came_from = up.attach_stage, up.attach_ivar
        if came_from is not None and _place(parent, came_from) < place:
            raise LowerError(
                f"compute_at({stage.op.name}, {parent.op.name}, {at.var.name})",
                f"{reader.op.name} reads it and is computed at {came_from.var.name}, further out",
                f"attach {stage.op.name} at {came_from.var.name} or further out",
            )


def _named(bodies: tuple[e.PrimExpr, ...]) -> tuple[e.PrimExpr, ...]:
    """The bodies with names for parts that occur often."""
    known: dict[int, e.PrimExpr] = {}

    def named(x: e.PrimExpr) -> e.PrimExpr:
        return known.setdefault(id(x), bind_shared(x))

    out: list[e.PrimExpr] = []
    for body in bodies:
        if isinstance(body, e.Reduce):
            source = tuple(named(x) for x in body.source)
            changed = any(a is not b for a, b in zip(source, body.source))
            out.append(replace(body, source=source) if changed else body)
        else:
            out.append(named(body))
    return tuple(out)


def _depends_on_data(form: Affine) -> bool:
    """Whether an index is read from a tensor: nothing is known of it before the kernel runs."""
    atoms = [atom for atom, _ in form.terms.values() if not isinstance(atom, e.Var)]
    return any(type(n) is e.ProducerLoad for n in nodes(atoms))


def _place(stage: Stage, axis: e.IterVar) -> int:
    for k, leaf in enumerate(stage.leaf_iter_vars):
        if leaf is axis:
            return k
    raise LowerError(
        f"compute_at(..., {stage.op.name}, {axis.var.name})",
        f"{axis.var.name} is no longer a loop of {stage.op.name}",
        "call compute_at after the parent's loops are final",
    )
