"""The rule for GEMMs: blocks, packed panels, register tiles, a fused epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whet.compiler.te import Schedule, Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.search_spaces.forms.gemm import GemmForm, gemm_form
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, TILED, Group, is_ahead
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.gemm.gemm import GemmStages, stages_of
from whet.search_spaces.rules.cpu.gemm.knobs import plan_of
from whet.search_spaces.rules.cpu.gemm.loops import schedule_gemm
from whet.search_spaces.rules.producers import schedule_staged, staged_behind
from whet.search_spaces.rules.vectors import lanes_of


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

    def rewrite(self, group: Group) -> Tensor | None:
        """Compute tiles, from panels of the operands, and read the result from them."""
        form, op = form_of(group), group.anchor.op
        assert form is not None
        a, b = (x.load.producer.op for x in form.operands(op))
        form = replace(form, size=replace(form.size, packed=is_ahead(b)))
        plan = plan_of(Prefixed(group.cfg, group.prefix), form.size, group.target)
        if plan.lanes == "rows":
            form, a, b = form.turned, b, a
        stages = stages_of(form, plan, op)
        # A panel computes what it is made from once for each element; a load in place, again.
        read = [x for x, panels in ((a, stages.Q), (b, stages.P)) if panels is None]
        kept = {node.op for x in read for node in staged_behind(group, x)}
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


def form_of(group: Group) -> GemmForm | None:
    """The GEMM that a group is about; None: it is none."""
    if group.role not in (TILED, REDUCTION) or group.members:
        return None
    return group.once(GemmForm, lambda: gemm_form(group.anchor.op))
