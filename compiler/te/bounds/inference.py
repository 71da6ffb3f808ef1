"""Bound inference over an algebra of sizes: the region that each attached stage computes.

A root stage computes its whole tensor. A stage attached at a loop computes what its readers read
in one step of that loop: the bounds of their indices over all loops inside it.

An algebra has numbers of steps and linear forms over loops. The compiler's are affine forms
(:class:`~whet.compiler.te.bounds.extents.AffineSizes`); cost-model features have ints that may be
traced, so that one look at a schedule holds for many tile sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.threads import ancestors, leaf_index, shared_loops
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.tensor import ExternOp
from whet.compiler.tir.expr import IterVar, PrimExpr, ProducerLoad
from whet.compiler.tir.visit.rewrite import nodes

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage

N = TypeVar("N")
F = TypeVar("F")


class Sizes(Protocol[N, F]):
    """The part of an algebra that regions need; relations need the rest."""

    def size(self, n: Any) -> N:
        """A number of steps."""

    def form(self, n: Any) -> F:
        """The first index of an axis."""

    def extremes(
        self, index: PrimExpr, values: Any, inner: Sequence[IterVar]
    ) -> tuple[F | None, F | None]:
        """The least and the greatest value of an index over some loops; None where unknown.

        ``values`` are those of its variables, as the algebra's bounds give them.
        """

    def steps(self, low: F, high: F, whole: N) -> N | None:
        """The number of indices from ``low`` to ``high``, if it is known and below ``whole``."""


@dataclass(slots=True, eq=False)
class StageBounds(Generic[N, F]):
    """The bounds of one stage.

    Attributes:
        mins: per data axis, the first index computed, in terms of the loops around the stage.
        extents: axis or loop -> how many steps.
        values: axis or loop -> its value, counted from 0, in terms of the loops.
        whole: True if the whole tensor is computed.
    """

    mins: dict[IterVar, F] = field(default_factory=dict)
    extents: dict[IterVar, N] = field(default_factory=dict)
    values: dict[IterVar, F] = field(default_factory=dict)
    whole: bool = True

    def index(self, axis: IterVar) -> F:
        """The index of an axis in terms of the loops."""
        return self.values[axis] + self.mins[axis]  # type: ignore[operator]


B = TypeVar("B", bound=StageBounds)


class Inference(Generic[B]):
    """The bounds of a schedule's stages, inferred from consumers to producers.

    Attributes:
        bodies: stage -> the expressions that it computes, inlined stages put in.
        stages: stage -> its bounds, for the stages done so far.
    """

    def __init__(self, schedule: Schedule, sizes: Sizes) -> None:
        self.schedule = schedule
        self.sizes = sizes
        self.bodies: dict[Stage, tuple[PrimExpr, ...]] = {}
        self.stages: dict[Stage, B] = {}
        self._reads: dict[Stage, list[tuple[Stage, ProducerLoad]]] = {}

    def reads(self, reader: Stage) -> list[tuple[Stage, ProducerLoad]]:
        """Every read of ``reader``, with the stage it reads."""
        known = self._reads.get(reader)
        if known is None:
            known = self.note_reads(reader, nodes(self.bodies[reader]))
        return known

    def note_reads(self, reader: Stage, inside: Sequence[Any]) -> list[tuple[Stage, ProducerLoad]]:
        """Learn the reads of a stage from the nodes of its expressions."""
        of = self.schedule.stage_map
        reads = [(of[n.producer.op], n) for n in inside if type(n) is ProducerLoad]
        self._reads[reader] = reads
        return reads

    def set_bodies(self, stage: Stage, bodies: tuple[PrimExpr, ...]) -> None:
        """Let a stage compute other expressions."""
        self.bodies[stage] = bodies
        self._reads.pop(stage, None)

    def readers(self, stage: Stage) -> list[tuple[Stage, list[ProducerLoad]]]:
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

    def domain(self, stage: Stage, b: B) -> None:
        """The bounds of a stage's axes, as if it computed its whole tensor."""
        for a in (*stage.op.axis, *stage.op.reduce_axis):
            b.mins[a] = self.sizes.form(a.domain.min)
            b.extents[a] = self.sizes.size(a.domain.extent)

    def region(self, stage: Stage, b: B, values: Any) -> None:
        """The bounds of an attached stage's axes: of what its readers read in one step around it.

        Args:
            values: from a reader to the values of its axes, for the algebra.

        Raises:
            LowerError: if it is attached in vain, or a reader runs outside of the loop.
        """
        inner = self.loops_inside(stage)
        readers = self.readers(stage)
        for reader, _ in readers:
            self.check_inside(stage, reader)
        if any(isinstance(reader.op, ExternOp) for reader, _ in readers):
            return
        ends: list[list[tuple[Any, Any]]] = [[] for _ in stage.op.axis]
        for reader, loads in readers:
            known = values(reader)
            for n in loads:
                for d, index in enumerate(n.indices):
                    ends[d].append(self.sizes.extremes(index, known, inner))
        for a, of_axis in zip(stage.op.axis, ends):
            span = _span(of_axis)
            steps = None if span is None else self.sizes.steps(*span, b.extents[a])
            if span is not None and steps is not None:
                b.mins[a], b.extents[a] = span[0], steps

    def loops_inside(self, stage: Stage) -> list[IterVar]:
        """The loops inside the one that a stage is attached to, and those that share its result."""
        parent, at = stage.attach_stage, stage.attach_ivar
        assert parent is not None
        name = at.var.name if at is not None else "?"
        request = f"compute_at({stage.op.name}, {parent.op.name}, {name})"
        if parent.attach_type == INLINE:
            raise LowerError(
                request,
                f"{parent.op.name} was inlined afterwards, and has no loops",
                f"attach {stage.op.name} at a stage that is computed",
            )
        if not any(leaf is at for leaf in parent.leaf_iter_vars):
            raise LowerError(
                request,
                f"{name} is no longer a loop of {parent.op.name}: it was fused with a loop inside "
                "it, or the stage began anew",
                "call compute_at after the parent's loops are final",
            )
        inner = parent.leaf_iter_vars[leaf_index(parent, at) + 1 :]
        for other in self.stages:
            if other is not stage and any(up is parent for up, _ in ancestors(other)):
                inner += other.leaf_iter_vars
        return inner + shared_loops(stage)

    def check_inside(self, stage: Stage, reader: Stage) -> None:
        """A reader must run inside the loop that the stage is attached to."""
        parent, at = stage.attach_stage, stage.attach_ivar
        assert parent is not None and at is not None
        if reader is parent:
            return
        request = f"compute_at({stage.op.name}, {parent.op.name}, {at.var.name})"
        loop = next((loop for up, loop in ancestors(reader) if up is parent), None)
        if loop is None:
            raise LowerError(
                request,
                f"{reader.op.name} reads {stage.op.name} too, and runs outside this loop",
                f"compute {reader.op.name} inside it as well, or {stage.op.name} at the root",
            )
        if leaf_index(parent, loop) < leaf_index(parent, at):
            raise LowerError(
                request,
                f"{reader.op.name} reads it and is computed at {loop.var.name}, further out",
                f"attach {stage.op.name} at {loop.var.name} or further out",
            )


def _span(ends: list[tuple[Any, Any]]) -> tuple[Any, Any] | None:
    """The first and the last index that is read; None where that is not known."""
    if not ends:
        return None
    low, high = ends[0]
    for lo, hi in ends[1:]:
        if lo is None or hi is None or low is None or high is None:
            return None
        below, above = lo - low, hi - high
        if not below.is_const or not above.is_const:
            return None
        low = lo if below.const < 0 else low
        high = hi if above.const > 0 else high
    return None if low is None or high is None else (low, high)
