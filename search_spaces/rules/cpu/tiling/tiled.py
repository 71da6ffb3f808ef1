"""The rule for reductions with reuse: register tiles, blocks, copied operands, fused epilogues."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from whet.compiler.te import Schedule, Tensor
from whet.compiler.te.lang.tensor import ComputeOp, Operation
from whet.compiler.tir.expr import DATA_PAR, IterVar, PrimExpr, Reduce, Var
from whet.search_spaces.graph.cost import EXPENSIVE
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import TILED, Group, constant_extents, is_ahead
from whet.search_spaces.rules.cpu.gemm.rule import form_of
from whet.search_spaces.rules.cpu.tiling.default import caches_of, default_choices
from whet.search_spaces.rules.cpu.tiling.loops import TiledStages, schedule_tiled
from whet.search_spaces.rules.cpu.tiling.packing import packed_operands, reading_packed
from whet.search_spaces.rules.cpu.tiling.plan import (
    Choices,
    constraints,
    knobs,
    plan_of,
)
from whet.search_spaces.rules.cpu.tiling.spec import Loads, TiledSpec, spec_of
from whet.search_spaces.rules.threads import threads_for
from whet.search_spaces.rules.vectors import lanes_of, operation_bits, vector_registers

_FEW_STEPS = 4  # of a GEMM that competes with the rule for GEMMs
_STORE = 1.9  # cycles of a vector
_QUICK_TILES = 12  # tiles of a quick space: the best guesses


class Tiled(Rule):
    """Multi-level tiling of a reduction; see :mod:`whet.search_spaces.rules.cpu.tiling.plan`."""

    def applies(self, group: Group) -> bool:
        """A reduction of one result with reuse, of known extents."""
        op = group.anchor.op
        return (
            group.role == TILED
            and isinstance(op, ComputeOp)
            and len(op.body) == 1
            and isinstance(op.body[0], Reduce)
            and len(op.axis) > 0
            and constant_extents(op)
        )

    def competes(self, group: Group) -> bool:
        """A GEMM of a few steps of K: tiles are stored from registers at once."""
        return form_of(group) is not None and prod(group.anchor.reduce_extents) <= _FEW_STEPS

    def cycles(self, group: Group) -> float | None:
        """Of a GEMM: the steps and the store of each vector; the least that there is to do."""
        form, target = form_of(group), group.target
        if form is None:
            return None
        g = form.size
        wide = max(1.0, 8 * target.vector_bytes / operation_bits(target))
        vectors = g.batch * g.N * -(-g.M // lanes_of(target, g.dtype))
        threads = threads_for(target, g.multiplications)
        return vectors * (wide / 2 * g.K + _STORE) / threads

    def rewrite(self, group: Group) -> Tensor | None:
        """Read copies of operands; with lanes along another axis, compute its transpose."""
        op = group.anchor.op
        assert isinstance(op, ComputeOp)
        inlined = staged_for_operands(group)
        loads = group.once(Loads, lambda: Loads(op))
        if loads.anchor is not op:  # a producer was rewritten
            loads = Loads(op)
        target = group.target
        key = (
            target.vector_bytes, vector_registers(target), target.num_threads, caches_of(target)
        )  # fmt: skip
        knobs_of = group.once(
            key,
            lambda: TiledKnobs(spec_of(loads, inlined, bool(group.consumers), *key), group.prefix),
        )
        spec = knobs_of.spec
        plan = plan_of(spec, knobs_of.define(group))
        packed = packed_operands(spec, plan, loads)
        body = reading_packed(spec, plan, op, loads, packed)
        transposed = plan.lane != spec.last
        core = _reduction(op, body, plan.lane if transposed else None)
        group.note(TiledStages(spec, plan, packed, core, transposed, inlined))
        return _transposed_back(op, core, plan.lane) if transposed else core

    def schedule(self, s: Schedule, group: Group) -> None:
        """Apply the plan."""
        schedule_tiled(s, group)


def staged_for_operands(group: Group) -> tuple[Operation, ...]:
    """The staged producers that only operands of the anchor read, themselves or through others.

    They need no stage of their own: a copy of the operand computes them, or the reduction does.
    """
    inside = {group.anchor.index}
    found: list[Operation] = []
    for node in reversed(group.staged):
        if is_ahead(node.op) or not isinstance(node.op, ComputeOp):
            continue
        if all(k in inside for k in node.readers):
            inside.add(node.index)
            found.append(node.op)
    return tuple(found)


def computed_as_read(group: Group) -> tuple[Operation, ...]:
    """Of those, the ones that are cheaper to compute where they are read than to store: padding,
    what puts zeros between elements, a little arithmetic."""
    cheap = {x.op for x in group.staged if x.is_guarded or x.cost < EXPENSIVE}
    return tuple(op for op in staged_for_operands(group) if op in cheap)


class TiledKnobs:
    """The knobs and constraints of a reduction: the same whatever the config is, so made once."""

    def __init__(self, spec: TiledSpec, prefix: str) -> None:
        self.spec = spec
        default = default_choices(spec)
        self._knobs = [
            (name, values, default[name], values[:_QUICK_TILES] if name == "tile" else None)
            for name, values in knobs(spec)
        ]
        self._filters = [replace(constraint, prefix=prefix) for constraint in constraints(spec)]

    def define(self, group: Group) -> Choices:
        """Define the knobs and their constraints; the values in force."""
        chosen = {name: group.choose(name, *more) for name, *more in self._knobs}
        for one in self._filters:
            group.cfg.multi_filter(one)
        return chosen


def _reduction(op: ComputeOp, body: tuple[PrimExpr, ...], lane: int | None) -> Tensor:
    """The reduction with other expressions; with a ``lane``, that data axis comes last."""
    if lane is None:
        return ComputeOp(op.name, op.axis, op.reduce_axis, body, op.tag, op.attrs).output(0)
    axes = (*op.axis[:lane], *op.axis[lane + 1 :], op.axis[lane])
    return ComputeOp(f"{op.name}.turned", axes, op.reduce_axis, body, op.tag, op.attrs).output(0)


def _transposed_back(op: ComputeOp, core: Tensor, lane: int) -> Tensor:
    """The reduction's own result, from one whose axis ``lane`` comes last."""
    axes = tuple(IterVar(a.dom, Var(a.var.name, a.dtype), DATA_PAR) for a in op.axis)
    places = [a.var for k, a in enumerate(axes) if k != lane] + [axes[lane].var]
    return ComputeOp(op.name, axes, (), (core(*places),), op.tag, op.attrs).output(0)
