"""The block form of a schedule: its loops, with a block where a stage computes an element.

Buffers have the size of their tensors and indices count from 0, wherever a stage is attached;
lowering a schedule keeps of a tensor what is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whet.compiler.te.bounds import rolling
from whet.compiler.te.bounds.infer_bound import Bounds, StageBounds
from whet.compiler.te.lang.relations import AT, INLINE
from whet.compiler.te.lang.tensor import ExternOp, Operation, PlaceholderOp, Tensor
from whet.compiler.te.lower import lower_reduce
from whet.compiler.te.lower.schedule_ops import Nests, schedule_ops
from whet.compiler.te.primitives.transform_layout import layout_shape
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.stage import Stage
from whet.compiler.tir.blocks.regions import accesses
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import IterVar, PrimExpr, Range, Reduce, Var, is_int
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    SERIAL,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    Stmt,
    seq,
)
from whet.compiler.tir.visit.rewrite import substitute


@dataclass
class View:
    """Names, first values and notes of a block form, beside its schedule.

    Attributes:
        names: loops that are called otherwise than their variables.
        blocks: blocks that are called otherwise than their operations.
        decomposed: operations of which the first values are a block of their own.
        notes: annotations of blocks (by operation) and of loops.

    Operations are those that stages were made for.
    """

    names: dict[IterVar, str] = field(default_factory=dict)
    blocks: dict[Operation, str] = field(default_factory=dict)
    decomposed: set[Operation] = field(default_factory=set)
    notes: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def copy(self) -> View:
        """The same, to be changed apart."""
        notes = {k: dict(said) for k, said in self.notes.items()}
        return View(dict(self.names), dict(self.blocks), set(self.decomposed), notes)

    def said(self, key: Any) -> dict[str, Any]:
        """The annotations of an operation or a loop."""
        return self.notes.get(key, {})


@dataclass(frozen=True, eq=False)
class Scheduled:
    """The schedule behind a function of blocks, which is never changed.

    Attributes:
        schedule: its schedule; ``view``: what the blocks say besides.
        args: the tensors and scalars that are its parameters.
        buffers: tensor -> its parameter; ``params``: the parameters in order.
        body: the function's body, by which a function that was changed since is told.
    """

    schedule: Schedule
    view: View
    args: tuple[Tensor | Var, ...]
    buffers: dict[Tensor, Buffer]
    params: tuple[Buffer | Var, ...]
    body: Stmt

    def loops(self) -> Stmt:
        """The loops of the schedule, without blocks."""
        return schedule_ops(self.schedule, self.buffers, self.params)


class BlockBounds(Bounds):
    """Bounds of loops that keep their lengths: blocks have conditions instead."""

    def limit(self, stage: Stage, b: StageBounds) -> None:
        """Leave the guards as they are."""

    def shorten(self, stage: Stage, b: StageBounds, roll: rolling.Roll) -> None:
        """Let a condition leave out what steps before have computed."""
        rolling.only_new(b, roll, self.analyzer)

    def trivial(self, stage: Stage) -> list[IterVar]:
        """The loops of one step that an attached stage has left."""
        if stage.attach_type != AT:
            return []
        extents = self.stages[stage].extents
        used = [s.attach_ivar for s in self.schedule.stages if s.attach_stage is stage]
        return [
            a
            for a in stage.leaf_iter_vars
            if extents[a].is_const and extents[a].const == 1
            if stage.attr(a).kind == SERIAL and not any(a is x for x in used)
        ]


def block_names(schedule: Schedule, view: View) -> dict[Stage, str]:
    """The name of each stage's block: that of its operation, numbered where it is taken."""
    out: dict[Stage, str] = {}
    taken = {"root"}
    for stage in schedule.stages:
        if isinstance(stage.op, PlaceholderOp) or stage.attach_type == INLINE:
            continue
        name = base = view.blocks.get(stage.origin_op) or stage.op.name.replace(".", "_")
        number = 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        out[stage] = name
    return out


def block_form(schedule: Schedule, buffers: Mapping[Tensor, Buffer], view: View) -> Stmt:
    """The block form of a schedule.

    Args:
        buffers: where inputs and outputs live.

    Raises:
        LowerError: if an input or an output has no buffer, or a stage is attached in vain.
    """
    return BlockNests(schedule, buffers, view).run()


class BlockNests(Nests):
    """Makes the loop nests of a schedule's stages, a block in each."""

    bounds_of = BlockBounds
    bounds: BlockBounds

    def __init__(self, schedule: Schedule, buffers: Mapping[Tensor, Buffer], view: View) -> None:
        super().__init__(schedule, buffers)
        self.view = view
        self.allocated: list[Buffer] = []
        self.block_names = block_names(schedule, view)
        self.hidden: dict[Var, PrimExpr] = {}
        self.shown: dict[Var, PrimExpr] = {}
        for stage in self.bounds.stages:
            for a in self.bounds.trivial(stage):
                self.hidden[a.var] = ops.const(0, a.dtype)
            for a in stage.leaf_iter_vars:
                self.shown[a.var] = Var(view.names.get(a, a.var.name), a.dtype)

    def run(self, noalias: bool = True) -> Stmt:
        """The whole body, in a block named root."""
        body = substitute(super().run(noalias), self.shown)
        root = Block((), (), (), "root", body, None, tuple(self.allocated))
        return BlockRealize((), ops.const(True), root)

    def _declare(self, stage: Stage) -> None:
        if not self.bounds.stages[stage].whole:
            self.in_place.add(stage)
        for k in range(stage.op.num_outputs):
            if (stage, k) not in self.buffers:
                op, scope = stage.op, stage.scope or "global"
                name = Tensor(op, k).name.replace(".", "_")
                shape = tuple(layout_shape(stage, op.output_shape(k)))
                made = Buffer(name, shape, op.output_dtype(k), scope)
                self.buffers[(stage, k)] = made
                self.allocated.append(made)

    def _allocate(self, stage: Stage, body: Stmt) -> Stmt:
        return body

    def _places(self, stage: Stage, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Where an element lies in the whole: what rolls is not kept in a circle here."""
        for layout in stage.layout:
            indices = tuple(layout.forward_transform.map_indices(indices))
        return indices

    def nest(self, stage: Stage) -> Stmt:
        """The loops of a stage with everything attached to them."""
        op = stage.op
        if isinstance(op, ExternOp):
            read = [self.buffers[(self.schedule.stage_map[t.op], t.value_index)] for t in op.inputs]
            written = self._outputs(stage)
            reads, writes = (tuple(map(_whole, many)) for many in (read, written))
            body = self._statement(stage, op)
            block = Block((), reads, writes, self.block_names[stage], body)
            return BlockRealize((), ops.const(True), block)
        return self._loops(stage)

    def _loops(self, stage: Stage) -> Stmt:
        decomposed = stage.origin_op in self.view.decomposed
        out = self._block(stage, decomposed)
        for k in reversed(range(len(stage.leaf_iter_vars))):
            out = self._loop(stage, stage.leaf_iter_vars[k], out)
            if decomposed and k == stage.first_reduce:
                out = seq(self._first_values(stage), out)
        return out

    def _loop(self, stage: Stage, leaf: IterVar, body: Stmt, apart: bool = False) -> Stmt:
        inside = self.attached.get((stage, leaf), [])
        body = seq(*[self.nest(s) for s in inside], body)
        return self._for(stage, leaf, body, self.shown[leaf.var])

    def _for(self, stage: Stage, leaf: IterVar, body: Stmt, var: Any) -> Stmt:
        if leaf.var in self.hidden:
            return body
        attr = stage.attr(leaf)
        notes: dict[str, Any] = {
            f"pragma_{k}": 1 if v is None else v
            for k, v in zip(attr.pragma_keys, attr.pragma_values)
        }
        if attr.tensor_intrin is not None:
            notes["tensorize"] = attr.tensor_intrin.name
        notes.update(self.view.said(leaf))
        extent = self.bounds.stages[stage].extents[leaf].to_expr(leaf.dtype)
        zero = ops.const(0, leaf.dtype)
        return For(var, zero, extent, attr.kind, body, notes, attr.thread_tag)

    def _axes(self, stage: Stage, axes: Sequence[IterVar]) -> dict[IterVar, IterVar]:
        """The axes of a block, by those of the operation."""
        return {
            a: IterVar(a.dom, Var(f"v{self.view.names.get(a, a.var.name)}", a.dtype), a.iter_type)
            for a in axes
        }

    def _realize(
        self, stage: Stage, own: Mapping[IterVar, IterVar], name: str, body: Stmt,
        init: Stmt | None, with_reduction: bool,
    ) -> BlockRealize:  # fmt: skip
        """A block with the values of its axes, under its stage's guards."""
        values = [self._index(stage, a) for a in own]
        guarded = self.guards.guarded(stage, body, with_reduction)
        condition = ops.const(True)
        if guarded is not body:
            assert isinstance(guarded, IfThenElse)
            condition = self._plain(guarded.condition)
        reads, writes = accesses((body,))
        if init is not None:
            more, _ = accesses((init,))
            mine = {x.buffer for x in writes}
            known = {x.buffer for x in reads}
            reads = tuple(x for x in reads if x.buffer not in mine)
            reads += tuple(x for x in more if x.buffer not in known)
        notes = dict(self.view.said(stage.origin_op))
        block = Block(tuple(own.values()), reads, writes, name, body, init, annotations=notes)
        return BlockRealize(tuple(values), condition, block)

    def _index(self, stage: Stage, a: IterVar) -> PrimExpr:
        """An axis in terms of the loops, outer ones first."""
        b = self.bounds.stages[stage]
        if b.whole and any(a is x for x in stage.leaf_iter_vars) and is_int(a.domain.min, 0):
            return a.var
        return self._plain((b.mins[a] + b.values[a]).to_expr(a.dtype))

    def _plain(self, x: PrimExpr) -> PrimExpr:
        """An expression without the loops that are not shown."""
        simple = substitute(x, self.hidden)
        return x if simple is x else self.bounds.analyzer.simplify(simple)

    def _block(self, stage: Stage, decomposed: bool) -> Stmt:
        op = stage.op
        own = self._axes(stage, (*op.axis, *op.reduce_axis))
        values: dict[Var, PrimExpr] = {a.var: v.var for a, v in own.items()}
        target = self._places(stage, tuple(own[a].var for a in op.axis))
        name, bodies = self.block_names[stage], self.bounds.bodies[stage]
        if not isinstance(bodies[0], Reduce):
            stores = [
                BufferStore(self.buffers[(stage, k)], self._read(x, values), target)
                for k, x in enumerate(bodies)
            ]
            return self._realize(stage, own, name, seq(*stores), None, True)
        out = lower_reduce.Outputs(bodies, self._outputs(stage), lambda n: self._read(n, values))
        body = lower_reduce.update(out, target, self.bounds, stage)
        if decomposed:
            return self._realize(stage, own, f"{name}_update", body, None, True)
        return self._realize(stage, own, name, body, lower_reduce.begin(out, target), True)

    def _first_values(self, stage: Stage) -> Stmt:
        """The block that sets what a reduction begins with, in loops of its own."""
        op = stage.op
        own = self._axes(stage, op.axis)
        values: dict[Var, PrimExpr] = {a.var: v.var for a, v in own.items()}
        bodies = self.bounds.bodies[stage]
        out = lower_reduce.Outputs(bodies, self._outputs(stage), lambda n: self._read(n, values))
        stores = lower_reduce.begin(out, self._places(stage, tuple(own[a].var for a in op.axis)))
        name = f"{self.block_names[stage]}_init"
        nest: Stmt = self._realize(stage, own, name, stores, None, False)
        data = [a for a in stage.leaf_iter_vars[stage.first_reduce :] if a in _data(stage)]
        fresh: dict[Var, PrimExpr] = {}
        for a in reversed(data):
            fresh[a.var] = Var(f"{_name(self.shown[a.var])}_init", a.dtype)
            nest = self._for(stage, a, nest, fresh[a.var])
        return substitute(nest, fresh)


def _data(stage: Stage) -> Collection[IterVar]:
    return [a for a in stage.leaf_iter_vars if a.iter_type == IterVar.DataPar]


def _name(v: Any) -> str:
    return str(v.name)


def _whole(b: Buffer) -> BufferRegion:
    return BufferRegion(b, tuple(Range.from_min_extent(ops.const(0, d.dtype), d) for d in b.shape))
