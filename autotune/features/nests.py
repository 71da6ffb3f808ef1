"""The loop nests of a schedule: every loop's extent, and what each attached stage computes.

InferBound (:mod:`whet.compiler.te.lower.infer_bound`) over sizes that may be traced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whet.autotune.features.forms import Form, Forms, Loop, Size, difference
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.relations import AT, INLINE, Fuse, Rebase, Split
from whet.compiler.te.lang.scopes import is_shared, is_virtual, thread_rank
from whet.compiler.te.lang.tensor import ComputeOp, nodes
from whet.compiler.te.primitives.prepack import kernel_part
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.stage import Stage
from whet.compiler.tir import expr as e
from whet.compiler.tir.tracing.traced import least, most
from whet.compiler.tir.visit.rewrite import Rewriter, substitute

SERIAL, UNROLLED, VECTORIZED, PARALLEL, BLOCK, THREAD, VIRTUAL = range(7)
"""Kinds of loops."""

_KINDS = {e.UNROLLED: UNROLLED, e.VECTORIZED: VECTORIZED, e.PARALLELIZED: PARALLEL}
_ASSUMED = 64
"""Steps of a loop whose length is known only when the kernel runs."""


@dataclass(slots=True, eq=False)
class Nest:
    """A stage that is computed, with its loops.

    Attributes:
        stage: the stage.
        bodies: an expression for each output, inlined stages put in.
        loads: the reads in them, in the order of their first use.
        below: ids of the nodes that are evaluated under a condition.
        loops: its own loops, outermost first.
        around: the loops of other stages that it runs in, outermost first.
        extents: axis or loop variable of the schedule -> number of steps.
        values: axis -> its value, counted from the first one that is computed.
        first: axis -> the first index that is computed.
        whole: whether the whole tensor is computed.
    """

    stage: Stage
    bodies: tuple[e.PrimExpr, ...] = ()
    loads: list[e.ProducerLoad] = field(default_factory=list)
    below: set[int] = field(default_factory=set)
    loops: list[Loop] = field(default_factory=list)
    around: list[Loop] = field(default_factory=list)
    extents: dict[e.IterVar, Size] = field(default_factory=dict)
    values: dict[e.IterVar, Form] = field(default_factory=dict)
    first: dict[e.IterVar, Form] = field(default_factory=dict)
    of_leaf: dict[e.IterVar, Loop] = field(default_factory=dict)
    whole: bool = True

    def index(self, axis: e.IterVar) -> Form:
        """The index of an axis in terms of the loops."""
        return self.values[axis].plus(self.first[axis])

    def env(self) -> dict[e.Var, Form]:
        """The forms of the stage's axes."""
        return {a.var: self.index(a) for a in (*self.stage.op.axis, *self.stage.op.reduce_axis)}


class Nests:
    """All nests of a schedule's kernel, in the order in which they run."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule = kernel_part(schedule)
        self.forms = Forms()
        self.of_stage: dict[Stage, Nest] = {}
        self._bodies = _with_inlined(schedule)
        self._loads: dict[Stage, list[e.ProducerLoad]] = {}
        self._below: dict[Stage, set[int]] = {}
        self._reads: dict[Stage, list[tuple[Stage, list[e.ProducerLoad]]]] = {}
        self._note_reads()
        for stage in reversed(schedule.stages):
            if stage in self._bodies:
                self._infer(stage)
        self.all = [self.of_stage[s] for s in schedule.stages if s in self.of_stage]

    def _note_reads(self) -> None:
        """Who reads a stage, with its reads."""
        for reader, bodies in self._bodies.items():
            found: dict[Stage, list[e.ProducerLoad]] = {}
            inside = nodes(bodies)
            self._loads[reader] = [n for n in inside if type(n) is e.ProducerLoad]
            self._below[reader] = _below_conditions(inside)
            for n in self._loads[reader]:
                found.setdefault(self.schedule.stage_map[n.producer.op], []).append(n)
            for stage, loads in found.items():
                self._reads.setdefault(stage, []).append((reader, loads))

    def _infer(self, stage: Stage) -> None:
        nest = self.of_stage[stage] = Nest(
            stage, self._bodies[stage], self._loads[stage], self._below[stage]
        )
        op = stage.op
        for a in (*op.axis, *op.reduce_axis):
            assert a.dom is not None
            nest.extents[a] = constant(a.dom.extent)
            nest.first[a] = Form({}, constant(a.dom.min, 0))
        if stage.attach_type == AT:
            nest.whole = False
            nest.around = self._around(stage)
            self._region(nest)
        _down(stage, nest.extents)
        for leaf in stage.leaf_iter_vars:
            loop = _loop(stage, leaf, nest.extents[leaf])
            nest.loops.append(loop)
            nest.of_leaf[leaf] = loop
            nest.values[leaf] = Form({loop: 1})
        for r in reversed(stage.relations):
            if isinstance(r, Split):
                scaled = nest.values[r.outer].scaled(nest.extents[r.inner])
                nest.values[r.parent] = scaled.plus(nest.values[r.inner])
            elif isinstance(r, Fuse):
                both = self.forms.divided(nest.values[r.fused], nest.extents[r.inner])
                nest.values[r.outer], nest.values[r.inner] = both
            elif isinstance(r, Rebase):
                nest.values[r.parent] = nest.values[r.rebased]

    def _around(self, stage: Stage) -> list[Loop]:
        """The loops around an attached stage, outermost first."""
        out: list[Loop] = []
        up, at = stage.attach_stage, stage.attach_ivar
        while up is not None and at is not None:
            parent = self.of_stage[up]
            upto = parent.loops.index(parent.of_leaf[at]) + 1
            out = parent.loops[:upto] + out
            up, at = (up.attach_stage, up.attach_ivar) if up.attach_type == AT else (None, None)
        return out

    def _inside(self, nest: Nest) -> set[Loop]:
        """The loops inside the one that a stage is attached to, and those that share its result."""
        parent = nest.stage.attach_stage
        assert parent is not None and nest.stage.attach_ivar is not None
        above = self.of_stage[parent]
        place = above.loops.index(above.of_leaf[nest.stage.attach_ivar])
        inner = set(above.loops[place + 1 :])
        for other in self.of_stage.values():
            up = other.stage if other is not nest else None
            while up is not None and up is not parent:
                up = up.attach_stage if up.attach_type == AT else None
            if up is parent and other is not above:
                inner.update(other.loops)
        scope = self.scope(nest)
        return inner | {x for tag, x in self._threads(nest.stage) if is_shared(scope, tag)}

    def _check_inside(self, nest: Nest, reader: Stage) -> None:
        """A reader must run inside the loop that the stage is attached to."""
        at = nest.stage.attach_ivar
        assert nest.stage.attach_stage is not None and at is not None
        loop = self.of_stage[nest.stage.attach_stage].of_leaf[at]
        other = self.of_stage[reader]
        own = other.loops if reader is nest.stage.attach_stage else []
        if not any(x is loop for x in (*other.around, *own)):
            raise LowerError(
                f"compute_at({nest.stage.op.name}, ..., {at.var.name})",
                f"{reader.op.name} reads {nest.stage.op.name} too, and runs outside this loop",
            )

    def _threads(self, stage: Stage) -> list[tuple[str, Loop]]:
        """The loops over threads around a stage."""
        found: list[tuple[str, Loop]] = []
        at: Stage | None = stage
        while at is not None and at.attach_type == AT and at.attach_stage is not None:
            parent = self.of_stage[at.attach_stage]
            for leaf in parent.stage.leaf_iter_vars:
                attr = parent.stage.iter_var_attrs.get(leaf)
                if attr is not None and attr.bind_thread is not None:
                    found.append((attr.bind_thread.thread_tag, parent.of_leaf[leaf]))
                if leaf is at.attach_ivar:
                    break
            at = at.attach_stage
        return found

    def scope(self, nest: Nest) -> str:
        """Where a stage is kept."""
        stage = nest.stage
        tags = [tag for tag, _ in self._threads(stage)] if stage.attach_type == AT else []
        if stage.scope or not tags:
            return stage.scope or "global"
        return "local" if max(map(thread_rank, tags)) else "shared"

    def _region(self, nest: Nest) -> None:
        """What the readers of an attached stage read in one step of the loop around it."""
        inner = self._inside(nest)
        for reader, _ in self._reads.get(nest.stage, ()):
            self._check_inside(nest, reader)
        op = nest.stage.op
        ends: list[list[tuple[Form | None, Form | None]]] = [[] for _ in op.axis]
        for reader, loads in self._reads.get(nest.stage, ()):
            env = self.of_stage[reader].env()
            for n in loads:
                for d, index in enumerate(n.indices):
                    form = self.forms.of(index, env)
                    low = self.forms.extreme(form, inner, -1)
                    ends[d].append((low, self.forms.extreme(form, inner, 1)))
        for a, found in zip(op.axis, ends):
            region = _span(found)
            if region is None:
                continue
            low, extent = region
            if extent < nest.extents[a]:
                nest.first[a], nest.extents[a] = low, extent


def _span(ends: list[tuple[Form | None, Form | None]]) -> tuple[Form, Size] | None:
    """The first index and the number of indices that hold all reads."""
    if not ends:
        return None
    low, high = ends[0]
    for lo, hi in ends[1:]:
        if lo is None or hi is None or low is None or high is None:
            return None
        below, above = lo.plus(low, -1), hi.plus(high, -1)
        if below.terms or above.terms:
            return None
        low = lo if below.const < 0 else low
        high = hi if above.const > 0 else high
    if low is None or high is None:
        return None
    steps = difference(high, low)
    return None if steps is None else (low, steps + 1)


def _down(stage: Stage, extents: dict[e.IterVar, Size]) -> None:
    """Extents of everything that splits and fuses made."""
    for r in stage.relations:
        if isinstance(r, Fuse):
            extents[r.fused] = extents[r.outer] * extents[r.inner]
        elif isinstance(r, Split):
            size = constant(r.factor if r.factor is not None else r.nparts)
            given = most(least(size, extents[r.parent]), 1)
            other = -(-extents[r.parent] // given)
            inner, outer = (given, other) if r.factor is not None else (other, given)
            extents[r.inner], extents[r.outer] = inner, outer
        elif isinstance(r, Rebase):
            extents[r.rebased] = extents[r.parent]
        else:
            extents[r.iter] = 1


def _loop(stage: Stage, leaf: e.IterVar, extent: Size) -> Loop:
    reduces = leaf.iter_type == e.COMM_REDUCE
    attr = stage.iter_var_attrs.get(leaf)
    if attr is None:
        return Loop(extent, SERIAL, reduces)
    if attr.bind_thread is not None:
        tag, dom = attr.bind_thread.thread_tag, attr.bind_thread.dom
        kind = VIRTUAL if is_virtual(tag) else THREAD if thread_rank(tag) else BLOCK
        extent = extent if dom is None else constant(dom.extent)
        return Loop(extent, kind, reduces, tag="" if kind == VIRTUAL else tag)
    unroll: Any = 0
    for key, value in zip(attr.pragma_keys, attr.pragma_values):
        if key == "auto_unroll_max_step" and isinstance(value, e.IntImm):
            unroll = value.value
    return Loop(extent, _KINDS.get(attr.iter_type, SERIAL), reduces, unroll)


def constant(n: Any, otherwise: int = _ASSUMED) -> Size:
    """The number that an expression is; a nominal one where it is known only at run time."""
    return n.value if isinstance(n, e.IntImm) else otherwise


def _below_conditions(inside: list[e.PrimExpr]) -> set[int]:
    """The ids of everything that is evaluated under a condition."""
    parts = [x for n in inside if type(n) is e.Call and n.op == "if_then_else" for x in n.args[1:]]
    return {id(x) for x in nodes(parts)} if parts else set()


def _with_inlined(schedule: Schedule) -> dict[Stage, tuple[e.PrimExpr, ...]]:
    """The bodies of the stages that are computed, with the inlined ones put in."""
    inlined: dict[Stage, tuple[e.PrimExpr, ...]] = {}

    def expand(n: e.ProducerLoad) -> e.PrimExpr:
        n = rewrite.children(n)
        stage = schedule.stage_map[n.producer.op]
        body = inlined.get(stage)
        if body is None:
            return n
        places = {a.var: i for a, i in zip(stage.op.axis, n.indices)}
        return substitute(body[n.producer.value_index], places)

    rewrite = Rewriter({e.ProducerLoad: expand}, once=True)
    out: dict[Stage, tuple[e.PrimExpr, ...]] = {}
    for stage in schedule.stages:
        if not isinstance(stage.op, ComputeOp):
            continue
        body = tuple(rewrite(b) for b in stage.op.body) if inlined else stage.op.body
        if stage.attach_type == INLINE:
            inlined[stage] = body
        else:
            out[stage] = body
    return out
