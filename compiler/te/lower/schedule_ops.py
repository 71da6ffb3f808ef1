"""ScheduleOps: from a schedule with its bounds to loop nests."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.te.bounds.threads import in_one_block, scope_of
from whet.compiler.te.lang.relations import AT, INLINE
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp, HybridOp, PlaceholderOp, Tensor
from whet.compiler.te.lower import (
    lower_allreduce,
    lower_layout,
    lower_loop,
    lower_reduce,
    lower_scan,
    lower_store,
)
from whet.compiler.te.lower.guards import Guards
from whet.compiler.te.lower.in_place import keep_in_place
from whet.compiler.te.lower.lower_extern import extern_nest
from whet.compiler.te.lower.lower_prefetch import prefetched
from whet.compiler.te.lower.lower_tensorize import Tensorized
from whet.compiler.te.lower.range_check import check_reads, check_values, given_by
from whet.compiler.te.primitives.transform_layout import layout_shape
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    BufferLoad,
    IterVar,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Var,
)
from whet.compiler.tir.stmt import Allocate, BufferStore, IfThenElse, Stmt, nothing, seq
from whet.compiler.tir.visit.rewrite import Rewriter, variables

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


def schedule_ops(
    schedule: Schedule,
    buffers: Mapping[Tensor, Buffer],
    params: Collection[Buffer | Var] | None = None,
    noalias: bool = True,
) -> Stmt:
    """The loop nests of a schedule.

    Args:
        schedule: what to run.
        buffers: where inputs, outputs and other arguments live; every other tensor gets a buffer
            of its own, allocated where its stage is attached.
        params: all arguments, scalars among them; None if they are not known.
        noalias: False if arguments may share memory.

    Raises:
        LowerError: if an input or an output has no buffer, a stage is attached in vain, or an
            expression surely reads outside a tensor, divides by 0 or uses an unknown variable.
    """
    check_reads(schedule)
    check_values(schedule, None if params is None else given_by((*buffers.values(), *params)))
    return Nests(schedule, buffers).run(noalias)


class Nests:
    """Makes the loop nests of a schedule's stages."""

    bounds_of: type[Bounds] = Bounds

    def __init__(self, schedule: Schedule, buffers: Mapping[Tensor, Buffer]) -> None:
        self.schedule = schedule
        self.bounds = self.bounds_of(schedule)
        self.analyzer = self.bounds.analyzer
        self.buffers: dict[tuple[Stage, int], Buffer] = {}
        self.given: set[tuple[Stage, int]] = set()
        self.in_place: set[Stage] = set()
        for tensor, buffer in buffers.items():
            if tensor.op in schedule.stage_map:
                key = (schedule[tensor], tensor.value_index)
                self.buffers[key] = buffer
                self.given.add(key)
        self.guards = Guards(self.bounds, self.in_place)
        self.attached: dict[tuple[Stage, IterVar], list[Stage]] = {}
        for stage in self.bounds.schedule.stages:
            if stage.attach_type == AT and stage in self.bounds.stages:
                assert stage.attach_stage is not None and stage.attach_ivar is not None
                self.attached.setdefault((stage.attach_stage, stage.attach_ivar), []).append(stage)

    def run(self, noalias: bool = True) -> Stmt:
        computed = [s for s in self.schedule.stages if s in self.bounds.stages]
        for s in computed:
            if isinstance(s.op, ScanOp):
                self._share(s, s.op)
        for s in self.schedule.stages:
            self._check_buffers(s)
        if noalias:
            keep_in_place(self.bounds, self.buffers, self.given)
        for s in computed:
            self._declare(s)
        roots = [s for s in computed if s.attach_type != AT]
        body = seq(*[self.nest(s) for s in roots])
        for s in reversed(roots):
            body = self._allocate(s, body)
        return body

    def _check_buffers(self, stage: Stage) -> None:
        is_input = isinstance(stage.op, PlaceholderOp)
        if stage.attach_type == INLINE and any(s is stage for s, _ in self.given):
            warnings.warn(
                f"lower: the argument {stage.op.name} is not used: it is inlined, so nothing is "
                "stored there. Compute it at the root or leave it out of args",
                stacklevel=5,
            )
        if stage.attach_type != INLINE and is_input and (stage, 0) not in self.buffers:
            raise LowerError(
                f"lower(schedule of {', '.join(o.name for o in self.schedule.outputs)}, args)",
                f"the input {stage.op.name} is not in args",
                "args must name every placeholder; what is computed and not named is allocated",
            )

    def _declare(self, stage: Stage) -> None:
        op, b = stage.op, self.bounds.stages[stage]
        if not b.whole and any((stage, k) in self.given for k in range(op.num_outputs)):
            self.in_place.add(stage)
        for k in range(op.num_outputs):
            if (stage, k) in self.buffers:
                lower_store.check_given(stage)
                continue
            shape = self._shape(stage, k)
            self.buffers[(stage, k)] = Buffer(
                Tensor(op, k).name,
                tuple(layout_shape(stage, shape)),
                op.output_dtype(k),
                scope_of(stage),
                lower_store.strides(stage, shape) if lower_store.aligned(stage) else (),
            )

    def _shape(self, stage: Stage, k: int) -> tuple[PrimExpr, ...]:
        """The extents of what is kept of a stage's result ``k``: its region, or its tensor."""
        b = self.bounds.stages.get(stage)
        if b is None or not isinstance(stage.op, ComputeOp) or stage in self.in_place:
            return stage.op.output_shape(k)
        return tuple(b.extents[a].to_expr() for a in stage.op.axis)

    def _places(self, stage: Stage, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Where an element lies, from its indices in what is kept of a stage."""
        b = self.bounds.stages.get(stage)
        if b is not None and b.roll is not None:
            roll = b.roll
            pairs = zip(stage.op.axis, indices)
            indices = tuple(roll.place(i) if a is roll.axis else i for a, i in pairs)
        if not stage.layout:
            return indices
        return lower_layout.places(stage, self._shape(stage, 0), indices, self.bounds.sizes)

    def _share(self, stage: Stage, op: ScanOp) -> None:
        """Keep the first steps, the updates and the states of a recurrence in one memory."""
        shared = lower_scan.shared(self.schedule, op, self.given)
        self._declare(stage)
        for key, k in shared.items():
            self.buffers[key] = self.buffers[(stage, k)]
        self.given.update(shared)
        self.in_place.update(self.schedule.stage_map[t.op] for t in op.update)

    def _allocate(self, stage: Stage, body: Stmt) -> Stmt:
        for k in range(stage.op.num_outputs):
            if (stage, k) not in self.given:
                body = Allocate(self.buffers[(stage, k)], body)
        return body

    # one stage

    def nest(self, stage: Stage) -> Stmt:
        """The loops of a stage with everything attached to them."""
        op = stage.op
        if isinstance(op, ExternOp):
            out = self._statement(stage, op)
        elif isinstance(op, ScanOp):  # its other axes are those of the updates, attached here
            out = self._loop(stage, op.scan_axis, nothing())
            out = lower_scan.in_threads(stage, op, out)
        else:
            out = self._loops(stage)
        out = lower_loop.launched(stage, self.bounds.stages[stage], out)
        return lower_store.buffered(stage, self._outputs(stage), out)

    def _statement(self, stage: Stage, op: ExternOp) -> Stmt:
        """The statement of an extern operation; that of a hybrid script in its stage's loops."""
        read = [(self.schedule.stage_map[t.op], t.value_index) for t in op.inputs]
        kind = "the script" if isinstance(op, HybridOp) else "te.extern"
        lower_layout.check_row_major(f"{kind} {op.name}", [s for s, _ in read])
        declared = op.input_placeholders
        ins = [self.buffers.get(key, b) for key, b in zip(read, declared)]
        out = extern_nest(op, ins, self._outputs(stage))
        if not isinstance(op, HybridOp):
            return out
        from whet.compiler.te.lower import lower_hybrid

        inlined = {b: t for b, now, t in zip(declared, ins, op.inputs) if b is now}
        out = lower_hybrid.with_inlined(self.schedule, out, inlined, lambda x: self._read(x, {}))
        lower_hybrid.check_attached(self.bounds, stage, out, self.buffers)
        made = partial(self._loop, stage), self.guards.of_loops
        return lower_hybrid.in_loops(self.bounds, stage, out, *made)

    def _loops(self, stage: Stage) -> Stmt:
        leaves = stage.leaf_iter_vars
        first_reduce = stage.first_reduce
        reduces = isinstance(self.bounds.bodies[stage][0], Reduce)
        parts = lower_allreduce.parts(self.bounds, stage) if reduces else None
        tile = None if stage.tensorized is None else self._tensorized(stage)

        def level(k: int) -> Stmt:
            return plain(k) if tile is None or k != tile.first else tile.instead_of(plain(k))

        def plain(k: int) -> Stmt:
            if k == len(leaves):
                return self._update(stage, parts) if reduces else self._store(stage)
            if reduces and parts is None and k == first_reduce:
                made = self._tree(stage)
                if made is not None:
                    return made
            inner = self._loop(stage, leaves[k], level(k + 1), parts is not None)
            if parts is not None and k == first_reduce:
                return self._over_threads(stage, parts, inner)
            return seq(self._init(stage, tile), inner) if reduces and k == first_reduce else inner

        if reduces and first_reduce == len(leaves):  # all reduction axes had one step, and fused
            return seq(self._init(stage), level(0))
        return level(0)

    def _loop(self, stage: Stage, leaf: IterVar, body: Stmt, apart: bool = False) -> Stmt:
        """A loop of a stage around what is attached to it and then its body."""
        inside = self.attached.get((stage, leaf), [])
        body = seq(*[self.nest(s) for s in inside], body)
        rolling = [s for s in inside if self.bounds.stages[s].roll is not None]
        for s in reversed(inside):
            body = body if s in rolling else self._allocate(s, body)
        if stage.attr(leaf).prefetch_data:
            body = prefetched(stage, leaf, self.buffers, body)
        out = lower_loop.loop(stage, self.bounds.stages[stage], leaf, body, apart=apart)
        for s in reversed(rolling):
            out = self._allocate(s, out)
        return out

    def _tensorized(self, stage: Stage) -> Tensorized:
        return Tensorized(self.guards, stage, self.buffers, self._inside, self._read)

    def _outputs(self, stage: Stage) -> list[Buffer]:
        return [self.buffers[(stage, k)] for k in range(stage.op.num_outputs)]

    def _target(self, stage: Stage) -> tuple[PrimExpr, ...]:
        """The indices of a step's store, counted from the first index of the region.

        A part of an argument is stored where it is in the whole.
        """
        op, b = stage.op, self.bounds.stages[stage]
        if stage in self.in_place:
            indices = tuple(b.index(a).to_expr(a.dtype) for a in op.axis)
        else:
            indices = tuple(b.values[a].to_expr(a.dtype) for a in op.axis)
        return self._places(stage, indices)

    def _read(self, expression: PrimExpr, values: dict[Var, PrimExpr]) -> PrimExpr:
        """An expression over the loops, reading buffers instead of tensors."""

        def load(n: ProducerLoad) -> PrimExpr:
            n = rewrite.children(n)
            stage = self.schedule.stage_map[n.producer.op]
            buffer = self.buffers[(stage, n.producer.value_index)]
            return BufferLoad(buffer, self._inside(stage, n.indices), n.dtype)

        def swap(v: Var) -> PrimExpr:
            return values.get(v, v)

        rewrite = Rewriter({ProducerLoad: load, Var: swap}, once=True)
        return rewrite(expression)

    def _inside(self, stage: Stage, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Indices of a tensor counted from the first one that its stage computes."""
        b = self.bounds.stages.get(stage)
        if b is None or b.whole or stage in self.in_place:
            return self._places(stage, indices)
        out = []
        for a, i in zip(stage.op.axis, indices):
            out.append((self.analyzer.affine(i) - b.mins[a]).to_expr(i.dtype))
        return self._places(stage, tuple(out))

    def _store(self, stage: Stage) -> Stmt:
        values, target = self.guards.values(stage), self._target(stage)
        stores = [
            BufferStore(self.buffers[(stage, k)], self._read(body, values), target)
            for k, body in enumerate(self.bounds.bodies[stage])
        ]
        out = self._where(stage, seq(*stores), False)
        return self.guards.guarded(stage, out, with_reduction=True)

    def _where(self, stage: Stage, body: Stmt, reduces: bool) -> Stmt:
        """The body under the stage's own condition to store."""
        if stage.store_predicate is None:
            return body
        condition = lower_store.predicate(self.bounds, stage)
        out = lower_store.stored(stage, condition, self.buffers[(stage, 0)], body, reduces)
        return lower_store.over_inner(self.bounds, stage, condition, out, reduces)

    def _reductions(self, stage: Stage) -> lower_reduce.Outputs:
        values = self.guards.values(stage)
        return lower_reduce.Outputs(
            self.bounds.bodies[stage], self._outputs(stage), lambda n: self._read(n, values)
        )

    def _check_begin(self, stage: Stage) -> None:
        late = {
            s: leaf
            for leaf in stage.leaf_iter_vars[stage.first_reduce :]
            for s in self.attached.get((stage, leaf), [])
        }
        lower_reduce.check_begin(self.bounds, stage, late)

    def _init(self, stage: Stage, tile: Tensorized | None = None) -> Stmt:
        """Set the elements to the identity, in loops of their own before those of the reduction."""
        self._check_begin(stage)
        inner = [
            a for a in stage.leaf_iter_vars[stage.first_reduce :] if a.iter_type != COMM_REDUCE
        ]
        fresh = {a.var: Var(f"{a.var.name}.init", a.dtype) for a in inner}
        stores = lower_reduce.begin(self._reductions(stage), self._target(stage))
        out = self.guards.guarded(stage, self._where(stage, stores, False), with_reduction=False)
        inside = len(inner) if tile is None else sum(a not in tile.inner for a in inner)
        for k in reversed(range(len(inner) + 1)):
            if k < len(inner):
                b = self.bounds.stages[stage]
                out = lower_loop.loop(stage, b, inner[k], out, first_values=True)
            if tile is not None and k == inside:
                out = tile.first_values(out)
        return lower_loop.renamed(out, fresh)

    def _update(self, stage: Stage, parts: lower_allreduce.Parts | None = None) -> Stmt:
        out = self._reductions(stage)
        if parts is None:
            step = lower_reduce.update(out, self._target(stage), self.bounds, stage)
            step = self._where(stage, step, True)
        else:
            out = replace(out, buffers=parts.buffers)
            step = lower_reduce.update(out, parts.target, self.bounds, stage)
        return self.guards.guarded(stage, step, with_reduction=True)

    def _tree(self, stage: Stage) -> Stmt | None:
        """An unrolled loop that is all of a reduction, without its first values; else None."""
        step, *inner = stage.leaf_iter_vars[stage.first_reduce :]
        extent = self.bounds.stages[stage].extents[step]
        if not lower_reduce.may_be_tree(stage, step, extent, inner):
            return None
        if any((stage, leaf) in self.attached for leaf in (step, *inner)):
            return None
        out = lower_reduce.tree(
            self._reductions(stage), self._target(stage), step.var, extent.const
        )
        if out is None or self.guards.guarded(stage, out, with_reduction=True) is not out:
            return None
        for a in reversed(inner):
            out = lower_loop.loop(stage, self.bounds.stages[stage], a, out)
        return out

    def _over_threads(self, stage: Stage, parts: lower_allreduce.Parts, steps: Stmt) -> Stmt:
        """A reduction whose threads have a part each: the parts, their sum, and its store."""
        self._check_begin(stage)
        out = self._reductions(stage)
        store = lower_reduce.result(out, self._target(stage), parts.buffers, parts.first)
        store = self.guards.guarded(stage, store, with_reduction=False)
        condition = lower_store.predicate(self.bounds, stage)
        if condition is not None:
            chosen = lower_store.over_inner(
                self.bounds, stage, condition, IfThenElse(condition, store), False
            )
            swap = [leaf.var for leaf, _, _ in parts.loops]
            store = (
                parts.over(lambda fresh: lower_loop.renamed(chosen, dict(zip(swap, fresh))))
                if variables(condition) & set(swap)
                else chosen
            )
        sums = replace(out, buffers=parts.buffers)
        nest = seq(
            lower_allreduce.begin(sums, parts), steps, lower_allreduce.tree(sums, parts), store
        )
        for b in reversed(parts.buffers):
            nest = Allocate(b, nest)
        return in_one_block(self.bounds, stage, nest)
