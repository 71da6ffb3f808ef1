"""A schedule: the stages of a computation, the primitives that make new stages, and its trace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.absent import missing_member
from whet.compiler.errors import ArgumentError, ScheduleError
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.relations import (
    ROOT,
    Fuse,
    IterVarAttr,
    Rebase,
    Singleton,
    Split,
    Transform,
)
from whet.compiler.te.lang.tensor import Operation, Tensor
from whet.compiler.te.primitives import cache, groups, scans
from whet.compiler.te.primitives import normalize as rebasing
from whet.compiler.te.primitives import rfactor as factoring
from whet.compiler.te.primitives.auto_inline import (
    AutoInlineBroadcast,
    AutoInlineElemWise,
    AutoInlineInjective,
)
from whet.compiler.te.schedule_trace.definitions import Record
from whet.compiler.te.schedule_trace.records import records
from whet.compiler.te.schedule_trace.replay import check_data, replay
from whet.compiler.te.schedule_trace.steps import StageRef, Step
from whet.compiler.te.schedule_trace.text import python_text
from whet.compiler.te.stage import Stage
from whet.compiler.tir import expr as e
from whet.compiler.tir.expr import IterVar  # noqa: F401  (te.schedule.IterVar is TVM's)

if TYPE_CHECKING:
    from whet.compiler.te.show.schedule import Picture
    from whet.compiler.tir.stmt import Stmt

__all__ = [
    "AutoInlineBroadcast", "AutoInlineElemWise", "AutoInlineInjective", "Fuse", "InferBound",
    "IterVarAttr", "Rebase", "Schedule", "ScheduleOps", "Singleton", "Split", "Stage", "Trace",
    "Transform", "create_schedule",
]  # fmt: skip


def create_schedule(operations: Operation | Tensor | Sequence[Operation | Tensor]) -> Schedule:
    """The schedule of one operation or several, everything at its default: plain loops.

    Raises:
        ScheduleError: for anything else, or for none.
    """
    many: Sequence[Any] = operations if isinstance(operations, (list, tuple)) else [operations]
    outputs = [op.op if isinstance(op, Tensor) else op for op in many]
    for op in outputs:
        if not isinstance(op, Operation):
            raise ScheduleError(
                f"create_schedule({op!r})", f"a {type(op).__name__} is not an operation"
            )
    if not outputs:
        raise ScheduleError("create_schedule([])", "give at least one operation")
    return Schedule(list(dict.fromkeys(outputs)))


class Schedule:
    """Mutable stages over immutable operations.

    Attributes:
        outputs: the operations it was made for.
        stages: producers before consumers.
        groups: what ``create_group`` made, in order.
        stage_map: operation -> stage; an operation that a primitive replaced still finds its stage.
        trace: every primitive applied, in order.
        tuned_by: where its config comes from, a ``TunedBy``; None: no log was asked.
    """

    tuned_by: Any = None
    # the primitives, a function each
    cache_write = cache.cache_write
    cache_read = cache.cache_read
    rfactor = factoring.rfactor
    create_group = groups.create_group
    normalize = rebasing.normalize

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.outputs: list[Operation] = list(outputs)
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
        scans.enter(self.stages)

    if not TYPE_CHECKING:  # type checkers know the names that are there

        def __getattr__(self, name: str) -> object:
            """An error that says where a primitive of TVM's went."""
            raise missing_member(Schedule, name)

    def __getitem__(self, key: Tensor | Operation | Stage) -> Stage:
        if isinstance(key, Stage) and any(key is g for g in self.groups):
            return key
        op = key.op if isinstance(key, Tensor) else key
        if not isinstance(op, Operation):
            raise ScheduleError(
                f"schedule[{key!r}]", "stages are found by a tensor or an operation"
            )
        if op not in self.stage_map:
            raise ScheduleError(
                f"schedule[{op.name}]",
                "Cannot find the operation: it is not part of this schedule",
                "stages: " + ", ".join(s.op.name for s in self.stages),
            )
        return self.stage_map[op]

    def record(
        self,
        primitive: str,
        stage: Stage | None,
        args: Sequence[Any],
        options: dict[str, Any],
        out: Sequence[Any],
        op: Operation | None = None,
    ) -> None:
        """Append a step to the trace; ``op`` is the stage's operation before the step."""
        where = None if stage is None else StageRef(stage.origin_op, op or stage.op)
        plain = tuple([a if type(a) is e.IterVar else self._named(a) for a in args])
        self.trace.append(Step(primitive, where, plain, options, tuple(out)))

    def _named(self, x: Any) -> Any:
        """An argument of a step, its stages and tensors named by their first operations."""
        if isinstance(x, Stage):
            return StageRef(x.origin_op, x.op)
        if isinstance(x, Tensor):
            return Tensor(self.stage_map[x.op].origin_op, x.value_index)
        if isinstance(x, (list, tuple)):
            return [self._named(y) for y in x]
        return x

    def inputs(self, stage: Stage) -> list[Stage]:
        """The stages that a stage reads."""
        tensors = self._read.get(stage.op)
        if tensors is None:  # operations do not change, and looking through a body takes a while
            tensors = self._read[stage.op] = stage.op.input_tensors
        return list(dict.fromkeys(self.stage_map[t.op] for t in tensors))

    def consumers(self, stage: Stage) -> list[Stage]:
        """The stages that read a stage."""
        return [s for s in self.stages if any(x is stage for x in self.inputs(s))]

    def feeds(self, stage: Stage, reader: Stage) -> bool:
        """True if ``reader`` reads a stage, itself or through others."""
        seen, waiting = set[int](), [reader]
        while waiting:
            for x in self.inputs(waiting.pop()):
                if x is stage:
                    return True
                if id(x) not in seen:
                    seen.add(id(x))
                    waiting.append(x)
        return False

    def insert_stage(self, before: Stage, op: Operation, scope: str, like: Stage) -> Stage:
        """A new stage for ``op``, computed before another one, in the group of ``like``."""
        stage = Stage(self, op)
        stage.scope, stage.group = scope, like.group
        self.stages.insert(self.stages.index(before), stage)
        self.stage_map[op] = stage
        stage.detach(ROOT)
        scans.join(stage)
        return stage

    def replace_op(self, stage: Stage, op: Operation) -> None:
        """Let a stage compute something else, in plain loops; annotations of its axes stay."""
        attrs = stage.iter_var_attrs
        self.replace_body(stage, op)
        stage.reset_axes()
        known = [a for a in op.axis if a in attrs and a.iter_type == e.DATA_PAR]
        stage.iter_var_attrs = {a: attrs[a] for a in known if attrs[a].tensor_intrin is None}

    def replace_body(self, stage: Stage, op: Operation) -> None:
        """Let a stage compute something else in the loops that it has."""
        stage.op = op
        self.stage_map[op] = stage

    def copy(self) -> Schedule:
        """The same schedule with stages of its own; axes, tensors and operations are shared."""
        new = Schedule.__new__(Schedule)
        new.outputs, new._read, new.tuned_by = list(self.outputs), {}, self.tuned_by
        new.trace = Trace(list(self.outputs), list(self.trace.steps))
        twins = {s: s.copied(new) for s in (*self.stages, *self.groups)}
        for twin in twins.values():
            twin.move(twins)
        new.stages, new.groups = ([twins[s] for s in x] for x in (self.stages, self.groups))
        new.stage_map = {op: twins[s] for op, s in self.stage_map.items()}
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


class Replayable(ABC):
    """Steps that can be printed, stored, and applied to another schedule."""

    __slots__ = ()

    @abstractmethod
    def records(self) -> tuple[list[Record], dict[str, Any]]:
        """The steps as plain data, and what it only names: variables and tensor intrinsics."""

    def to_json(self) -> list[Record]:
        """The steps as plain lists, dicts, strings and numbers, to be stored as JSON."""
        return self.records()[0]

    def __str__(self) -> str:
        return python_text(self.to_json())

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Replayable) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def apply(self, schedule: Schedule) -> Schedule:
        """Apply all steps to a schedule of the same computation, to which nothing was applied yet.

        Returns:
            The schedule; another one only where a step (``normalize``) makes another.

        Raises:
            ScheduleError: if a step does not fit the computation.
        """
        if not isinstance(schedule, Schedule):
            raise ScheduleError("replay a trace", f"a {type(schedule).__name__} is not a schedule")
        if len(schedule.trace):
            raise ScheduleError(
                "replay a trace",
                f"{len(schedule.trace)} steps were applied to this schedule before",
                "te.create_schedule(outputs) makes a new one",
            )
        data, symbols = self.records()
        return replay(data, schedule, symbols)

    def replay(self, outputs: Any) -> Schedule:
        """A new schedule of ``outputs`` (tensors or operations) with all steps applied."""
        return self.apply(create_schedule(outputs))


@dataclass(slots=True, eq=False)
class StoredTrace(Replayable):
    """A trace as plain data, without the computation that it was recorded on."""

    data: list[Record]

    def __len__(self) -> int:
        return sum("primitive" in record for record in self.data)

    def records(self) -> tuple[list[Record], dict[str, Any]]:
        """The data."""
        return self.data, {}


@dataclass(slots=True, eq=False)
class Trace(Replayable):
    """The steps in order; ``print(trace)`` shows them as Python that can be run.

    The text needs ``te``, and ``s``, a schedule of the same computation to which nothing was
    applied yet; with ``tensorize`` also ``intrinsics``, a dict of them by their names. Two traces
    are equal when they do the same to equal computations.
    """

    outputs: list[Operation] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def append(self, step: Step) -> None:
        """Add a step."""
        self.steps.append(step)

    def __len__(self) -> int:
        return len(self.steps)

    def records(self) -> tuple[list[Record], dict[str, Any]]:
        """The steps as plain data, and the variables and intrinsics that it only names."""
        return records(self.outputs, self.steps)

    @staticmethod
    def from_json(data: list[Record]) -> StoredTrace:
        """A trace that was stored.

        Raises:
            ScheduleError: if the data is none.
        """
        check_data(data)
        return StoredTrace(data)


def InferBound(schedule: Schedule) -> dict[e.IterVar, e.Range]:
    """The range of every axis and loop of every stage that is computed.

    Raises:
        ArgumentError: for anything but a schedule.
        LowerError: if a stage is attached in vain.
    """
    from whet.compiler.te.show import walkthrough

    return walkthrough.infer_bound(_checked(schedule, "InferBound"))


def ScheduleOps(
    schedule: Schedule,
    bounds: Mapping[e.IterVar, e.Range] | None = None,
    debug_keep_trivial_loop: bool = False,
) -> Stmt:
    """The loops of a schedule, before any pass.

    Args:
        schedule: what to lower.
        bounds: what ``InferBound`` gave; it follows from the schedule.
        debug_keep_trivial_loop: loops of one step are there before the passes in any case.

    Raises:
        ArgumentError: for anything but a schedule.
        LowerError: if it cannot be lowered.
    """
    from whet.compiler.te.show import walkthrough

    return walkthrough.schedule_statement(_checked(schedule, "ScheduleOps"))


def _checked(schedule: Any, request: str) -> Schedule:
    if not isinstance(schedule, Schedule):
        raise ArgumentError(request, f"a {type(schedule).__name__} is not a schedule")
    return schedule


def __getattr__(name: str) -> Any:
    """TVM's last steps of lowering, which few use: loaded when they are needed."""
    if not name.startswith("_"):  # imports ask for __path__ and the like, too
        from whet.compiler.te.show import walkthrough

        if name in walkthrough.STEPS:
            return walkthrough.STEPS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
