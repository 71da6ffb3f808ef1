"""A task: one workload for one target, and the space of programs that a search may choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.search_spaces import Config, ConfigSpace, Template, Workload


@dataclass(frozen=True)
class Task:
    """What is tuned: a workload, the canonical target, and the template that schedules it.

    Attributes:
        workload: the template's name and its arguments.
        target: a canonical target: features, vector width and threads filled in.
        template: the schedule template.
    """

    workload: Workload
    target: Target
    template: Template

    @property
    def name(self) -> str:
        """The template's name."""
        return self.workload.template

    @property
    def args(self) -> tuple:
        """The template's arguments, defaults included."""
        return self.workload.args

    @property
    def key(self) -> str:
        """A stable text that names the task: its workload and its target."""
        return f"{self.workload.key} {self.target.key}"

    @cached_property
    def config_space(self) -> ConfigSpace:
        """All configs of the template for these arguments, and the default one."""
        with self.target:
            return self.template.space(self.workload)

    @cached_property
    def flop(self) -> int:
        """Arithmetic operations of one call: the template's own number, else counted."""
        if self.config_space.flop:
            return int(self.config_space.flop)
        from whet.compiler import te

        schedule, _ = self.instantiate()
        return int(te.count_flop(schedule))

    @cached_property
    def dtype(self) -> str:
        """The element type of the task's last argument (its output, by custom); "" without any."""
        _, args = self.instantiate()
        return str(args[-1].dtype) if args else ""

    def instantiate(self, config: Config | None = None) -> tuple[Any, list]:
        """The schedule and the arguments under ``config`` (None: the default config)."""
        with self.target:
            return self.template.instantiate(self.workload, config or self.config_space.default)

    def __str__(self) -> str:
        return f"{self.workload} on {self.target}"


def create_task(
    name: str | Template, args: Sequence[Any] = (), target: Target | str | dict | None = None
) -> Task:
    """A task from a template, its arguments and a target.

    Args:
        name: the name of a template (``whet.list_templates()``), or the template itself.
        args: the template's arguments: numbers, strings, bools, None and nested tuples.
        target: what to compile for; None: the target in force, else this machine's CPU.

    Raises:
        ArgumentError: ``args`` is no tuple. A template checks the values when it is first run, at
            the latest when the task is built, tuned or asked for its space.
        SpaceError: no template has this name, or the arguments do not fit it.
        TargetError: the target is unknown or misspelt.
    """
    from whet.compiler.target import Target as TargetClass
    from whet.search_spaces import get_template

    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise ArgumentError(
            f"create_task({name!r}, args={args!r})",
            f"args is a {type(args).__name__}; it must be a tuple of the template's arguments",
            "one argument is written (x,)",
        )
    template = get_template(name) if isinstance(name, str) else name
    if target is None:
        target = TargetClass.current(allow_none=True) or "llvm"
    canonical = (target if isinstance(target, TargetClass) else TargetClass(target)).canonical()
    return Task(template.workload(*args), canonical, template)
