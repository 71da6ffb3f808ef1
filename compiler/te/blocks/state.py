"""One function that a ``tir.Schedule`` rewrites: a schedule of te, and how its blocks look."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.blocks.create import scheduled_function
from whet.compiler.te.blocks.nests import BlockBounds, Scheduled, View, block_names
from whet.compiler.te.lang.relations import AT, INLINE
from whet.compiler.te.lang.tensor import Operation, PlaceholderOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.stage import Stage
from whet.compiler.tir.blocks.lower import SCHEDULED
from whet.compiler.tir.expr import IterVar
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import has_blocks


class FunctionState:
    """A function of blocks by its schedule.

    Attributes:
        schedule: the schedule of te, to which primitives are applied.
        view: what the blocks say besides.
    """

    def __init__(self, known: Scheduled, attrs: dict[str, Any]) -> None:
        self.known, self.attrs = known, attrs
        self.schedule: Schedule = known.schedule.copy()
        self.view: View = known.view.copy()
        self._bounds: BlockBounds | None = None
        self._function: PrimFunc | None = None

    @staticmethod
    def of(name: str, func: PrimFunc) -> FunctionState:
        """The state of a function that te made.

        Raises:
            ScheduleError: for a function that was written or changed by hand.
        """
        known = func.attrs.get(SCHEDULED)
        if isinstance(known, Scheduled) and known.body is func.body:
            return FunctionState(known, func.without_attr(SCHEDULED).attrs)
        why = "its blocks were written or changed by hand" if known or has_blocks(func.body) else (
            "it has no blocks, but loops"
        )  # fmt: skip
        raise ScheduleError(
            f"tir.Schedule({name})",
            f"{why}: only what te.create_prim_func made has a schedule",
            "write the computation with te.compute, and te.create_prim_func([A, B])",
        )

    def copy(self) -> FunctionState:
        """The same state, to be changed apart."""
        new = FunctionState.__new__(FunctionState)
        new.__dict__.update(self.__dict__)
        new.schedule, new.view = self.schedule.copy(), self.view.copy()
        new._bounds = None
        return new

    def changed(self) -> None:
        """Forget what was known of the schedule before a primitive."""
        self._bounds = self._function = None

    @property
    def bounds(self) -> BlockBounds:
        """The bounds of all loops.

        Raises:
            LowerError: where a stage is attached in vain.
        """
        if self._bounds is None:
            self._bounds = BlockBounds(self.schedule)
        return self._bounds

    @property
    def function(self) -> PrimFunc:
        """The function as it is now."""
        if self._function is None:
            known = self.known
            self._function = scheduled_function(
                self.schedule.copy(), self.view.copy(), known.args, known.buffers, self.attrs
            )
        return self._function

    # blocks and loops

    def blocks(self) -> list[Stage]:
        """The stages that are blocks."""
        return [s for s in self.schedule.stages if self.is_block(s)]

    def is_block(self, stage: Stage) -> bool:
        """True for a stage that is computed by loops of its own."""
        return not isinstance(stage.op, PlaceholderOp) and stage.attach_type != INLINE

    def names(self) -> dict[Stage, str]:
        """The name of each stage's block."""
        return block_names(self.schedule, self.view)

    def stage(self, op: Operation) -> Stage:
        """The stage that was made for an operation."""
        return self.schedule.stage_map[op]

    def loops(self, stage: Stage) -> list[tuple[Stage, IterVar]]:
        """The loops around a block, outermost first, each with the stage that it belongs to."""
        out: list[tuple[Stage, IterVar]] = []
        if stage.attach_type == AT and stage.attach_stage is not None:
            out = self.loops(stage.attach_stage)
            place = next(k for k, (_, a) in enumerate(out) if a is stage.attach_ivar)
            out = out[: place + 1]
        hidden = self.bounds.trivial(stage)
        shown = [a for a in stage.leaf_iter_vars if not any(a is x for x in hidden)]
        return [*out, *((stage, a) for a in shown)]

    def loop_name(self, axis: IterVar) -> str:
        """The name of a loop as the text shows it."""
        return self.view.names.get(axis) or axis.var.name.replace(".", "_")

    def extent(self, stage: Stage, axis: IterVar) -> int | None:
        """The steps of a loop; None where they are no constant."""
        extent = self.bounds.stages[stage].extents.get(axis)
        return extent.const if extent is not None and extent.is_const else None

    def attached(self, stage: Stage, axis: IterVar) -> list[Stage]:
        """The stages that are computed in a loop of another one."""
        return [
            s for s in self.schedule.stages if s.attach_stage is stage and s.attach_ivar is axis
        ]

    def reads(self, stage: Stage) -> list[Tensor]:
        """The tensors that a block reads, in the order of its text."""
        loads = self.bounds.reads(stage)
        return list(dict.fromkeys(Tensor(s.op, n.producer.value_index) for s, n in loads))

    def readers(self, tensor: Tensor) -> list[Stage]:
        """The stages that read a tensor, inlined ones included."""
        of = self.schedule.stage_map
        made = of[tensor.op]
        return [
            s
            for s in self.schedule.stages
            if any(
                of[t.op] is made and t.value_index == tensor.value_index for t in s.op.input_tensors
            )
        ]
