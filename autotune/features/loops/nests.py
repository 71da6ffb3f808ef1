"""The loop nests of a schedule: bound inference over traced sizes, and the kinds of loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whet.autotune.features.loops.forms import Form, Loop, Size
from whet.autotune.features.loops.sizes import TracedSizes, constant
from whet.compiler.te.bounds.extents import pass_down, pass_up
from whet.compiler.te.bounds.inference import Inference, StageBounds
from whet.compiler.te.bounds.threads import ancestors, leaf_index
from whet.compiler.te.lang.relations import AT, INLINE
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.scopes import is_virtual, thread_rank
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.primitives.prepack import kernel_part
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.stage import Stage
from whet.compiler.tir import expr as e
from whet.compiler.tir.stmt import PARALLEL as PARALLEL_LOOP
from whet.compiler.tir.stmt import SERIAL as SERIAL_LOOP
from whet.compiler.tir.tracing.traced import least
from whet.compiler.tir.visit.rewrite import Rewriter, nodes, substitute

SERIAL, UNROLLED, VECTORIZED, PARALLEL, BLOCK, THREAD, VIRTUAL = range(7)
"""Kinds of loops."""

_KINDS = {e.UNROLLED: UNROLLED, e.VECTORIZED: VECTORIZED, e.PARALLELIZED: PARALLEL}


@dataclass(slots=True, eq=False, kw_only=True)
class Nest(StageBounds[Size, Form]):
    """A stage that is computed, with its loops.

    Attributes:
        stage: the stage.
        bodies: an expression for each output, inlined stages put in.
        below: ids of the nodes that are evaluated under a condition.
        loops: its own loops, outermost first.
        around: the loops of other stages that it runs in, outermost first.
    """

    stage: Stage
    bodies: tuple[e.PrimExpr, ...]
    below: set[int]
    loops: list[Loop] = field(default_factory=list)
    around: list[Loop] = field(default_factory=list)

    def env(self) -> dict[e.Var, Form]:
        """The forms of the stage's axes."""
        return {a.var: self.index(a) for a in (*self.stage.op.axis, *self.stage.op.reduce_axis)}

    def computed(self, axis: e.IterVar) -> Size:
        """The steps along an axis; of a rolling buffer the mean over the loop that moves it.

        The first step of that loop computes all that is kept, the others what is new.
        """
        kept = self.extents[axis]
        if not self.stage.rolls or not self.around or axis not in self.mins:
            return kept
        loop = self.around[-1]
        step = self.mins[axis].terms.get(loop)
        if step is None or self.stage.attr(axis).kind not in (SERIAL_LOOP, PARALLEL_LOOP):
            return kept
        return -(-(kept + (loop.extent - 1) * least(step, kept)) // loop.extent)


class Nests(Inference[Nest]):
    """All nests of a schedule's kernel, in the order in which they run."""

    def __init__(self, schedule: Schedule) -> None:
        self.sizes: TracedSizes
        super().__init__(kernel_part(schedule), TracedSizes())
        self.bodies = _with_inlined(self.schedule)
        for stage in reversed(self.schedule.stages):
            if stage in self.bodies:
                self._infer(stage)
        self.all = [self.stages[s] for s in self.schedule.stages if s in self.stages]

    def _infer(self, stage: Stage) -> None:
        inside = nodes(self.bodies[stage])
        self.note_reads(stage, inside)
        below = _below_conditions(inside)
        nest = self.stages[stage] = Nest(stage=stage, bodies=self.bodies[stage], below=below)
        self.domain(stage, nest)
        if stage.attach_type == AT:
            nest.whole = False
            nest.around = self._around(stage)
            self.region(stage, nest, lambda reader: self.stages[reader].env())
        pass_down(stage.relations, nest.extents, self.sizes)
        for leaf in stage.leaf_iter_vars:
            loop = self.sizes.loops[leaf] = _loop(stage, leaf, nest.computed(leaf))
            nest.loops.append(loop)
            nest.values[leaf] = Form({loop: 1})
        pass_up(stage.relations, nest.extents, nest.values, self.sizes)

    def _around(self, stage: Stage) -> list[Loop]:
        """The loops around an attached stage, outermost first."""
        out: list[Loop] = []
        for up, at in ancestors(stage):
            out = self.stages[up].loops[: leaf_index(up, at) + 1] + out
        return out


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
        if isinstance(stage.op, ScanOp):
            out[stage] = stage.op.body
            continue
        if not isinstance(stage.op, ComputeOp):
            continue
        body = tuple(rewrite(b) for b in stage.op.body) if inlined else stage.op.body
        if stage.attach_type == INLINE:
            inlined[stage] = body
        else:
            out[stage] = body
    return out
