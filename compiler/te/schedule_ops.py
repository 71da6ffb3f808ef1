"""ScheduleOps: from a schedule with its bounds to loop nests."""

from __future__ import annotations

from collections.abc import Mapping

from whet.compiler.arith import Affine
from whet.compiler.errors import LowerError
from whet.compiler.te.bound import Bounds, StageBounds
from whet.compiler.te.range_check import check_reads
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.stage import AT, INLINE, Stage
from whet.compiler.te.tensor import ComputeOp, Tensor
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.rewrite import TABLE, Rewriter, substitute, variables
from whet.compiler.tir.stmt import (
    Allocate,
    BufferStore,
    For,
    IfThenElse,
    Stmt,
    seq,
)


def schedule_ops(schedule: Schedule, buffers: Mapping[Tensor, Buffer]) -> Stmt:
    """The loop nests of a schedule.

    Args:
        schedule: what to run.
        buffers: where inputs, outputs and other arguments live; every other tensor gets a buffer
            of its own, allocated where its stage is attached.

    Raises:
        LowerError: if an input or an output has no buffer, a stage is attached in vain, or an
            expression surely reads outside a tensor.
    """
    check_reads(schedule)
    return _Nests(schedule, buffers).run()


class _Nests:
    def __init__(self, schedule: Schedule, buffers: Mapping[Tensor, Buffer]) -> None:
        self.schedule = schedule
        self.bounds = Bounds(schedule)
        self.analyzer = self.bounds.analyzer
        self.buffers: dict[tuple[Stage, int], Buffer] = {}
        self.given: set[tuple[Stage, int]] = set()
        for tensor, buffer in buffers.items():
            if tensor.op in schedule.stage_map:
                key = (schedule[tensor], tensor.value_index)
                self.buffers[key] = buffer
                self.given.add(key)
        self._value_cache: dict[Stage, dict[e.Var, e.PrimExpr]] = {}
        self.attached: dict[tuple[Stage, e.IterVar], list[Stage]] = {}
        for stage in self.bounds.schedule.stages:
            if stage.attach_type == AT and stage in self.bounds.stages:
                assert stage.attach_stage is not None and stage.attach_ivar is not None
                self.attached.setdefault((stage.attach_stage, stage.attach_ivar), []).append(stage)

    def run(self) -> Stmt:
        computed = [s for s in self.schedule.stages if s in self.bounds.stages]
        for s in self.schedule.stages:
            self._check_buffers(s)
        for s in computed:
            self._declare(s)
        roots = [s for s in computed if s.attach_type != AT]
        body = seq(*[self.nest(s) for s in roots])
        for s in reversed(roots):
            body = self._allocate(s, body)
        return body

    def _check_buffers(self, stage: Stage) -> None:
        is_input = not isinstance(stage.op, ComputeOp)
        if stage.attach_type == INLINE and any(s is stage for s, _ in self.given):
            raise LowerError(
                f"lower: {stage.op.name} is an argument",
                "it is inlined, so nothing would be stored there",
                "compute it at the root or leave it out of args",
            )
        if stage.attach_type == INLINE or not (is_input or stage.is_output):
            return
        for k in range(stage.op.num_outputs):
            if (stage, k) not in self.buffers:
                raise LowerError(
                    f"lower(schedule of {', '.join(o.name for o in self.schedule.outputs)}, args)",
                    f"{'the input' if is_input else 'the output'} {stage.op.name} is not in args",
                    "args must name every placeholder and every output",
                )

    def _declare(self, stage: Stage) -> None:
        op, b = stage.op, self.bounds.stages[stage]
        assert isinstance(op, ComputeOp)
        for k in range(op.num_outputs):
            if (stage, k) in self.buffers:
                if not b.whole:
                    raise LowerError(
                        f"lower: {op.name} is an argument",
                        "it is computed inside another stage, a part at a time",
                        "compute it at the root or leave it out of args",
                    )
                continue
            shape = tuple(b.extents[a].to_expr() for a in op.axis)
            self.buffers[(stage, k)] = Buffer(
                Tensor(op, k).name, shape, op.body[k].dtype, stage.scope or "global"
            )

    def _allocate(self, stage: Stage, body: Stmt) -> Stmt:
        for k in range(stage.op.num_outputs):
            if (stage, k) not in self.given:
                body = Allocate(self.buffers[(stage, k)], body)
        return body

    # one stage

    def nest(self, stage: Stage) -> Stmt:
        """The loops of a stage with everything attached to them."""
        op = stage.op
        assert isinstance(op, ComputeOp)
        leaves = stage.leaf_iter_vars
        first_reduce = next(
            (k for k, a in enumerate(leaves) if a.iter_type == e.COMM_REDUCE), len(leaves)
        )
        reduces = isinstance(self.bounds.bodies[stage][0], e.Reduce)

        def level(k: int) -> Stmt:
            if k == len(leaves):
                return self._update(stage) if reduces else self._store(stage)
            inner = loop(k)
            return (
                seq(self._init(stage, first_reduce), inner)
                if reduces and k == first_reduce
                else inner
            )

        def loop(k: int) -> Stmt:
            leaf = leaves[k]
            body = level(k + 1)
            inside = self.attached.get((stage, leaf), [])
            body = seq(*[self.nest(s) for s in inside], body)
            for s in reversed(inside):
                body = self._allocate(s, body)
            return self._for(stage, leaf, leaf.var, body)

        if reduces and first_reduce == len(
            leaves
        ):  # every reduction axis was of extent 1 and fused
            return seq(self._init(stage, first_reduce), level(0))
        return level(0)

    def _for(self, stage: Stage, leaf: e.IterVar, var: e.Var, body: Stmt) -> Stmt:
        b = self.bounds.stages[stage]
        extent = b.limits.get(leaf, b.extents[leaf])
        kind = stage.iter_var_attrs.get(leaf, "serial")
        if kind in ("vectorized", "unrolled") and not extent.is_const:
            primitive = "vectorize" if kind == "vectorized" else "unroll"
            raise LowerError(
                f"{primitive}({stage.op.name}, {leaf.var.name})",
                f"its extent, {self._text(extent)}, is not a constant",
                "split the loop first and take the inner one",
            )
        return For(var, ops.const(0), extent.to_expr(), kind, body)

    def _text(self, a: Affine) -> str:
        from whet.compiler.tir.printer import expr_text

        return expr_text(a.to_expr())

    def _target(self, stage: Stage) -> tuple[e.PrimExpr, ...]:
        """Where a step stores: counted from the first index of the region."""
        op, b = stage.op, self.bounds.stages[stage]
        assert isinstance(op, ComputeOp)
        return tuple(b.values[a].to_expr(a.dtype) for a in op.axis)

    def _read(self, expression: e.PrimExpr, values: dict[e.Var, e.PrimExpr]) -> e.PrimExpr:
        """An expression over the loops, reading buffers instead of tensors."""

        def load(n: e.ProducerLoad) -> e.PrimExpr:
            n = rewrite.children(n)
            stage = self.schedule.stage_map[n.producer.op]
            buffer = self.buffers[(stage, n.producer.value_index)]
            return e.BufferLoad(buffer, self._inside(stage, n.indices), n.dtype)

        def swap(v: e.Var) -> e.PrimExpr:
            return values.get(v, v)

        rewrite = Rewriter({e.ProducerLoad: load, e.Var: swap})
        return rewrite(expression)

    def _inside(self, stage: Stage, indices: tuple[e.PrimExpr, ...]) -> tuple[e.PrimExpr, ...]:
        """Indices of a tensor counted from the first one that its stage computes."""
        b = self.bounds.stages.get(stage)
        if b is None or b.whole:
            return indices
        op = stage.op
        assert isinstance(op, ComputeOp)
        out = []
        for a, i in zip(op.axis, indices):
            out.append((self.analyzer.affine(i) - b.mins[a]).to_expr(i.dtype))
        return tuple(out)

    def _store(self, stage: Stage) -> Stmt:
        values, target = self._values(stage), self._target(stage)
        stores = [
            BufferStore(self.buffers[(stage, k)], self._read(body, values), target)
            for k, body in enumerate(self.bounds.bodies[stage])
        ]
        return self._guarded(stage, seq(*stores), with_reduction=True)

    def _init(self, stage: Stage, first_reduce: int) -> Stmt:
        """Set the elements to the identity, in loops inside the ``first_reduce`` outer ones."""
        inner = [a for a in stage.leaf_iter_vars[first_reduce:] if a.iter_type != e.COMM_REDUCE]
        fresh = {a.var: e.Var(f"{a.var.name}.init", a.dtype) for a in inner}
        values, target = self._values(stage), self._target(stage)
        stores = []
        for k, body in enumerate(self.bounds.bodies[stage]):
            assert isinstance(body, e.Reduce)
            begin = body.init[0] if body.init else body.combiner.identity[0]
            stores.append(BufferStore(self.buffers[(stage, k)], self._read(begin, values), target))
        out = self._guarded(stage, seq(*stores), with_reduction=False)
        for a in reversed(inner):
            out = self._for(stage, a, a.var, out)
        return _rename(out, fresh)

    def _update(self, stage: Stage) -> Stmt:
        values, target = self._values(stage), self._target(stage)
        updates: list[Stmt] = []
        for k, body in enumerate(self.bounds.bodies[stage]):
            assert isinstance(body, e.Reduce) and len(body.source) == 1
            buffer = self.buffers[(stage, k)]
            current = e.BufferLoad(buffer, target, body.dtype)
            step = self._read(body.source[0], values)
            c = body.combiner
            value = substitute(c.result[0], {c.lhs[0]: current, c.rhs[0]: step})
            update: Stmt = BufferStore(buffer, value, target)
            condition = self._read(body.condition, values)
            if not (isinstance(condition, e.IntImm) and condition.value):
                update = IfThenElse(condition, update)
            updates.append(update)
        return self._guarded(stage, seq(*updates), with_reduction=True)

    # guards

    def _guarded(self, stage: Stage, body: Stmt, with_reduction: bool) -> Stmt:
        """The body under the conditions that keep it inside the axes and the tensor."""
        b = self.bounds.stages[stage]
        reduced = {a.var for a in stage.leaf_iter_vars if a.iter_type == e.COMM_REDUCE}
        conditions: list[e.PrimExpr] = []
        for value, extent in b.guards:
            test = ops.compare(e.LT, value.to_expr(), extent.to_expr())
            if not self.analyzer.at_most_zero((value - extent).shifted(1)):
                conditions.append(test)
        conditions += self._tensor_guards(stage, b)
        keep = [c for c in conditions if with_reduction or not variables(c) & reduced]
        return IfThenElse(ops.all_of(*keep), body, None, likely=True) if keep else body

    def _outside(self, stage: Stage, a: e.IterVar) -> tuple[bool, bool]:
        """Whether an axis may be below 0, and whether it may be beyond the tensor."""
        b = self.bounds.stages[stage]
        assert a.dom is not None
        if b.whole:
            return False, False
        index, whole = b.index(a), self.analyzer.affine(a.dom.extent)
        below = not self.analyzer.at_most_zero(index.scaled(-1))
        above = not self.analyzer.at_most_zero((index - whole).shifted(1))
        return below, above

    def _tensor_guards(self, stage: Stage, b: StageBounds) -> list[e.PrimExpr]:
        """Guards against indices outside the tensor, for an attached stage's region.

        Elements outside may be computed, because nobody reads them; but inputs must not be read
        out of range for it. Such a read is clamped where it can be (:meth:`_values`): a tile then
        has no branches inside, only its last row is computed several times over.
        """
        op = stage.op
        assert isinstance(op, ComputeOp)
        out: list[e.PrimExpr] = []
        for a in op.axis:
            assert a.dom is not None
            below, above = self._outside(stage, a)
            if (below or above) and self._reads(stage, a) == "attached":
                index = b.index(a).to_expr()
                if below:
                    out.append(ops.compare(e.GE, index, ops.const(0, a.dtype)))
                if above:
                    out.append(ops.compare(e.LT, index, a.dom.extent))
        return out

    def _values(self, stage: Stage) -> dict[e.Var, e.PrimExpr]:
        """The axes' variables in terms of the loops, clamped to the tensor where reads need it."""
        known = self._value_cache.get(stage)
        if known is None:
            known = self.bounds.axis_values(stage)
            op, b = stage.op, self.bounds.stages[stage]
            assert isinstance(op, ComputeOp)
            clamped = {}
            for a in op.axis:
                assert a.dom is not None
                below, above = self._outside(stage, a)
                if (below or above) and self._reads(stage, a) == "unsafe":
                    index = b.index(a).to_expr()
                    if above:
                        index = ops.minimum(index, ops.subtract(a.dom.extent, 1))
                    clamped[a.var] = ops.maximum(index, 0) if below else index
            known = {**known, **clamped}
            self._value_cache[stage] = known
        return known

    def _reads(self, stage: Stage, axis: e.IterVar) -> str:
        """How reads depend on an axis that leaves the tensor.

        ``"safe"``: all are in range wherever it goes. ``"unsafe"``: some are not. ``"attached"``:
        some are not, or the stage divides by integers, and indices cannot be changed: it also
        reads a region that was computed for just these, or the axis may have no steps at all.
        """
        values = self.bounds.axis_values(stage)
        found = {"safe"}

        def visit(n: e.PrimExpr) -> None:
            if isinstance(n, e.Call) and n.op == "if_then_else":
                visit(n.args[0])
                with self.analyzer.assuming(substitute(n.args[0], values)):
                    visit(n.args[1])
                visit(n.args[2])
                return
            if isinstance(n, (e.Div, e.Mod)) and not n.dtype.startswith("float"):
                found.add("unsafe")
            if isinstance(n, e.ProducerLoad):
                b = self.bounds.stages.get(self.schedule.stage_map[n.producer.op])
                whole = b is None or b.whole
                for i, d in zip(n.indices, n.producer.shape):
                    if axis.var not in variables(i):
                        continue
                    if not whole:
                        found.add("region")
                    elif not self._in_range(substitute(i, values), d):
                        found.add("unsafe")
            for part in TABLE[type(n)][0](n):
                visit(part)

        for body in self.bounds.bodies[stage]:
            visit(body)
        if "unsafe" not in found:
            return "safe"
        # what may be empty has no element to clamp an index to
        assert axis.dom is not None
        may_be_empty = not self.analyzer.positive(self.analyzer.affine(axis.dom.extent))
        return "attached" if "region" in found or may_be_empty else "unsafe"

    def _in_range(self, index: e.PrimExpr, extent: e.PrimExpr) -> bool:
        form = self.analyzer.affine(index)
        below = self.analyzer.at_most_zero(form.scaled(-1))
        return below and self.analyzer.at_most_zero(
            (form - self.analyzer.affine(extent)).shifted(1)
        )


def _rename(body: Stmt, fresh: dict[e.Var, e.Var]) -> Stmt:
    """The statement with loops over other variables."""
    if not fresh:
        return body

    def loop(n: For) -> Stmt:
        n = rewrite.children(n)
        return For(fresh.get(n.var, n.var), n.min, n.extent, n.kind, n.body, n.annotations)

    rewrite = Rewriter({For: loop, e.Var: lambda v: fresh.get(v, v)})
    return rewrite(body)
