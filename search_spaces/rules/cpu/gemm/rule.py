"""The rule for GEMMs: blocks, packed panels, register tiles, a fused epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from whet.compiler.te import Schedule, Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.gemm import GemmForm, GemmSize, gemm_form
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, TILED, Group, is_ahead
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.gemm.gemm import GemmStages, stages_of
from whet.search_spaces.rules.cpu.gemm.knobs import plan_of, ways_of
from whet.search_spaces.rules.cpu.gemm.loops import schedule_gemm
from whet.search_spaces.rules.producers import schedule_staged, staged_behind
from whet.search_spaces.rules.vectors import lanes_of

_FIRST = 28_000  # usable bytes of the first cache


@dataclass(frozen=True, eq=False)
class _Note:
    """The note of ``rewrite`` for ``schedule``: the stages, and the producers that they compute."""

    stages: GemmStages
    inlined: Sequence[Operation]


class Gemm(Rule):
    """GEMM by blocks of the caches and tiles of the registers."""

    def applies(self, group: Group) -> bool:
        """A sum of products of two loads, each with axes of its own, in float32 or float64."""
        return form_of(group) is not None

    def cycles(self, group: Group) -> float | None:
        """Those of the plan that is the default."""
        form = form_of(group)
        assert form is not None
        a, b = (x.load.producer.op for x in form.operands(group.anchor.op))
        return ways_of(_size(group, form, a, b), group.target).cycles

    def rewrite(self, group: Group) -> Tensor | None:
        """Compute tiles, from panels of the operands, and read the result from them."""
        form, op = form_of(group), group.anchor.op
        assert form is not None
        a, b = (x.load.producer.op for x in form.operands(op))
        form = replace(form, size=_size(group, form, a, b))
        cfg = Prefixed(group.cfg, group.prefix)
        plan = plan_of(cfg, form.size, group.target)
        computed = _computed(group, a, b)
        if computed:
            cfg.multi_filter(_Fetches(computed))
            plan = replace(plan, prefetch=0) if plan.lanes in computed else plan
        by_block = _define_staged(cfg, group)
        if plan.lanes == "rows":
            form, a, b = form.turned, b, a
        behind = {x: {node.op for node in staged_behind(group, x)} for x in (a, b)}
        lines = by_block and bool(behind[a] - behind[b])
        stages = stages_of(form, plan, op, lines)
        # A panel computes what it is made from once for each element, and so does a line; a load
        # in place, again.
        read = [x for x, copies in ((a, (stages.Q, stages.L)), (b, (stages.P,)))
            if all(copy is None for copy in copies)]  # fmt: skip
        kept = {op for x in read for op in behind[x]}
        # Panels made ahead read what they copy; a copy of another operand is itself made ahead.
        packs = stages.P is not None and form.size.packed
        kept |= {n.op for n in group.staged if is_ahead(n.op) and not (packs and n.op is b)}
        group.note(_Note(stages, [n.op for n in group.staged if n.op not in kept]))
        return stages.plain

    def schedule(self, s: Schedule, group: Group) -> None:
        """Apply the plan."""
        note = group.noted(_Note)
        plan = note.stages.plan
        lanes = lanes_of(group.target, note.stages.form.size.dtype)
        schedule_staged(s, group, note.inlined, lanes, plan.threads.parallel)
        if group.consumers:
            s[group.anchor.op].compute_inline()
        schedule_gemm(s, note.stages, s[group.last.op], group.target)


def _size(group: Group, form: GemmForm, a: Operation, b: Operation) -> GemmSize:
    """The numbers of a GEMM, with what is known of the producers of its operands."""
    own = tuple(any(not is_ahead(n.op) for n in staged_behind(group, x)) for x in (a, b))
    return replace(form.size, packed=is_ahead(b), staged=(own[0], own[1]))


def _define_staged(cfg: Prefixed, group: Group) -> bool:
    """Define the knob of producers of an operand in place; True: lines of a block at a time.

    That is the default where all of them leave the first cache before they are read.
    """
    nodes = [node for node in group.staged if not is_ahead(node.op)]
    if not nodes:
        return False
    largest = max(node.points * dt.itemsize(node.dtype) for node in nodes)
    by = cfg.choose("staged_at", ["root", "block"], "block" if largest > _FIRST else "root")
    cfg.multi_filter(_in_place)
    return bool(by == "block")


def _in_place(c: Any) -> bool:
    """Panels compute what they are made of themselves."""
    return c["staged_at"].val == "root" or not c["pack_a"].val


def _computed(group: Group, a: Operation, b: Operation) -> tuple[str, ...]:
    """The ways to lay the lanes in which the operand read in rows is inlined, and has no memory."""
    return tuple(way for way, op in (("columns", b), ("rows", a)) if op in group.inlined)


@dataclass(frozen=True)
class _Fetches:
    """A constraint: only what is in memory is fetched ahead."""

    ways: tuple[str, ...]

    def __call__(self, view: Any) -> bool:
        return view["prefetch"].val == 0 or view["lanes"].val not in self.ways

    def __repr__(self) -> str:
        return "only what is in memory is fetched ahead"


def is_packed(group: Group, form: GemmForm) -> bool:
    """True if B is packed ahead of the kernel's calls, and comes from memory in each."""
    return is_ahead(form.operands(group.anchor.op)[1].load.producer.op)


def form_of(group: Group) -> GemmForm | None:
    """The GEMM that a group is about; None: it is none."""
    if group.role not in (TILED, REDUCTION) or group.members:
        return None
    return group.once(GemmForm, lambda: _form(group))


def _form(group: Group) -> GemmForm | None:
    op = group.anchor.op
    form = gemm_form(op)
    if form is None or not is_packed(group, form):
        return form
    # panels that are packed ahead may come from anywhere
    return form.joined(op, lanes_of(group.target, form.size.dtype))
