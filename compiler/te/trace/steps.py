"""The trace of a schedule: each primitive that was applied, to print as Python and to replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.te.lang.tensor import Operation, Tensor
from whet.compiler.te.primitives.compute_at import Placed
from whet.compiler.tir import expr as e

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule

#: the methods of a schedule and of a stage that a step may name
ON_SCHEDULE = frozenset({"cache_read", "cache_write", "rfactor", "normalize"})
ON_STAGE = frozenset({
    "split", "fuse", "reorder", "tile", "vectorize", "unroll", "parallel", "bind", "env_threads",
    "pragma", "compute_at", "compute_inline", "compute_root", "compute_ahead", "set_scope",
    "storage_align", "double_buffer", "set_store_predicate", "store_nontemporal",
})  # fmt: skip


@dataclass(slots=True, frozen=True, eq=False)
class StageRef:
    """A stage as a step names it: by the operation that it was made for.

    ``op`` is what the stage computed just before the step; it has the axes that the step names.
    """

    origin: Operation
    op: Operation


@dataclass(slots=True, frozen=True, eq=False)
class Step:
    """One primitive: its name, its stage, arguments, options and what came back."""

    primitive: str
    stage: StageRef | None
    args: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[Any, ...]

    @staticmethod
    def of(
        schedule: Any,
        primitive: str,
        stage: Any,
        args: Sequence[Any],
        options: dict[str, Any],
        results: Sequence[Any],
        op: Operation | None = None,
    ) -> Step:
        """A step, its stages and tensors named by the operations that they were made for."""
        where = None if stage is None else StageRef(stage.origin_op, op or stage.op)
        plain = tuple([a if type(a) is e.IterVar else _ref(schedule, a) for a in args])
        return Step(primitive, where, plain, options, tuple(results))


def _ref(schedule: Any, x: Any) -> Any:
    if isinstance(x, Placed):
        return StageRef(x._stage.origin_op, x.op)
    if isinstance(x, Tensor):
        return Tensor(schedule.stage_map[x.op].origin_op, x.value_index)
    if isinstance(x, (list, tuple)):
        return [_ref(schedule, y) for y in x]
    return x


@dataclass(slots=True, eq=False)
class Trace:
    """The steps in order; ``print(trace)`` shows them as Python that can be run.

    The text needs two names: ``te``, and ``s``, a schedule of the same computation to which
    nothing was applied yet. Two traces are equal when they do the same to equal computations.
    """

    outputs: list[Operation] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def append(self, step: Step) -> None:
        """Add a step."""
        self.steps.append(step)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        from whet.compiler.te.trace.text import python_text

        return python_text(self.to_json())

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, (Trace, StoredTrace)) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> list[dict[str, Any]]:
        """The steps as plain lists, dicts, strings and numbers, to be stored as JSON."""
        from whet.compiler.te.trace.records import records

        return records(self)[0]

    @staticmethod
    def from_json(data: list[dict[str, Any]]) -> StoredTrace:
        """A trace that was stored.

        Raises:
            ScheduleError: if the data is none.
        """
        return StoredTrace.checked(data)

    def apply(self, schedule: Schedule) -> Schedule:
        """Apply all steps to a schedule of the same computation, to which nothing was applied yet.

        Returns:
            The schedule; another one only where a step (``normalize``) makes another.

        Raises:
            ScheduleError: if a step does not fit the computation.
        """
        from whet.compiler.te.trace.records import records
        from whet.compiler.te.trace.replay import replay

        data, symbols = records(self)
        return replay(data, schedule, symbols)

    def replay(self, outputs: Any) -> Schedule:
        """A new schedule of ``outputs`` (tensors or operations) with all steps applied."""
        from whet.compiler.te.schedule import create_schedule

        return self.apply(create_schedule(outputs))


@dataclass(slots=True, eq=False)
class StoredTrace:
    """A trace as plain data, without the computation that it was recorded on."""

    data: list[dict[str, Any]]

    @staticmethod
    def checked(data: Any) -> StoredTrace:
        """The data as a trace."""
        from whet.compiler.te.trace.replay import check_data

        check_data(data)
        return StoredTrace(data)

    def __len__(self) -> int:
        return sum("primitive" in record for record in self.data)

    def __str__(self) -> str:
        from whet.compiler.te.trace.text import python_text

        return python_text(self.data)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, (Trace, StoredTrace)) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> list[dict[str, Any]]:
        """The plain data."""
        return self.data

    def apply(self, schedule: Schedule) -> Schedule:
        """Apply all steps to a schedule; see :meth:`Trace.apply`."""
        from whet.compiler.te.trace.replay import replay

        return replay(self.data, schedule, {})

    def replay(self, outputs: Any) -> Schedule:
        """A new schedule of ``outputs`` with all steps applied."""
        from whet.compiler.te.schedule import create_schedule

        return self.apply(create_schedule(outputs))
