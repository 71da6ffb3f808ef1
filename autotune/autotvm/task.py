"""``autotvm.task``: tasks and templates by AutoTVM's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.autotune.tasks.task import Task, create_task
from whet.compiler.errors import MissingName
from whet.search_spaces import get_config, template

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.search_spaces import Template

__all__ = ["Task", "create", "get_config", "template"]

_RELAY = "there is no Relay: whet.create_task(name, args=..., target=...) makes a task"
_SPACE = "its classes are in whet.search_spaces"
NOT_HERE = {
    "DispatchContext": "with whet.apply_best('whet.db'): ...",
    "args_to_workload": "a task has its workload: task.workload",
    "dispatcher": "with whet.apply_best('whet.db'): ...",
    "extract_from_multiple_program": _RELAY,
    "extract_from_program": _RELAY,
    "space": _SPACE,
}
"""TVM's names that are not here -> what to use instead."""


def create(
    task_name: str | Template,
    args: Sequence[Any],
    target: Target | str | dict | None,
    target_host: Target | str | None = None,
) -> Task:
    """:func:`whet.create_task` by AutoTVM's name.

    Args:
        task_name: the name of a template, or the template.
        args: its arguments.
        target: what to compile for.
        target_host: an older way to give ``Target(target, host=...)``.

    Raises:
        ArgumentError, SpaceError, TargetError: as ``create_task`` does.
    """
    if target_host is not None:
        from whet.compiler.target import Target

        target = Target(target if target is not None else "llvm", host=target_host)
    return create_task(task_name, args, target)


def __getattr__(name: str) -> Any:
    if name in NOT_HERE:
        raise MissingName(f"autotvm.task.{name}", "Whet has no such name", NOT_HERE[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
