"""A schedule: the stages of a computation, and the primitives that make new stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.absent import AbsentMember
from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.relations import INLINE, Fuse, IterVarAttr, Rebase, Singleton, Split
from whet.compiler.te.lang.tensor import Operation, Tensor
from whet.compiler.te.primitives.auto_inline import (
    AutoInlineBroadcast,
    AutoInlineElemWise,
    AutoInlineInjective,
)
from whet.compiler.te.primitives.cache import Caches
from whet.compiler.te.primitives.rfactor import Factors
from whet.compiler.te.stage import Stage
from whet.compiler.te.trace.steps import Trace
from whet.compiler.tir import expr as e
from whet.compiler.tir.expr import IterVar  # noqa: F401  (te.schedule.IterVar is TVM's)

if TYPE_CHECKING:
    from whet.compiler.te.show.schedule import Picture


__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "Fuse",
    "IterVarAttr",
    "Rebase",
    "Schedule",
    "Singleton",
    "Split",
    "Stage",
    "create_schedule",
]


#: the steps of lowering, which need this module themselves: fetched when they are first used
_STEPS = ("InferBound", "ScheduleOps", "SchedulePostProcToPrimFunc", "VerifyCompactBuffer")


def __getattr__(name: str) -> Any:
    if name in _STEPS:
        from whet.compiler.te.show.walkthrough import TABLE

        return TABLE[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def create_schedule(operations: Operation | Tensor | Sequence[Operation | Tensor]) -> Schedule:
    """The schedule of one operation or several, everything at its default: plain loops.

    Raises:
        ScheduleError: for anything else, or for none.
    """
    many: Sequence[Any] = operations if isinstance(operations, (list, tuple)) else [operations]
    found = [op.op if isinstance(op, Tensor) else op for op in many]
    for op in found:
        if not isinstance(op, Operation):
            raise ScheduleError(
                f"create_schedule({op!r})", f"a {type(op).__name__} is not an operation"
            )
    if not found:
        raise ScheduleError("create_schedule([])", "give at least one operation")
    return Schedule(list(dict.fromkeys(found)))


class Schedule(Caches, Factors):
    """Mutable stages over immutable operations.

    Attributes:
        outputs: the operations it was made for.
        stages: producers before consumers.
        groups: none, stages are not grouped.
        stage_map: operation -> stage; an operation that a primitive replaced still finds its stage.
        trace: every primitive applied, in order.
    """

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.outputs = list(outputs)
        self.stage_map: dict[Operation, Stage] = {}
        self.stages: list[Stage] = []
        self.groups: list[Stage] = []
        self.trace = Trace(list(outputs))
        self._read: dict[Operation, list[Tensor]] = {}
        for op in post_order(self.outputs):
            stage = Stage(self, op)
            stage.is_output = any(op is o for o in self.outputs)
            self.stages.append(stage)
            self.stage_map[op] = stage

    if not TYPE_CHECKING:  # type checkers know the names that are there

        def __getattr__(self, name: str) -> object:
            """An error that says where a primitive of TVM's went."""
            raise AbsentMember(Schedule, name)

    def copy(self) -> Schedule:
        """The same schedule with stages of its own; axes, tensors and operations are shared."""
        new = Schedule.__new__(Schedule)
        new.outputs, new.groups, new._read = list(self.outputs), [], {}
        new.trace = Trace(list(self.outputs), list(self.trace.steps))
        twins = {s: s.copied(new) for s in self.stages}
        for twin in twins.values():
            if twin.attach_stage is not None:
                twin.attach_stage = twins[twin.attach_stage]
        new.stages = list(twins.values())
        new.stage_map = {op: twins[s] for op, s in self.stage_map.items()}
        return new

    def normalize(self) -> Schedule:
        """A schedule of the same meaning in which every loop counts from 0.

        Each axis that is still a loop itself is followed by one that counts from 0 (a
        :class:`Rebase` relation). ``lower`` does as much on its own.

        Returns:
            Another schedule; this one stays as it is.
        """
        new = self.copy()
        rebased: dict[e.IterVar, e.IterVar] = {}
        places: list[tuple[Operation, int, e.IterVar]] = []  # what the trace calls them
        for stage in new.stages:
            if stage.attach_type != INLINE:
                of_stage = _rebase(stage)
                rebased.update(of_stage)
                for a in of_stage.values():
                    place = next(k for k, x in enumerate(stage.leaf_iter_vars) if x is a)
                    places.append((stage.origin_op, place, a))
        for stage in new.stages:
            if stage.attach_ivar is not None and stage.attach_ivar in rebased:
                stage.attach_ivar = rebased[stage.attach_ivar]
        new.record("normalize", None, (), {}, places)
        return new

    def show(self, path: str | None = None) -> Picture:
        """A drawing of the stages, their loops, and where each is attached.

        Args:
            path: a file to write it to, ``.html`` or ``.svg``.

        Returns:
            The picture: a notebook shows it; ``.svg`` and ``.html`` are its texts, ``.save(path)``
            writes it.

        Raises:
            ScheduleError: for a file name with another ending.
        """
        from whet.compiler.te.show.schedule import Picture

        picture = Picture.of(self)
        if path is not None:
            picture.save(path)
        return picture

    def __repr__(self) -> str:
        return f"Schedule({', '.join(s.op.name for s in self.stages)})"


def _rebase(stage: Stage) -> dict[e.IterVar, e.IterVar]:
    """Let every axis that is a loop be followed by one that counts from 0."""
    out: dict[e.IterVar, e.IterVar] = {}
    axes = {*stage.op.axis, *stage.op.reduce_axis}
    for k, leaf in enumerate(stage.leaf_iter_vars):
        attr = stage.iter_var_attrs.get(leaf)
        if leaf not in axes or (attr is not None and attr.bind_thread is not None):
            continue
        new = e.IterVar(None, e.Var(leaf.var.name, leaf.dtype), leaf.iter_type)
        stage.relations.append(Rebase(leaf, new))
        stage.all_iter_vars.append(new)
        stage.leaf_iter_vars[k] = new
        if attr is not None:
            stage.iter_var_attrs[new] = attr
        out[leaf] = new
    return out
