"""One run of a template with traced sizes: the structure that it shares with many configs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.autotune.features.loops.nests import Nests
from whet.autotune.features.loops.program import Program
from whet.compiler.tir.tracing.traced import Tape
from whet.search_spaces.knobs.entities import entity_of
from whet.search_spaces.template.config_scope import ConfigView, talking_to
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.search_spaces.space.config_space import ConfigSpace

Shape = Any
"""A choice with each int replaced by :data:`HOLE`."""
HOLE = ("int",)


def shape_of(choice: Any) -> tuple[Shape, list[int]]:
    """A choice's shape, and its ints in order."""
    if type(choice) is int:
        return HOLE, [choice]
    if not isinstance(choice, tuple):
        return (type(choice).__name__, choice), []
    shapes, ints = [], []
    for part in choice:
        shape, more = shape_of(part)
        shapes.append(shape)
        ints += more
    return tuple(shapes), ints


def filled(choice: Any, ints: list[Any]) -> Any:
    """A choice with its ints replaced, which are taken from the front of a list."""
    if type(choice) is int:
        return ints.pop(0)
    return tuple(filled(part, ints) for part in choice) if isinstance(choice, tuple) else choice


class TracedView(ConfigView):
    """A config as a template sees it, its ints replaced by traced ones."""

    def __init__(self, config: Config, space: ConfigSpace, choices: dict[str, Any]) -> None:
        super().__init__(config, space)
        self._choices = choices

    def __getitem__(self, name: Any) -> Any:
        super().__getitem__(name)  # refuses unknown names
        return entity_of(self.defined[name].kind, self._choices[name])


@dataclass(frozen=True)
class Run:
    """The outcome of a run.

    Attributes:
        events: of its tape.
        program: None where the template raised.
        error_type: the type of the exception that it raised.
        values: None, but where the template can be run with plain sizes only: the values of the
            program, which is this config's alone.
    """

    events: list[Any]
    program: Program | None
    error_type: type[Exception] | None = None
    values: list[Any] | None = None


def run(task: Task, config: Config, ranges: dict[str, list[tuple[int, int]]]) -> Run:
    """Run a task's template under a config with traced sizes.

    Args:
        task: whose template.
        config: which config.
        ranges: for each knob, the least and the greatest value of each int of its choice, over all
            choices of the same shape.

    A template that fails with traced sizes is run with plain ones.
    """
    tape = Tape()
    choices: dict[str, Any] = {}
    for name, choice in config.choices:
        ints = shape_of(choice)[1]
        mine = [tape.leaf(v, low, high) for v, (low, high) in zip(ints, ranges[name])]
        choices[name] = filled(choice, list(mine))
    try:
        return Run(tape.events, _program(task, config, choices, tape))
    except Exception as error:
        failed = error
    alone = run_plain(task, config)
    # Failing alike: so do all configs that take this way. Else nothing is known of others.
    alike = alone.program is None and alone.error_type is type(failed)
    return Run(tape.events, alone.program, alone.error_type, None if alike else alone.values)


def run_plain(task: Task, config: Config) -> Run:
    """Run a task's template under a config with its own sizes, which no other config shares."""
    tape = Tape()
    try:
        program = _program(task, config, dict(config.choices), tape)
    except Exception as error:
        return Run(tape.events, None, type(error), [])
    return Run(tape.events, program, values=tape.values)


def _program(task: Task, config: Config, choices: dict[str, Any], tape: Tape) -> Program:
    with task.target, talking_to(TracedView(config, task.config_space, choices)):
        schedule, _ = task.template.func(*task.workload.args)
        return Program(Nests(schedule), tape)
