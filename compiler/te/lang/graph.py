"""Who reads whom in a schedule, and how its stages come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.tensor import Operation, Tensor
from whet.compiler.te.trace.steps import Step, Trace
from whet.compiler.tir import expr as e

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


class Graph:
    """The stages of a schedule; :class:`te.Schedule` is the whole."""

    outputs: list[Operation]
    stages: list[Stage]
    stage_map: dict[Operation, Stage]
    trace: Trace
    _read: dict[Operation, list[Tensor]]

    def __getitem__(self, key: Tensor | Operation) -> Stage:
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
        self.trace.append(Step.of(self, primitive, stage, args, options, out, op))

    def inputs(self, stage: Stage) -> list[Stage]:
        """The stages that a stage reads."""
        found: dict[int, Stage] = {}
        tensors = self._read.get(stage.op)
        if tensors is None:  # operations do not change, and looking through a body takes a while
            tensors = self._read[stage.op] = stage.op.input_tensors
        for t in tensors:
            s = self.stage_map[t.op]
            found.setdefault(id(s), s)
        return list(found.values())

    def consumers(self, stage: Stage) -> list[Stage]:
        """The stages that read a stage."""
        return [s for s in self.stages if any(x is stage for x in self.inputs(s))]

    def feeds(self, stage: Stage, reader: Stage) -> bool:
        """Whether ``reader`` reads a stage, itself or through others."""
        seen: set[int] = set()
        waiting = [reader]
        while waiting:
            for x in self.inputs(waiting.pop()):
                if x is stage:
                    return True
                if id(x) not in seen:
                    seen.add(id(x))
                    waiting.append(x)
        return False

    def _insert(self, before: Stage, op: Operation, scope: str) -> Stage:
        """A new stage for ``op``, computed before another one."""
        from whet.compiler.te.stage import Stage

        stage = Stage(self, op)  # type: ignore[arg-type]
        stage.scope = scope
        self.stages.insert(self.stages.index(before), stage)
        self.stage_map[op] = stage
        return stage

    def _replace(self, stage: Stage, op: Operation) -> None:
        """Let a stage compute something else, in plain loops; what was said of an axis stays."""
        said = stage.iter_var_attrs
        self._replace_body(stage, op)
        stage.reset_axes()
        stage.iter_var_attrs = {
            a: said[a] for a in op.axis if a in said and a.iter_type == e.DATA_PAR
        }

    def _replace_body(self, stage: Stage, op: Operation) -> None:
        stage.op = op
        self.stage_map[op] = stage


def post_order(outputs: Sequence[Operation]) -> list[Operation]:
    """Every operation, producers first; deep graphs do not hit Python's recursion limit."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if ready:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.input_tensors) if t.op not in seen)
    return order
